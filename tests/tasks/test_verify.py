"""A finished result that is not what was recorded is named when it is used, when it is verified, and never served in silence."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing

import pandas as pd
import pytest

from flows.cli import verify
from slca_core.analysis.replay import read_rollouts
from slca_core.config import load_study
from slca_core.errors import DataError
from slca_core.records.digests import DigestCache
from slca_core.records.store import RECORD, Record, Step, Store, digest_cache_path, read_record
from tasks.planning.plan import make_plan
from tasks.verify import verify_root, verify_study
from tests.support.scripted import finish, write_study

STEP = Step(step="train", name="slca-seed1", scratch=("deepspeed", "rollouts.jsonl"))


def train(folder):
    """As a training leaves its folder, with what only its next attempt would need."""
    for name in ("model/model.safetensors", "model/config.json", "metrics.jsonl", "train.log", "deepspeed/global_step2/optim.pt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"the {name} of a run")
    return "digest", {}


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def store(tmp_path, said) -> Store:
    return Store(tmp_path, say=said.append)


@pytest.fixture
def record(store) -> Record:
    return store.run(STEP, train)


def flip(path) -> None:
    """One bit of the file, its size and time as they were."""
    before, content = path.stat(), bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_record_has_a_digest_of_each_output_and_none_of_logs_and_scratch(record):
    assert sorted(record.outputs) == ["metrics.jsonl", "model/config.json", "model/model.safetensors"]
    assert read_record(record.folder / RECORD) == record


def test_a_flipped_byte_is_named_when_the_checkpoint_is_loaded_though_its_time_was_set_back(record):
    assert record.output("model") == record.folder / "model"
    flip(record.folder / "model" / "model.safetensors")
    with pytest.raises(DataError, match=r"train slca-seed1: .*/model/model\.safetensors was recorded with SHA-256 .* delete"):
        record.output("model")
    assert record.output("metrics.jsonl").is_file()


def test_a_lost_file_is_said_by_the_next_run_and_refused_to_whoever_needs_it(store, record, said):
    shutil.rmtree(record.folder / "model")
    store.run(STEP, train)
    assert len(said) == 1
    assert "model/config.json is gone (and 1 more). Put back" in said[0]
    with pytest.raises(DataError, match=r"model/config\.json is gone"):
        record.output("model")


def test_a_file_that_joined_a_checkpoint_is_named_since_it_would_be_loaded(record):
    (record.folder / "model" / "generation_config.json").write_text("{}")
    with pytest.raises(DataError, match=r"generation_config\.json was not there when the step was recorded"):
        record.output("model")


def test_a_copied_root_passes_whatever_its_files_times_are(record, tmp_path):
    elsewhere = tmp_path / "copy"
    shutil.copytree(tmp_path / "artifacts", elsewhere / "artifacts", copy_function=shutil.copyfile)
    copied = Store(elsewhere).find(STEP)
    assert copied.output("model").is_relative_to(elsewhere)
    assert [one.state for one in verify_root(elsewhere)] == ["as recorded"]


def test_a_record_says_nothing_of_where_it_lies(record, tmp_path):
    assert str(tmp_path) not in (record.folder / RECORD).read_text()


def test_stored_rollouts_are_replayed_only_as_they_were_recorded(store):
    def roll(folder):
        (folder / "rollouts").mkdir()
        pd.DataFrame({"rollout_id": ["a"]}).to_parquet(folder / "rollouts" / "update_00001.parquet")
        return "digest", {}

    record = store.run(STEP, roll)
    flip(record.folder / "rollouts" / "update_00001.parquet")
    with pytest.raises(DataError, match=r"update_00001\.parquet was recorded with SHA-256"):
        read_rollouts(record.folder)


def test_what_only_an_unfinished_attempt_needs_is_gone_once_the_record_stands(store):
    def fail(folder):
        train(folder)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store.run(STEP, fail)
    assert (store.folder(STEP) / "deepspeed").is_dir()
    record = store.run(STEP, train)
    assert not (record.folder / "deepspeed").exists()
    kept = sum(output.bytes for output in record.outputs.values())
    assert record.disk > kept + len("the deepspeed/global_step2/optim.pt of a run")  # What the step needed while it ran.


def test_a_run_that_was_killed_before_it_cleared_up_leaves_that_to_the_next(store, record):
    (record.folder / "deepspeed").mkdir()
    (record.folder / "rollouts.jsonl").write_text("{}\n")
    store.run(STEP, train)
    assert not {path.name for path in record.folder.iterdir()} & {"deepspeed", "rollouts.jsonl"}


def test_a_training_of_more_updates_is_another_step_and_needs_no_state_of_the_finished_one(tmp_path):
    def folder(updates: int):
        study = load_study(write_study(tmp_path), (f"rl.updates={updates}",))
        (step,) = [one.step for one in make_plan(study).steps if one.name == "train slca, seed 1"]
        return Store(tmp_path).folder(step)

    assert folder(2) == folder(2) != folder(3)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    study = load_study(write_study(tmp_path_factory.mktemp("finished")))
    finish(study)
    return study


@pytest.fixture
def study(finished, tmp_path):
    """A finished study of the test's own."""
    shutil.copytree(finished.root, tmp_path / "state")
    return finished.model_copy(update={"root": tmp_path / "state"})


def items_of(study, condition: str):
    return next(study.root.glob(f"artifacts/evaluate/{condition}-seed1-*")) / "items.parquet"


