"""The benchmarks a checkpoint is evaluated on. Toucan-Test now; BFCL V3 and tau2-bench have their place here."""
