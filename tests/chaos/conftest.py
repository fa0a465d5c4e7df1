"""A scripted study, what starts it, and what it says where nobody disturbs it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from prefect.settings import PREFECT_API_URL

from slca_core.config import Study, load_study
from tests.chaos import kills, outcome

UPDATES = 12
STUDY = {
    "name": "scripted",
    "arms": ["grpo", "slca", "wo_slca"],
    "data": {"generated": {"count": 120}, "test_size": 8, "sft_fraction": 0.6},
    "policy": {"scratch": {"vocab_size": 900, "hidden_size": 64, "intermediate_size": 128, "layers": 1, "heads": 2}},
    "sft": {"max_length": 320, "batch_size": 4, "micro_batch_size": 4},
    "rl": {
        **{"updates": UPDATES, "checkpoint_every": 3, "prompts_per_update": 4, "minibatch_prompts": 4, "group_size": 4},
        **{"max_length": 512, "response_tokens": 96},
    },
}


def write_study(folder: Path, **changes) -> tuple[Study, Path]:
    """The study and its file in a folder; its root is there too, unless `changes` name another."""
    path = folder / f"{changes.get('name', 'study')}.yaml"
    path.write_text(yaml.safe_dump({**STUDY, "root": str(folder / "state"), **changes}))
    return load_study(path), path


@pytest.fixture(scope="session")
def start(prefect_server) -> Callable[[Path], Callable]:
    def starting(path: Path):
        command = [sys.executable, "-m", "tests.chaos.scripted", str(path)]
        return kills.starter(command, path.with_name("log"), {"PREFECT_API_URL": PREFECT_API_URL.value()})

    return starting


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory, start) -> tuple[Study, tuple]:
    """The study, and what it says: (tables, checkpoints)."""
    study, path = write_study(tmp_path_factory.mktemp("undisturbed"))
    assert start(path)().wait(600) == 0, path.with_name("log").read_text()[-2000:]
    return study, (outcome.tables(study), outcome.checkpoints(study))
