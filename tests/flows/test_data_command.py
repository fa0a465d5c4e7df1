"""What `slca plan` and `slca data inspect` say of a source, and what they refuse to open."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from flows.cli.main import app
from slca_core.config import load_study
from slca_core.curation import inspection
from slca_core.curation.inspection import summary
from slca_core.errors import DataError
from tasks.curate import curation_step, data_line

TOOL = {"name": "lamp", "parameters": {"type": "object", "properties": {"room": {"type": "string"}}}}


def record(question: str, **arguments: Any) -> dict[str, Any]:
    call = {"name": "lamp", "arguments": arguments}
    turns = [("human", question), ("function_call", json.dumps(call)), ("observation", "ok"), ("gpt", "Done.")]
    return {"conversations": [{"from": speaker, "value": value} for speaker, value in turns], "tools": json.dumps([TOOL])}


def written(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    return path


def study_of(folder: Path, source: Path):
    path = folder / "study.yaml"
    data = {"source": str(source)}
    path.write_text(yaml.safe_dump({"name": "tiny", "policy": {"scratch": {}}, "root": str(folder / "root"), "data": data}))
    return path


def said(folder: Path, source: Path) -> str:
    return data_line(load_study(study_of(folder, source)))


def printed(folder: Path, source: Path) -> str:
    result = CliRunner().invoke(app, ["plan", str(study_of(folder, source))])
    assert result.exit_code == 0, result.output
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("data "))
    return line


def test_the_plan_says_format_rows_and_the_first_problem_in_one_line(tmp_path):
    source = written(tmp_path / "rows.jsonl", record("One?", room="hall"), record("[/x] two?", room=7), record("Three?", room=8))
    assert printed(tmp_path, source) == (
        f"data     sharegpt; 3 rows in 1 file; first problem: {source}, record 2: gold call that its tool's schema refuses: "
        "'lamp', room: 7 is not of type \"string\""
    )


def test_the_plan_says_that_there_is_no_problem_in_what_it_looked_at(tmp_path):
    rows = [record(f"{at}?", room="hall") for at in range(30)]
    assert said(tmp_path, written(tmp_path / "rows.jsonl", *rows)).endswith("30 rows in 1 file; no problem in the first 20")


def test_half_a_surrogate_pair_in_a_fields_name_can_be_said(tmp_path):
    source = written(tmp_path / "rows.jsonl", {"odd \ud83d": 1})
    assert "odd \\ud83d" in said(tmp_path, source)
    assert "odd \\ud83d" in CliRunner().invoke(app, ["data", "inspect", str(source)]).stdout


def test_the_plan_waits_for_a_source_that_is_absent(tmp_path):
    assert printed(tmp_path, tmp_path / "none").startswith("data     not there yet: ")


def test_the_plan_says_what_is_wrong_with_a_file_that_cannot_be_read(tmp_path):
    source = tmp_path / "rows.parquet"
    source.write_bytes(b"PAR1 not really")
    assert "first problem: Expected a readable .parquet file" in said(tmp_path, source)


@pytest.fixture(params=["pipe", "device", "socket", "pipe in a folder"])
def endless(request, tmp_path_factory) -> Path:
    """What may never end, or never begin, when it is read."""
    folder = tmp_path_factory.mktemp("e")
    if request.param == "device":
        return Path("/dev/zero")
    path = folder / "rows.jsonl"
    if request.param == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
        return path
    os.mkfifo(path)
    return folder if "folder" in request.param else path


def test_a_pipe_a_device_or_a_socket_is_refused_and_never_opened(tmp_path, endless):
    study_file = study_of(tmp_path, endless)
    for command in (["plan", str(study_file)], ["data", "inspect", str(endless)]):
        result = CliRunner().invoke(app, command)
        assert isinstance(result.exception, DataError)
        assert any(kind in str(result.exception) for kind in ("a pipe", "a device", "a socket"))
    with pytest.raises(DataError, match="Write the records to a file"):
        curation_step(load_study(study_file))


def test_a_table_is_counted_by_its_footer_and_many_files_are_not_all_opened(tmp_path):
    for at in range(8):
        written(tmp_path / f"{at}.jsonl", record(f"{at}?", room="hall"))
    assert summary([tmp_path]) == "sharegpt; 8 rows in 8 files; no problem in the first 5"


@pytest.mark.parametrize("form", ["a list in one line", "an indented list", "lines"])
@pytest.mark.parametrize("question", ["On?", "Løs på? \u2028"])
def test_the_rows_of_a_large_file_are_told_from_its_beginning_alone(tmp_path, monkeypatch, form, question):
    rows = [record(question)] * 6000
    text = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    if form != "lines":
        text = json.dumps(rows, ensure_ascii=False, indent=1 if form == "an indented list" else None)
    path = tmp_path / ("rows.jsonl" if form == "lines" else "rows.json")
    path.write_text(text, encoding="utf-8")
    monkeypatch.setattr("slca_core.curation.inspection._SMALL", 1000)
    monkeypatch.setattr("slca_core.curation.inspection._HEAD", 20_000)
    read: list[int] = []
    told_from = inspection._told_from
    monkeypatch.setattr(inspection, "_told_from", lambda head, size: read.append(len(head)) or told_from(head, size))
    about = int(summary([path]).partition("about ")[2].partition(" rows")[0].replace(",", ""))
    assert about == pytest.approx(6000, rel=0.01)
    assert read == [20_000]


def test_records_longer_than_what_is_looked_at_are_no_more_than_fit_the_file(tmp_path, monkeypatch):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([record("On? " * 500)] * 10), encoding="utf-8")
    monkeypatch.setattr("slca_core.curation.inspection._SMALL", 1000)
    monkeypatch.setattr("slca_core.curation.inspection._HEAD", 1000)
    assert f"about {path.stat().st_size // 1000} rows in 1 file" in summary([path])
