"""`slca ui`: MLflow's pages on a study's runs, for as long as the command lasts."""

from __future__ import annotations

import sys
from pathlib import Path

from slca_core.config import Study
from slca_core.errors import ConfigError, ServiceError
from slca_core.processes.supervise import LOOPBACK, require_free, start, stop, tail
from slca_core.terminal import terminal
from tasks.mlflow_store import open_store, store_lock, store_path, store_uri
from tasks.orchestration.workspace import Workspace

console = terminal()
# A viewer needs one worker and nothing that works through jobs: 15 processes and 2.8 GB else.
_ENVIRONMENT = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}


def show(study: Study, study_file: Path, port: int) -> None:
    """Serves the pages until Ctrl-C or SIGTERM, and leaves no process behind."""
    workspace = Workspace(study)
    if not store_path(workspace.root).is_file():
        raise ConfigError(
            f"An MLflow store was expected at {store_path(workspace.root)}, there is none yet. Run: slca run {study_file}"
        )
    require_free(port, "MLflow's pages")
    with store_lock(workspace.root):
        open_store(workspace.root)
    where = ("--backend-store-uri", store_uri(workspace.root), "--host", LOOPBACK, "--port", str(port))
    log = workspace.logs / "mlflow.log"
    # However this process ends, its child is tethered to it.
    pages = start([sys.executable, "-m", "mlflow", "server", "--workers", "1", *where], log, _ENVIRONMENT)
    try:
        console.print(f"MLflow: http://{LOOPBACK}:{port}  (experiment {study.name}; Ctrl-C ends it)")
        pages.wait()
    finally:
        stop(pages)
    raise ServiceError(f"MLflow's pages ended with code {pages.returncode}. The end of {log}:\n{tail(log)}")
