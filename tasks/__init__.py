"""Thin tasks, one a step: name the step, look for its record, call slca_core or a launcher, write the record, tell MLflow."""

import os

# What keeps dependencies from calling home, wherever state lies. Set before MLflow is imported, also where a Prefect worker and not
# `slca` starts a flow.
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}
for _name, _value in QUIET.items():
    os.environ.setdefault(_name, _value)
