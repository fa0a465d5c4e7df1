"""Where a study lives on disk: everything below its root."""

from __future__ import annotations

from pathlib import Path

from slca_core.config import Study
from slca_core.records.digests import DigestCache
from slca_core.records.store import Store, digest_cache_path
from tasks import QUIET
from tasks.orchestration.progress import say


class Workspace:
    def __init__(self, study: Study) -> None:
        self.study = study
        self.root: Path = study.root.resolve()
        self.store = Store(self.root, say=say)
        self.inputs = DigestCache(digest_cache_path(self.root))

    @property
    def logs(self) -> Path:
        return self.root / "logs" / self.study.name

    @property
    def reports(self) -> Path:
        return self.root / "reports" / self.study.name


def quiet_environment(root: Path) -> dict[str, str]:
    """State of Prefect and MLflow below the root, and nothing that calls home. To be set before either is imported."""
    root = root.resolve()
    return {
        **QUIET,
        # Each by name: a shell or a profile may have them elsewhere, in the root that this one was copied from say.
        "PREFECT_HOME": str(root / "prefect"),
        "PREFECT_LOCAL_STORAGE_PATH": str(root / "prefect" / "storage"),
        "PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{root / 'prefect' / 'prefect.db'}",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
        "PREFECT_LOGGING_LEVEL": "WARNING",
        # A failed task or flow raises, and the command line says why in a sentence; tracebacks stay in Prefect's own log.
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
        # Its pages lack an event when its server was away; that the server was, is said.
        "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
        "MLFLOW_LOGGING_LEVEL": "WARNING",
        "MLFLOW_TRACKING_URI": f"sqlite:///{root / 'mlflow.db'}",
        "HF_HOME": str(root / "cache" / "huggingface"),
        "MPLCONFIGDIR": str(root / "cache" / "matplotlib"),
        "GIT_PYTHON_REFRESH": "quiet",
    }