def test_a_falsified_item_table_is_no_report_but_a_sentence(study):
    from tasks.report import Evaluated, _items

    path = items_of(study, "grpo")
    items = pd.read_parquet(path)
    items.loc[items["metric"] == "process", "value"] = 0.99
    items.to_parquet(path)
    record = read_record(path.parent / RECORD)
    with pytest.raises(DataError, match=r"evaluate grpo-seed1: .*items\.parquet was recorded with .* Put back what was"):
        _items(study, [Evaluated(condition="grpo", seed=1, checkpoint=record, evaluation=record)])


def test_verify_names_what_differs_and_ends_with_code_1(study, capsys):
    flip(items_of(study, "slca"))
    next(study.root.glob("artifacts/train/grpo-seed1-*/metrics.jsonl")).unlink()
    with pytest.raises(SystemExit) as ended:
        verify.show(verify_study(study))
    printed = capsys.readouterr().out
    assert ended.value.code == 1
    assert "items.parquet was recorded with SHA-256" in printed
    assert "metrics.jsonl is gone" in printed
    assert printed.count(" differs ") == 2


def test_verify_of_an_untouched_study_is_content(study, capsys):
    verify.show(verify_study(study))
    assert {one.state for one in verify_root(study.root)} == {"as recorded"}
    assert "differs" not in capsys.readouterr().out


def test_verify_reads_every_byte_also_of_a_file_that_rots_on_a_disk_that_tells_no_time(store, record, tmp_path, monkeypatch):
    monkeypatch.setattr("slca_core.records.digests.LARGE", 0)
    monkeypatch.setattr("slca_core.records.digests.SETTLED_S", -1.0)
    weights = record.folder / "model" / "model.safetensors"
    flip(weights)
    cache = DigestCache(digest_cache_path(tmp_path))
    cache.file_digest(weights)
    with closing(sqlite3.connect(cache.path)) as kept:
        kept.execute("UPDATE files SET digest = ?", (record.outputs["model/model.safetensors"].sha256,))
        kept.commit()
    assert record.output("model/model.safetensors") == weights
    assert [one.state for one in verify_root(tmp_path)] == ["differs"]
    with pytest.raises(DataError, match="was recorded with SHA-256"):
        record.output("model")


def of_earlier_version(record: Record) -> None:
    """Takes from a record what earlier versions did not write, and puts in what they did."""
    path = record.folder / RECORD
    values = json.loads(path.read_text()) | {"folder": str(record.folder)}
    del values["outputs"], values["seal"]
    path.write_text(json.dumps(values))


def test_a_record_of_an_earlier_version_is_used_as_it_is_and_verified_by_its_main_output(store, tmp_path):
    from slca_core.records.fingerprint import checkpoint_digest

    def work(folder):
        train(folder)
        return checkpoint_digest(folder / "model"), {}

    record = store.run(STEP, work)
    of_earlier_version(record)
    old = store.run(STEP, train)
    assert (old.outputs, old.output("model")) == (None, record.folder / "model")
    assert [one.state for one in verify_root(tmp_path)] == ["partly"]
    flip(record.folder / "model" / "model.safetensors")
    assert [one.state for one in verify_root(tmp_path, stamping=True)] == ["differs"]
    flip(record.folder / "model" / "model.safetensors")
    assert [one.state for one in verify_root(tmp_path, stamping=True)] == ["as recorded"]
    assert store.find(STEP).outputs == record.outputs


def test_a_file_that_an_earlier_version_recorded_and_that_is_gone_is_named(store, record):
    of_earlier_version(record)
    shutil.rmtree(record.folder / "model")
    with pytest.raises(DataError, match="model is gone"):
        store.find(STEP).output("model")


@pytest.mark.parametrize("content", [b"", b'{"step": "tr', b"[]", b"null", b'{"step": "train"}', b"\xff\xfe", b"[" * 100_000])
def test_a_record_that_cannot_be_read_is_a_sentence_that_names_it(store, record, tmp_path, content):
    path = record.folder / RECORD
    path.write_bytes(content)
    for reading in (lambda: store.find(STEP), lambda: store.records("train"), lambda: store.run(STEP, train)):
        with pytest.raises(DataError, match=r"expected at .*record\.json, it cannot be read: .* delete .*: the next run then"):
            reading()
    assert [one.state for one in verify_root(tmp_path)] == ["differs"]


@pytest.mark.parametrize("old_and_new", [('"updates": 2', '"updates": 3'), ('"commit": "', '"commit": "x')])
def test_a_record_that_was_edited_is_named_since_tables_are_made_of_its_facts(store, old_and_new):
    path = store.run(STEP, lambda folder: ("digest", {"updates": 2, "loss": float("nan"), "by_turn": {1: 0.1}})).folder / RECORD
    assert store.find(STEP).facts["updates"] == 2
    path.write_text(path.read_text().replace(*old_and_new))
    with pytest.raises(DataError, match=r"record\.json, it cannot be read: it was changed after it was written"):
        store.find(STEP)


def test_seconds_that_are_no_number_are_a_sentence(store):
    folder = store.folder(STEP)
    folder.mkdir(parents=True)
    (folder / "seconds").write_text("12,5 s")
    with pytest.raises(DataError, match=r"seconds, found no number\. Delete the file"):
        store.run(STEP, train)
