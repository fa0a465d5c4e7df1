"""Files that a disk or a person has damaged, names that no file can bear, settings without measure: a sentence each."""

from __future__ import annotations

import errno
import json
import os
import tempfile
import time

import pytest
import yaml

from slca_core.benchmarks.journal import Journal
from slca_core.config import MAX_NAME, load_study
from slca_core.errors import ConfigError, DataError
from slca_core.records.json_lines import keep_lines, read_lines
from slca_core.trainer.ledger import read_spooled
from slca_core.yaml_bounds import MAX_DEPTH, MAX_VALUES, bounded
from tasks.planning.plan import make_plan
from tasks.planning.status import progress
from tasks.report import read_overviews, report_paths
from tests.flows.test_cli import refused, slca, write  # noqa: F401
from tests.support.scripted import write_study

GARBAGE = [b"\x00\xff\xfe garbage\n", b'{"update": 1\n', b"[1, 2]\n", b"null\n", b"[" * 100_000 + b"\n"]


@pytest.mark.parametrize("line", GARBAGE)
def test_a_line_that_is_no_object_is_named_by_file_and_number(tmp_path, line):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"update": 1}\n' + line + b'{"update": 3}\n')
    for reading in (read_lines, lambda path: keep_lines(path, bool)):
        with pytest.raises(DataError, match=r"expected in line 2 of .*metrics\.jsonl, found none to be used: .* Mend"):
            reading(path)


def test_a_line_that_lacks_what_it_is_read_for_is_named(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"update": 1}\n{}\n')
    with pytest.raises(DataError, match=r"line 2 of .* it lacks update"):
        read_lines(tmp_path / "metrics.jsonl", needs=("update",))


@pytest.mark.parametrize("line", [*GARBAGE, b"{}\n"])
def test_a_damaged_journal_is_named(tmp_path, line):
    (tmp_path / "rollouts.jsonl").write_bytes(line)
    with pytest.raises(DataError, match=r"line 1 of .*rollouts\.jsonl"):
        Journal(tmp_path / "rollouts.jsonl")


@pytest.mark.parametrize("line", [*GARBAGE, b"{}\n"])
def test_the_status_of_a_run_with_damaged_metrics_is_a_sentence(tmp_path, line):
    study = load_study(write_study(tmp_path))
    (planned,) = [one for one in make_plan(study).steps if one.name == "train slca, seed 1"]
    folder = study.root / "artifacts" / "train" / f"slca-seed1-{planned.step.identity[:12]}"
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_bytes(line)
    with pytest.raises(DataError, match=r"line 1 of .*metrics\.jsonl"):
        progress(study, planned)


@pytest.mark.parametrize("content", ["", '{"record": {"err', "[]", "{}", '{"record": null, "logprobs": null}'])
def test_a_spooled_rollout_that_a_power_cut_halved_is_rolled_out_again(tmp_path, content):
    (tmp_path / "00001-0000-000.json").write_text(content)
    assert read_spooled(tmp_path, "00001-0000-000") is None


@pytest.mark.parametrize("content", ["", '{"overview": {', "[1]", "[" * 100_000])
def test_a_damaged_report_of_another_study_is_named(tmp_path, content):
    study = load_study(write_study(tmp_path, paper_backbone="qwen2.5-7b"))
    path = report_paths(study).json
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(DataError, match=r"A report was expected in .*report\.json, it cannot be read"):
        read_overviews([study])


@pytest.mark.parametrize("command", ["run", "plan", "status", "report", "ui", "verify"])
def test_a_name_that_no_file_can_bear_is_refused_by_every_command(slca, write, command):  # noqa: F811
    arm = {"name": "a" * 300, "title": "long", "estimator": "grpo"}
    said = refused(slca(command, write(name="s" * 300, arms=[arm])))
    assert "has 2 errors" in said
    assert said.count(f"should have at most {MAX_NAME} characters") == 2


@pytest.mark.parametrize("name", ["a" * 300, "a\0b"])
def test_a_study_file_or_an_arm_by_a_name_that_no_file_can_bear_is_not_there(tmp_path, name):
    with pytest.raises(ConfigError, match="A study file was expected at"):
        load_study(tmp_path / name)
    with pytest.raises(ConfigError, match="no arm file"):
        load_study(write_study(tmp_path), (f"arms={json.dumps([name])}",))


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(at + 1)}: &{chr(at + 1)} [{', '.join([f'*{chr(at)}'] * 9)}]\n" for at in range(ord("a"), ord("i"))
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000, f"nested more than {MAX_DEPTH} deep in line 1"),
        ("a: " + "{b: " * 60 + "1" + "}" * 60, f"nested more than {MAX_DEPTH} deep"),
        (BOMB, f"stands for more than {MAX_VALUES:,} values, aliases counted as written out, in line 5"),
        ("a: &a [*a]", "an alias in line 1 stands within itself"),
        ("seeds: 2026-13-45", "line 1, column 8: a number or a date was expected"),
        ("seeds: !!int abc", "line 1, column 8: a number or a date was expected"),
        ("seeds: " + "9" * 5000, "line 1, column 8: a number or a date was expected"),
    ],
    ids=["deep list", "deep mapping", "aliases of aliases", "itself", "a date that is none", "no integer", "digits"],
)
def test_settings_without_measure_are_a_sentence(tmp_path, text, said):
    path = tmp_path / "study.yaml"
    path.write_text(text)
    started = time.monotonic()
    with pytest.raises(ConfigError, match=said):
        load_study(path)
    with pytest.raises(ConfigError, match=said):
        load_study(write_study(tmp_path), (f"data={text}",))
    assert time.monotonic() - started < 5


def test_aliases_of_a_sane_size_are_read_as_ever():
    text = "base: &base {a: 1, b: [2, 3]}\none: {<<: *base, c: 4}\ntwo: *base\n"
    assert yaml.safe_load(bounded(text))["one"] == {"a": 1, "b": [2, 3], "c": 4}


@pytest.mark.parametrize("command", ["run", "evaluate", "rescore", "ui"])
def test_a_root_that_cannot_be_written_is_refused_before_anything_starts(slca, write, monkeypatch, command):  # noqa: F811
    def refuse(dir):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(dir))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    said = refused(slca(command, write()))
    assert "state (root) was expected to be one that can be written: [Errno 30] Read-only file system" in said


def test_a_plan_is_read_where_nothing_can_be_written(slca, write, tmp_path):  # noqa: F811
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "reports").write_text("no folder")
    code, printed, err = slca("plan", write())
    assert (code, err) == (0, "")
    assert "picture  none, since it cannot be written: [Errno " in printed
