"""A study that is killed at random, again and again, ends where an undisturbed one does."""

from __future__ import annotations

import random
import shutil
import sys
from pathlib import Path

import pytest
import yaml
from prefect.settings import PREFECT_API_URL

from slca_core.config import Study, load_study
from tests.chaos import kills, outcome

UPDATES, KILLS = 12, 12
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


@pytest.fixture
def study_at(tmp_path_factory):
    def make(name: str) -> tuple[Study, Path]:
        folder = tmp_path_factory.mktemp(name)
        path = folder / "study.yaml"
        path.write_text(yaml.safe_dump({**STUDY, "root": str(folder / "state")}))
        return load_study(path), path

    return make


@pytest.fixture
def start(prefect_server):
    def starting(path: Path):
        command = [sys.executable, "-m", "tests.chaos.scripted", str(path)]
        return kills.starter(command, path.with_name("log"), {"PREFECT_API_URL": PREFECT_API_URL.value()})

    return starting


@pytest.mark.e2e
def test_a_study_killed_at_random_ends_as_an_undisturbed_one(study_at, start):
    undisturbed, path = study_at("undisturbed")
    assert start(path)().wait(300) == 0, path.with_name("log").read_text()[-2000:]
    expected = outcome.tables(undisturbed), outcome.checkpoints(undisturbed)
    draw, done = random.Random(0), []
    while len(done) < KILLS:
        study, path = study_at("disturbed")
        for step in ("curate", "policy"):  # Not what this is about, and no step of theirs is short.
            shutil.copytree(undisturbed.root / "artifacts" / step, study.root / "artifacts" / step)
        done += kills.disturb(start(path), study, draw, kills=KILLS - len(done), within_s=12)
        outcome.check_books(study, UPDATES)
        assert (outcome.tables(study), outcome.checkpoints(study)) == expected
    assert len({kill.victim for kill in done}) >= 2, f"kinds of processes that were killed: {done}"


@pytest.mark.e2e
def test_two_runs_at_once_do_no_step_twice(study_at, start):
    study, path = study_at("twice")
    first, second = start(path)(), start(path)()
    assert (first.wait(300), second.wait(300)) == (0, 0), path.with_name("log").read_text()[-2000:]
    outcome.check_books(study, UPDATES)
    alone, path = study_at("alone")
    assert start(path)().wait(300) == 0
    assert (outcome.tables(study), outcome.checkpoints(study)) == (outcome.tables(alone), outcome.checkpoints(alone))
