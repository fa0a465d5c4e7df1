"""Who may import what: the core stays free of the orchestrator, and one package alone knows the training stack."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from slca_core.config import REPOSITORY

CORE = REPOSITORY / "slca_core"
TRAINER = CORE / "trainer"
FILES = sorted(CORE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Top-level packages of all imports of a file, those inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CORE)))
def test_the_core_knows_nothing_of_prefect_mlflow_or_the_layers_above_it(path):
    assert not imported(path) & {"prefect", "mlflow", "tasks", "flows"}


@pytest.mark.parametrize(
    "path", [path for path in FILES if not path.is_relative_to(TRAINER)], ids=lambda path: str(path.relative_to(CORE))
)
def test_only_the_trainer_imports_ray_vllm_or_openrlhf(path):
    assert not imported(path) & {"ray", "vllm", "openrlhf", "deepspeed"}


def test_the_rollout_actor_on_cuda_does_not_load_the_cpu_adapter():
    tree = ast.parse((TRAINER / "gpu.py").read_text(encoding="utf-8"))
    names = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not [name for name in names if name and ".cpu" in name]


def test_the_advantages_can_be_had_without_the_training_stack():
    heavy = ("ray", "vllm", "openrlhf", "deepspeed", "transformers", "prefect", "mlflow")
    code = f"import sys, slca_core.credit.advantages; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_command_says_where_state_lies_before_prefect_and_mlflow_are_imported():
    code = "import sys, flows.cli.main; print([name for name in ('prefect', 'mlflow') if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
