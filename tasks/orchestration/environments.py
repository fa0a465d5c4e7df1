"""Environments of benchmarks whose pins clash with ours: built when a study first wants one."""

from __future__ import annotations

from pathlib import Path

from slca_core.benchmarks import bfcl, environment, tau2
from slca_core.config import REPOSITORY, Study, Tau2Config
from slca_core.errors import ConfigError
from slca_core.records.fingerprint import digest, file_digest
from slca_core.records.store import not_there
from tasks.orchestration.progress import say
from tasks.orchestration.workspace import Workspace

_BFCL_LOCK, _TAU2_LOCK = (REPOSITORY / "requirements" / f"bench-{name}.txt" for name in ("bfcl", "tau2"))


def require_bfcl() -> Path:
    """The interpreter of BFCL's environment."""
    return environment.require(bfcl.ENVIRONMENT, _BFCL_LOCK, say=say)


def require_tau2(config: Tau2Config) -> Path:
    """The interpreter of tau2-bench's environment: the study's own, or the one that is packaged."""
    if config.python is None:
        return environment.require(tau2.ENVIRONMENT, _TAU2_LOCK, say=say)
    if config.data_dir and not (config.data_dir / "tau2" / "domains").is_dir():
        raise ConfigError(
            f"The data of {config.version} was expected in {config.data_dir} (evaluation.tau2.data_dir); it has no tau2/domains. "
            "Name the folder `data` of a checkout of github.com/sierra-research/tau2-bench."
        )
    if not config.python.is_file():
        raise ConfigError(
            f"The interpreter of an environment with {config.version} was expected at {config.python} (evaluation.tau2.python), "
            "there is none. In a checkout of github.com/sierra-research/tau2-bench: python -m venv .venv && .venv/bin/pip install ."
        )
    return config.python.absolute()


def installed(study: Study, benchmark: str) -> dict[str, str]:
    """Digests of what a benchmark's code and data are installed from: our lock, or the files of an official install's data."""
    if benchmark == bfcl.NAME:
        return {"bfcl lock": file_digest(_BFCL_LOCK)}
    config = study.evaluation.tau2
    if config is None or config.python is None:
        return {"tau2 lock": file_digest(_TAU2_LOCK)}
    if config.data_dir is None:
        return {}
    if not config.data_dir.is_dir():
        return {"tau2 data": not_there(config.data_dir)}
    root, of_file = config.data_dir / "tau2", Workspace(study).inputs.file_digest
    files = sorted(path for part in ("domains", "user_simulator") for path in (root / part).rglob("*") if path.is_file())
    return {"tau2 data": digest({path.relative_to(root).as_posix(): of_file(path) for path in files})}
