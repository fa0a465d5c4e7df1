"""What the SLCA-GRPO paper is about: segments, estimators, rewards, simulator, curation. Nothing here imports Prefect or MLflow."""
