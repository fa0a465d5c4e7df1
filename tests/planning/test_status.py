"""Where a study stands, from its folders alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli.main import app
from slca_core.config import Study, load_study
from slca_core.errors import DataError
from slca_core.records.lock import HOLDER, hold
from tasks.orchestration.workspace import Workspace
from tasks.planning.plan import make_plan
from tasks.planning.status import Progress, progress
from tests.planning.test_plan import finish, make, study_file  # noqa: F401

LINE = {"r_tool": 0.5, "r_sum": 0.25, "seconds_total": 30.0, "rollouts": 16}


def step_of(study: Study, name: str):
    return next(one for one in make_plan(study).steps if one.name == name)


@pytest.fixture
def training(study_file):  # noqa: F811
    """A study whose training of slca has one of two updates behind it: (study, planned step, its folder)."""
    study = load_study(study_file)
    while (one := step_of(study, "train slca, seed 1")).reason != "never made":
        make(study, make_plan(study).to_run[0].step)
    folder = Workspace(study).store.folder(one.step)
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text(json.dumps({"update": 1, **LINE}) + "\n")
    return study, one, folder


def test_a_step_being_made_shows_its_update_rewards_and_time_left(training):
    study, one, folder = training
    with hold(folder, pytest.fail):
        while not (folder / HOLDER).exists():
            pass
        assert progress(study, one) == Progress("running", "update 1 of 2  R_tool 0.50  R_sum 0.25", "30 s left")


def test_a_step_that_was_interrupted_is_stopped_even_if_its_holder_left_its_name(training):
    study, one, folder = training
    (folder / HOLDER).write_text(json.dumps({"pid": 1, "host": "h", "since": 0, "alive_at": 0}))
    assert progress(study, one).state == "stopped"


def test_a_step_that_failed_says_why_and_one_that_was_taken_up_again_does_not(training):
    study, one, _ = training
    store = Workspace(study).store

    def fail(_: Path) -> tuple[str, dict]:
        raise DataError("No space left on the disk of /data.")

    with pytest.raises(DataError):
        store.run(one.step, fail)
    why = "update 1 of 2  R_tool 0.50  R_sum 0.25  No space left on the disk of /data."
    assert progress(study, one) == Progress("stopped", why, "30 s left")

    def end(_: Path) -> tuple[str, dict]:
        assert progress(study, one).note == "update 1 of 2  R_tool 0.50  R_sum 0.25"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.run(one.step, end)
    assert progress(study, one).note == "update 1 of 2  R_tool 0.50  R_sum 0.25"


def test_steps_done_shared_and_waiting_are_told_apart(training):
    study, _, _ = training
    found = {one.name: progress(study, one).state for one in make_plan(study).steps}
    assert (found["curate"], found["train wo_slca, seed 1"], found["evaluate slca, seed 1"]) == ("done", "shared", "waiting")


def test_the_command_shows_every_step_and_ends_by_itself_when_all_is_done(study_file):  # noqa: F811
    before = CliRunner().invoke(app, ["status", str(study_file)], env={"COLUMNS": "160"})
    assert before.exit_code == 0, before.output
    assert "evaluate wo_hierr, seed 1" in before.output
    assert "2 of 16 steps done" in before.output, "the two shared ones"
    finish(load_study(study_file))
    after = CliRunner().invoke(app, ["status", str(study_file), "--watch"], env={"COLUMNS": "160"})
    assert "16 of 16 steps done" in after.output
