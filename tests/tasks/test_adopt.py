"""Finished steps that a refactoring has made strangers: taken over by a person's word, which stands beside their figures."""

from __future__ import annotations

import json
from pathlib import Path

import mlflow
import pytest
from typer.testing import CliRunner

from flows.cli.main import app
from slca_core.config import Study, load_study
from slca_core.errors import ConfigError, DataError
from slca_core.records import pins
from slca_core.records.store import RECORD, Step, read_record
from slca_core.services import frozen
from tasks.adopt import adopt
from tasks.orchestration.workspace import Workspace
from tasks.planning.plan import make_plan
from tasks.report import adopted
from tasks.tracking import IDENTITY, Tracking
from tasks.verify import verify_study
from tests.planning.test_plan import finish, states, study_file

__all__ = ["study_file"]
REASON = "torch 99 draws the same numbers"


@pytest.fixture
def study(study_file) -> Study:
    """Finished."""
    study = load_study(study_file)
    finish(study)
    return study


@pytest.fixture
def another_torch(tmp_path, monkeypatch) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text(pins.LOCKS["cpu"].read_text().replace("\ntorch==", "\ntorch==99."))
    monkeypatch.setitem(pins.LOCKS, "cpu", lock)


def to_run(study: Study) -> set[str]:
    return {name for name, state in states(make_plan(study)).items() if state == "to run"}


def files(study: Study) -> set[Path]:
    return {path for path in study.root.rglob("*") if path.is_file()}


def test_what_ran_under_other_code_is_taken_over_and_says_so(study, study_file, another_torch):
    before = {record.folder for record in Workspace(study).store.records()}
    assert to_run(study), "another torch is another result"
    found = list(adopt(study, REASON))
    assert {one.name for one in found} == {name for name, state in states(make_plan(study)).items() if state == "cached"} - {
        "curate"
    }
    assert to_run(study) == set()
    records = Workspace(study).store.records()
    assert len(records) == len(before)
    trained = next(record for record in records if record.name == "grpo-seed1" and record.step == "train")
    (word,) = trained.adoptions
    assert word.reason == REASON
    assert "@" in word.by
    assert any(line.startswith("torch ") and "-> 99." in line for line in word.differences)
    assert trained.packages["torch"].startswith("99.")
    assert word.identity[:12] in {folder.name.rpartition("-")[2] for folder in before}
    assert trained.folder not in before
    assert {one.state for one in verify_study(study)} == {"as recorded"}
    (sentence,) = adopted(records)
    assert sentence.startswith(f"Made by other code or packages and adopted by {word.by} on 2")
    assert "train grpo-seed1" in sentence
    assert sentence.endswith(f"Reason given: {REASON}")
    assert list(adopt(study, REASON)) == [], "once is enough"


def test_a_stand_in_of_other_code_is_no_other_setting(study, monkeypatch):
    monkeypatch.setitem(frozen.STANDIN_CODE, "standin-mocker", ("slca_core.failures",))
    assert "services.mocker.standin_code" in next(one.reason for one in make_plan(study).steps if one.name == "train grpo, seed 1")
    assert all(one.record for one in adopt(study, REASON))
    assert to_run(study) == set()


def test_its_runs_in_mlflow_follow(study, another_torch):
    record = next(one for one in Workspace(study).store.records("train") if one.name == "grpo-seed1")
    made = record.model_dump(include={"step", "name", "config", "inputs", "packages"})
    with Tracking(study).child(Step(**made, code=tuple(record.code)), condition="grpo", seed=1) as run:
        run.finish(record)
    list(adopt(study, REASON))
    tracking = Tracking(study)
    new = next(one for one in Workspace(study).store.records("train") if one.name == "grpo-seed1")
    (child,) = tracking.client.search_runs([tracking.experiment_id], f"tags.`{IDENTITY}` = '{new.identity}'")
    assert (child.info.run_id, child.info.status) == (run.run_id, "FINISHED")
    assert child.data.tags["slca.adopted"] == REASON
    assert child.data.tags["slca.record"] == str(new.folder.relative_to(study.root.resolve()))
    stored = mlflow.artifacts.load_dict(f"{child.info.artifact_uri}/{RECORD}")
    assert stored["adoptions"][0]["reason"] == REASON


