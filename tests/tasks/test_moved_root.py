"""A root that is moved or copied is whole where it lies, and touches nothing where it lay; what MLflow lost is logged again."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest
from mlflow import MlflowClient

from slca_core.config import PolicyConfig, ScratchPolicy, Study, load_study
from slca_core.errors import DataError
from slca_core.records.fingerprint import file_digest
from slca_core.records.store import Step, Store
from tasks import mlflow_store, tracking
from tasks.orchestration.workspace import quiet_environment
from tasks.tracking import Tracking
from tests.support.scripted import finish, write_study

STEP = Step(step="train", name="slca-seed1", config={"rl": {"updates": 3}})


def contents(root: Path) -> dict[str, tuple[str, int]]:
    """Every file of a root: its digest, and when it was last written."""
    return {str(path): (file_digest(path), path.stat().st_mtime_ns) for path in root.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def logged(tmp_path_factory) -> Study:
    """A study with a finished run, its table and its report in MLflow; in a folder whose name a URI must escape."""
    root = tmp_path_factory.mktemp("köln %20 root") / "state"
    study = Study(name="toy", root=root, policy=PolicyConfig(scratch=ScratchPolicy()))
    log(study, "report")
    return study


def log(study: Study, report: str) -> None:
    record = Store(study.root).run(STEP, lambda folder: ("digest", {}))
    found = Tracking(study)
    with found.child(STEP, condition="slca", seed=1) as run:
        run.log_items(pd.DataFrame({"sampling": ["greedy"], "metric": ["process"], "value": [0.5]}), "toucan_test")
        run.finish(record)
    folder = study.root / "reports"
    folder.mkdir(exist_ok=True)
    (folder / "report.md").write_text(report)
    found.finish_parent(folder, pd.DataFrame({"condition": ["SFT"]}), {})


@pytest.fixture
def copied(logged, tmp_path) -> Study:
    shutil.copytree(logged.root, tmp_path / "copy")
    return logged.model_copy(update={"root": tmp_path / "copy"})


def artifacts(study: Study) -> dict[str, set[str]]:
    """Of every run: the names of its artifacts, once all of them were found below the root."""
    found = Tracking(study)
    runs = found.client.search_runs([found.experiment_id])
    assert {run.info.artifact_uri.startswith(study.root.as_uri()) for run in runs} == {True}
    return {run.info.run_name: {file.path for file in found.client.list_artifacts(run.info.run_id)} for run in runs}


WHOLE = {"slca seed 1": {"record.json", "toucan_test.json"}, "reproduce toy": {"study.json", "main_table.json", "report"}}


def test_a_copied_root_writes_nothing_into_the_one_it_was_copied_from(logged, copied):
    before = contents(logged.root)
    log(copied, "another report")
    assert contents(logged.root) == before
    (run,) = (copied.root / "mlartifacts" / "toy").glob("*/artifacts/report/report.md")
    assert run.read_text() == "another report"


def test_the_artifacts_of_a_moved_root_are_where_it_lies(logged, copied, tmp_path):
    assert artifacts(copied) == WHOLE
    copied.root.rename(tmp_path / "moved")
    assert artifacts(copied.model_copy(update={"root": tmp_path / "moved"})) == WHOLE
    assert artifacts(logged) == WHOLE


def test_a_place_outside_the_root_stays(copied):
    with closing(sqlite3.connect(copied.root / "mlflow.db")) as store:
        store.execute("UPDATE experiments SET artifact_location = 's3://bucket/mlartifacts/0' WHERE name = 'Default'")
        store.commit()
    client = Tracking(copied).client
    assert client.get_experiment("0").artifact_location == "s3://bucket/mlartifacts/0"


def test_the_state_of_prefect_lies_below_the_root_whatever_the_shell_says(tmp_path):
    places = [value for name, value in quiet_environment(tmp_path).items() if name.startswith("PREFECT_") and "/" in value]
    assert len(places) == 3
    assert all(str(tmp_path / "prefect") in value for value in places)


@pytest.fixture
def said(monkeypatch) -> list[str]:
    heard: list[str] = []
    for module in (mlflow_store, tracking):
        monkeypatch.setattr(module, "say", heard.append)
    return heard


@pytest.mark.parametrize("lost", ["mlartifacts", "mlartifacts/toy/*/artifacts/toucan_test.json"])
def test_artifacts_that_were_taken_away_are_named_and_logged_again(copied, said, lost):
    artifacts(copied)  # They are put right where they lie first.
    said.clear()
    for path in copied.root.glob(lost):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    log(copied, "report")
    assert artifacts(copied) == WHOLE
    assert len(said) == 1
    assert "MLflow's artifacts of slca seed 1 are gone (" in said[0]


def test_an_emptied_store_is_named_made_anew_and_has_every_finished_step_again(copied, said):
    (copied.root / "mlflow.db").write_bytes(b"")
    log(copied, "report")
    assert artifacts(copied) == WHOLE
    assert len(said) == 1
    assert f"MLflow's store {copied.root / 'mlflow.db'} was empty; it is made anew" in said[0]


def test_a_store_that_is_none_is_a_sentence(copied):
    (copied.root / "mlflow.db").write_bytes(b"no database" * 1000)
    with pytest.raises(DataError, match=r"MLflow's store was expected at .*mlflow\.db, it cannot be used: .*delete it"):
        Tracking(copied)


def test_an_experiment_deleted_in_the_pages_is_restored_with_its_runs(copied, said):
    client = MlflowClient(tracking_uri=mlflow_store.store_uri(copied.root))
    client.delete_experiment(client.get_experiment_by_name("toy").experiment_id)
    log(copied, "report")
    assert artifacts(copied) == WHOLE
    assert "The experiment toy was deleted in MLflow's pages" in said[-1]


def test_a_study_run_from_a_copy_of_its_root_leaves_the_other_as_it_was(prefect_server, tmp_path):
    from flows.reproduce import reproduce

    study = load_study(write_study(tmp_path, name="moving"))
    finish(study)
    reproduce(study)
    before = contents(study.root)
    shutil.copytree(study.root, tmp_path / "copy")
    paths = reproduce(study.model_copy(update={"root": tmp_path / "copy"}))
    assert contents(study.root) == before
    assert paths.html.is_relative_to(tmp_path / "copy")
    assert str(study.root) not in "".join(path.read_text() for path in (tmp_path / "copy" / "artifacts").rglob("*.json"))
