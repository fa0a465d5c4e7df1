"""Thin tasks, one a step: resolve what the step is, look for its record, call slca_core or a launcher, write the record, log to MLflow."""
