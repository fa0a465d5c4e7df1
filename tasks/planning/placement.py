"""On what a step runs: no part of what it is, but of how long it takes. Estimates come from steps placed alike."""

from __future__ import annotations

import json
from typing import Any

from slca_core.config import CpuProfile, Study
from slca_core.parameters import parameter_count
from slca_core.policy import architecture


def placement(study: Study) -> dict[str, Any]:
    """Kind and size of the machine, size of the policy (None while its checkpoint is not there)."""
    machine = study.machine
    workers = machine.threads if isinstance(machine, CpuProfile) else machine.gpus
    return {"machine": machine.kind, "workers": workers, "side_by_side": machine.parallel, "parameters": policy_parameters(study)}


def policy_parameters(study: Study) -> int | None:
    if study.policy.scratch:
        return parameter_count(architecture(study.policy.scratch))
    config = study.policy.checkpoint / "config.json"
    return parameter_count(json.loads(config.read_text())) if config.is_file() else None
