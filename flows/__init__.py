"""The Prefect flows: wiring only."""
