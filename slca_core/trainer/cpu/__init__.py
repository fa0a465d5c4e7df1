"""What stock OpenRLHF 0.11.2 needs to run without a GPU. Nothing here but settings is imported where CUDA is present."""
