"""Thin tasks, one a step: name the step, look for its record, call slca_core or a launcher, write the record, tell MLflow."""
