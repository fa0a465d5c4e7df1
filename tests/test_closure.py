"""What a step runs against what its identity counts: no module that bears on a result is forgotten, none is listed for nothing."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from slca_core.config import ARMS, REPOSITORY, Arm, CpuProfile, load_arm
from slca_core.records import pins
from tasks import curate, evaluate, finetune, train

# Module -> why no identity has it. What it imports is not followed.
NOT_COUNTED = {
    "benchmarks.journal": "where answers are kept until an evaluation ends",
    "config": "its values are in the identity, each by its name",
    "records.digests": "says what a file is faster",
    "processes.disk": "says that a disk is full",
    "errors": "classes and their sentences",
    "records.fingerprint": "makes identities",
    "records.json_lines": "lines of a file to mappings and back",
    "records.lock": "that no two runs make one step at once",
    "records.outputs": "compares files with their record",
    "records.store": "finds and keeps steps",
    "results": "columns of per-item results; evaluations list it",
    "secrets": "keys by reference",
    "services.breaker": "when a silent service is given up",
    "processes.forked": "a forked process's own start",
    "processes.forkserver": "starts processes faster",
    "processes.leftovers": "removes what killed runs left",
    "services.policy_server": "an address",
    "processes.supervise": "starts and ends servers",
    "processes.die_with_parent": "ends a process with its parent",
    "services.usage": "counts calls",
    "services.planner_proxy": "listed where a checkpoint of its own writes the closing summaries",
    "trainer.launch": "starts a module in a process",
    "trainer.loopback": "which addresses are listened on",
    "yaml_bounds": "refuses files that are too deep",
}
# Package -> why no identity has its version.
PACKAGES_NOT_COUNTED = {
    **dict.fromkeys(("httpx", "httpx-aiohttp", "aiohttp"), "carries text as it is"),
    **dict.fromkeys(("bfcl-eval", "openai", "tau2", "litellm", "loguru"), "the benchmark's own lock has it"),
    "filelock": "locks",
    "pandas": "metrics as a table, computed by Python",
    "pydantic": "reads settings that are in the identity",
}


def every_training_code() -> tuple[str, ...]:
    arms = [Arm.model_validate(load_arm(path.stem)) for path in ARMS.glob("*.yaml")]
    return tuple(dict.fromkeys(module for arm in arms for module in train.training_code(arm)))


# Step -> (where its work begins, the modules that its identity has, the packages).
STEPS = {
    "curate": (
        ("curation.pipeline", "curation.ready", "curation.synthetic.generator", "standins.mocker"),
        curate.CODE,
        (*pins.TOOL_SCHEMAS, *pins.TABLES),
    ),
    "policy": (("policy", "trainer.demonstrations"), finetune.POLICY_CODE, pins.POLICY),
    "finetune": (("trainer.run_sft", "trainer.demonstrations", "trainer.arguments"), finetune.CODE, pins.SFT),
    "train": (("trainer.run_rl", "trainer.agent", "trainer.prompt_set"), every_training_code(), pins.RL),
    "evaluate": (("benchmarks.toucan", "trainer.serve", "curation.rows"), evaluate.CODE, (*pins.ROLLOUTS, *pins.TABLES)),
    "bfcl": (("benchmarks.bfcl", "benchmarks.workers.bfcl_worker"), evaluate.BFCL_CODE, pins.SERVING),
    "tau2": (("benchmarks.tau2", "benchmarks.workers.tau2_worker"), evaluate.TAU2_CODE, pins.SERVING),
}


def path_of(module: str) -> Path | None:
    place = REPOSITORY / Path(*module.split("."))
    return next((path for path in (place / "__init__.py", place.with_suffix(".py")) if path.is_file()), None)


def imports(module: str) -> Iterator[str]:
    """Modules and packages that a module imports, wherever in it; not what only a type checker reads."""
    todo: list[ast.AST] = [ast.parse(path_of(module).read_text())]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        todo += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            modules = [f"{node.module}.{name.name}" for name in node.names if path_of(f"{node.module}.{name.name}")]
            yield from modules or [node.module]


def closure(entries: Sequence[str]) -> tuple[set[str], set[str]]:
    """(own modules, packages) that bear on what begins at the entries."""
    seen, packages = set(), set()
    todo = [f"slca_core.{entry}" for entry in entries]
    while todo:
        module = todo.pop()
        if module in seen or module.removeprefix("slca_core.") in NOT_COUNTED:
            continue
        seen.add(module)
        for name in imports(module):
            if name.partition(".")[0] == "slca_core":
                todo.append(name)
            elif (package := name.partition(".")[0]) not in sys.stdlib_module_names:
                packages.add(package.replace("_", "-"))
    return seen, packages


def is_in(module: str, listed: str) -> bool:
    return module == listed or module.startswith(f"{listed}.")


@pytest.mark.parametrize("step", STEPS)
def test_the_identity_counts_what_the_step_runs_and_nothing_else(step):
    entries, code, _ = STEPS[step]
    modules, _ = closure(entries)
    assert sorted(module for module in modules if not any(is_in(module, listed) for listed in code)) == []
    assert [listed for listed in code if not any(is_in(module, listed) for module in modules)] == []


@pytest.mark.parametrize("step", STEPS)
def test_the_identity_counts_the_packages_the_step_imports(step):
    entries, _, counted = STEPS[step]
    _, packages = closure(entries)
    assert packages - set(counted) - PACKAGES_NOT_COUNTED.keys() == set()


def test_what_is_not_counted_is_there():
    assert [module for module in NOT_COUNTED if path_of(f"slca_core.{module}") is None] == []


def test_every_counted_package_is_pinned_for_the_cpu():
    counted = {name for _, _, packages in STEPS.values() for name in packages} - {"vllm"}
    assert counted - pins.pinned(CpuProfile(), counted).keys() == set()
