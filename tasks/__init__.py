"""Thin tasks, one a step: name the step, look for its record, call slca_core or a launcher, write the record, tell MLflow."""

import os

# Before MLflow is imported, also where a Prefect worker and not `slca` starts a flow.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("DO_NOT_TRACK", "true")
