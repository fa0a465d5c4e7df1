"""Steps that are done are not done again; attempts that broke off are gone on from."""

from __future__ import annotations

import json
import shutil

import pytest

from slca_core.records.store import RECORD, Step, Store, write_atomically


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def step(name: str = "first", **changes) -> Step:
    return Step(**{"step": "toy", "name": name, "config": {"size": 1}, "inputs": {"data": "ab"}, **changes})


def done(folder):
    (folder / "output").write_text("42")
    return "digest", {"answer": 42}


def refuse(folder):
    raise AssertionError("a finished step must not run again")


def test_a_finished_step_is_not_run_again(store):
    made = store.run(step(), done)
    assert store.run(step(), refuse) == made
    assert (made.output_digest, made.facts, (made.folder / "output").read_text()) == ("digest", {"answer": 42}, "42")


def test_equal_identities_share_a_folder_under_the_name_that_came_first(store):
    made = store.run(step("grpo"), done)
    shared = store.run(step("wo_slca"), refuse)
    assert (shared.folder, shared.name) == (made.folder, "grpo")


@pytest.mark.parametrize(
    "change", [{"config": {"size": 2}}, {"inputs": {"data": "cd"}}, {"step": "other"}, {"code": ("slca_core.errors",)}]
)
def test_another_value_input_step_or_code_is_another_identity(change):
    assert step(**change).identity != step().identity


def test_a_folder_without_a_record_is_an_unfinished_attempt_and_gone_on_from(store):
    folder = store.folder(step())
    folder.mkdir(parents=True)
    (folder / "checkpoint").write_text("half way")
    assert store.find(step()) is None
    made = store.run(step(), lambda where: ((where / "checkpoint").read_text(), {}))
    assert made.output_digest == "half way"


def test_a_step_that_fails_leaves_no_record_and_runs_again(store):
    def fail(folder):
        (folder / "checkpoint").write_text("half way")
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        store.run(step(), fail)
    assert store.find(step()) is None
    assert (store.run(step(), done).folder / "checkpoint").read_text() == "half way"


def test_the_seconds_of_all_attempts_are_added_up(store, monkeypatch):
    clock = iter([100.0, 107.0, 200.0, 205.0])
    monkeypatch.setattr("slca_core.records.store.monotonic", lambda: next(clock))

    def fail(folder):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store.run(step(), fail)
    assert store.run(step(), done).seconds == 12.0


def test_a_record_that_was_being_written_when_the_power_went_does_not_count(store):
    folder = store.folder(step())
    folder.mkdir(parents=True)
    (folder / f"{RECORD}.unfinished").write_text('{"step": "to')
    assert store.find(step()) is None
    assert store.run(step(), done).facts == {"answer": 42}


def test_artifacts_may_be_moved_with_their_root(store, tmp_path):
    store.run(step(), done)
    shutil.copytree(tmp_path / "artifacts", tmp_path / "elsewhere" / "artifacts")
    moved = Store(tmp_path / "elsewhere").find(step())
    assert moved.folder.is_relative_to(tmp_path / "elsewhere")


def test_the_record_on_disk_names_inputs_versions_and_command(store):
    made = store.run(step(), done)
    values = json.loads((made.folder / RECORD).read_text())
    assert values["inputs"] == {"data": "ab"}
    assert {"torch", "openrlhf", "ray"} <= set(values["versions"])
    assert values["argv"]


def test_a_machine_without_git_records_an_unknown_commit(store, monkeypatch):
    def missing(*_, **__):
        raise FileNotFoundError("git")

    monkeypatch.setattr("slca_core.records.store.subprocess.run", missing)
    assert store.run(step(), done).commit == "unknown"


def test_writing_leaves_the_old_text_until_the_new_one_is_whole(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("old")

    def fail(_):
        raise OSError("disk full")

    monkeypatch.setattr("slca_core.records.store.os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
