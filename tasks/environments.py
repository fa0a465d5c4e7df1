"""Environments of benchmarks whose pins clash with ours: built by make when a study first wants one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from filelock import FileLock

from slca_core.benchmarks import bfcl, tau2
from slca_core.config import REPOSITORY, Tau2Config
from slca_core.errors import ConfigError
from tasks.progress import say


def require_bfcl() -> Path:
    """The interpreter of BFCL's environment."""
    return _require(bfcl.ENVIRONMENT, "bench-bfcl", "BFCL V3's own code, half a gigabyte")


def require_tau2(config: Tau2Config) -> Path:
    """The interpreter of tau2-bench's environment: the study's own, or the one that is packaged."""
    if config.python is None:
        return _require(tau2.ENVIRONMENT, "bench-tau2", f"tau2-bench as {config.version} packs it, a gigabyte")
    if not config.python.is_file():
        raise ConfigError(
            f"The interpreter of an environment with {config.version} was expected at {config.python} (evaluation.tau2.python), "
            "there is none. In a checkout of github.com/sierra-research/tau2-bench: python -m venv .venv && .venv/bin/pip install ."
        )
    return config.python.absolute()


def _require(environment: Path, target: str, what: str) -> Path:
    complete = environment / ".complete"
    with FileLock(environment.with_suffix(".lock")):
        if not complete.exists():
            say(f"building {environment.name} once: {what}")
            made = subprocess.run(
                ["make", target, f"PYTHON={sys.executable}"],
                cwd=REPOSITORY,
                env={**os.environ, "PIP_NO_INPUT": "1"},
                capture_output=True,
                text=True,
                check=False,
            )
            if made.returncode:
                end = "\n".join((made.stdout + made.stderr).splitlines()[-10:])
                raise ConfigError(f"{what} was expected to install (make {target}); it ended with code {made.returncode}:\n{end}")
    return environment / "bin" / "python"