def test_another_experiment_is_never_adopted(study, study_file, another_torch):
    other = load_study(study_file, ("rl.learning_rate=0.5",))
    found = {one.name: one for one in adopt(other, REASON)}
    assert found["train grpo, seed 1"].record is None
    assert "rl.learning_rate" in found["train grpo, seed 1"].note
    assert found["finetune sft"].record is not None
    with pytest.raises(ConfigError, match="A reason was expected"):
        list(adopt(study, " "))
    with pytest.raises(ConfigError, match="has no step called train ppo; there are: curate"):
        list(adopt(study, REASON, ("train ppo",)))


def test_a_record_without_a_setting_of_today_is_adopted_only_by_name(study):
    record = next(one for one in Workspace(study).store.records("train") if one.name == "grpo-seed1")
    values = json.loads((record.folder / RECORD).read_text())
    del values["config"]["rl"]["kl_coef"]
    values["seal"] = None
    values["identity"] = "0" * 64
    folder = record.folder.rename(record.folder.with_name("grpo-seed1-000000000000"))
    (folder / RECORD).write_text(json.dumps(values))
    (one,) = (one for one in adopt(study, REASON) if one.name == "train grpo, seed 1")
    assert one.record is None
    assert one.note.startswith("rl.kl_coef None -> ")
    (one,) = adopt(study, REASON, ("train grpo, seed 1",))
    assert one.record is not None
    assert to_run(study) == set()


def test_a_record_of_an_earlier_version_has_one_digest_of_its_lock(study):
    record = Workspace(study).store.records("curate")[0]
    values = json.loads((record.folder / RECORD).read_text())
    for name in ("packages", "adoptions", "outputs"):
        del values[name]
    values |= {"lock": "1" * 64, "seal": None, "identity": "0" * 64}
    folder = record.folder.rename(record.folder.with_name("tiny-000000000000"))
    (folder / RECORD).write_text(json.dumps(values))
    assert make_plan(study).steps[0].reason == "recorded with the digest of a whole lock"
    (one,) = adopt(study, REASON, ("curate",))
    assert one.record is not None
    assert one.record.lock == ""
    assert read_record(one.record.folder / RECORD) == one.record


def test_output_that_is_not_as_it_was_recorded_is_not_adopted(study, another_torch):
    record = next(one for one in Workspace(study).store.records("train") if one.name == "grpo-seed1")
    path = record.folder / "metrics.jsonl"
    path.write_bytes(path.read_bytes().replace(b"0.5", b"0.9"))
    with pytest.raises(DataError, match=r"metrics.jsonl was recorded with SHA-256"):
        list(adopt(study, REASON))
    assert record.folder.is_dir()


def test_a_step_that_was_begun_anew_is_not_thrown_away(study, another_torch):
    step = next(one.step for one in make_plan(study).steps if one.step.step == "policy")
    begun = Workspace(study).store.folder(step)
    (begun / "model").mkdir(parents=True)
    with pytest.raises(DataError, match=f"was begun anew in {begun}"):
        list(adopt(study, REASON))
    assert (begun / "model").is_dir()


def test_the_command_says_what_it_did(study, study_file, another_torch, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    run = CliRunner().invoke(app, ["adopt", str(study_file), "--all", "--reason", REASON])
    assert run.exit_code == 0
    assert "train slca, seed 1" in run.output
    assert "torch" in run.output
    again = CliRunner().invoke(app, ["adopt", str(study_file), "--all", "--reason", REASON])
    assert "there is nothing to adopt" in again.output
    neither = CliRunner().invoke(app, ["adopt", str(study_file), "--reason", REASON])
    assert isinstance(neither.exception, ConfigError)
