"""Whatever is in a file, each record is a sample or a reason, and a file that no record can be had from is one sentence.

300 tries each here, the same ones each time, so that a failure can be had again; SLCA_FUZZ=10000 for as many others.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slca_core.conversation.dialogue import Dialogue, Message, ToolCall
from slca_core.curation.decomposition import decompose
from slca_core.curation.filters import filter_reason
from slca_core.curation.fitness import Fitness
from slca_core.curation.readers import Parsed, Rejected, read_source
from slca_core.curation.rows import row_of
from slca_core.errors import DataError
from tests.curation.conversations import DIALOGUES, values, verl


def tries(asked: str | None) -> settings:
    return settings(
        max_examples=int(asked or 300),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        derandomize=not asked,
        # Tries that nobody can name are of no use if they fail.
        print_blob=bool(asked),
    )


TRIES = tries(os.environ.get("SLCA_FUZZ"))
DIALOGUE = (
    Message("system", "Be brief."),
    Message("user", "Light in the hall?"),
    Message("assistant", "Let me look.", (ToolCall("lamp", {"type": "x", "n": None}), ToolCall("type", {"n": 3}))),
    Message("tool", '{"on": true}'),
    Message("tool", "17"),
    Message("assistant", "It is on."),
    Message("user", "And now?"),
    Message("assistant", "", (ToolCall("lamp", {"n": 1}),)),
    Message("tool", "off"),
    Message("assistant", "It is off."),
)
RECORDS = {**{name: make(DIALOGUE) for name, make in DIALOGUES.items()}, "verl": verl(DIALOGUE)}


def bodies(folder: Path) -> dict[str, bytes]:
    """A valid file of each kind; the tables without compression, so that a flipped byte reaches the values too."""
    rows = list(RECORDS.values())
    strings = [{key: value if isinstance(value, str) else json.dumps(value) for key, value in row.items()} for row in rows]
    pq.write_table(pa.Table.from_pylist(strings), folder / "strings", compression="none", use_dictionary=False)
    pq.write_table(pa.Table.from_pylist([RECORDS["parts"]] * 3), folder / "structs", compression="none")
    return {
        "rows.jsonl": "".join(json.dumps(row) + "\n" for row in rows).encode(),
        "rows.json": json.dumps(rows).encode(),
        "strings.parquet": (folder / "strings").read_bytes(),
        "structs.parquet": (folder / "structs").read_bytes(),
    }


@dataclass(frozen=True)
class Files:
    """A valid file of each kind, which a failing test does not print."""

    folder: Path
    bodies: dict[str, bytes] = field(repr=False)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Files:
    folder = tmp_path_factory.mktemp("fuzz")
    return Files(folder, bodies(folder))


def survives(path: Path) -> int:
    """Records read to the end, each taken as far as a curation takes it; DataError is the only way out."""
    fitness, count = Fitness(), 0
    for outcome in read_source(path):
        count += 1
        assert isinstance(outcome, Parsed | Rejected)
        if isinstance(outcome, Rejected):
            assert outcome.reason
            assert outcome.detail
            json.dumps([outcome.detail, outcome.record_text])
            continue
        value = outcome.value
        if filter_reason(value) is None:
            fitness.finding(value)
        for sample in decompose(value) if isinstance(value, Dialogue) else (value,):
            pa.Table.from_pylist([row_of(sample)])
    return count


flips = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.sampled_from(["set", "drop", "insert", "cut"]), st.integers(0, 255)),
    min_size=1,
    max_size=6,
)


def flipped(body: bytes, changes: list[tuple[float, str, int]]) -> bytes:
    spoilt = bytearray(body)
    for place, kind, byte in changes:
        at = int(place * len(spoilt))
        if kind == "cut" and byte < 25:
            del spoilt[at:]
        elif kind == "drop":
            del spoilt[at : at + 1]
        elif kind == "insert":
            spoilt.insert(at, byte)
        elif spoilt:
            spoilt[at] = byte
    return bytes(spoilt)


def test_tries_are_others_each_time_only_where_they_are_asked_for() -> None:
    assert (tries(None).derandomize, tries(None).max_examples) == (True, 300)
    assert (tries("10000").derandomize, tries("10000").max_examples, tries("10000").print_blob) == (False, 10000, True)


@TRIES
@given(data=st.data(), changes=flips)
def test_no_flipped_byte_stops_the_read(files, data, changes) -> None:
    name = data.draw(st.sampled_from(sorted(files.bodies)))
    path = files.folder / name
    path.write_bytes(flipped(files.bodies[name], changes))
    try:
        count = survives(path)
    except DataError:
        return
    if path.suffix == ".jsonl":
        with path.open(encoding="utf-8", errors="surrogateescape") as lines:
            assert count == sum(bool(line.lstrip("\ufeff").strip()) for line in lines), "each line is a sample or a reason"


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a record, text that is JSON looked into."""
    if isinstance(value, str) and value[:1] in "[{":
        try:
            value = json.loads(value)
        except ValueError:
            return [path]
    if isinstance(value, dict):
        return [path, *(inner for key, part in value.items() for inner in places(part, (*path, key)))]
    if isinstance(value, list):
        return [path, *(inner for at, part in enumerate(value) for inner in places(part, (*path, at)))]
    return [path]


def changed(value: Any, path: tuple[Any, ...], new: Any, *, drop: bool) -> Any:
    if not path:
        return new
    if isinstance(value, str):
        return json.dumps(changed(json.loads(value), path, new, drop=drop))
    if drop and len(path) == 1:
        return (
            {key: part for key, part in value.items() if key != path[0]}
            if isinstance(value, dict)
            else [part for at, part in enumerate(value) if at != path[0]]
        )
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:], new, drop=drop)
    return copy


odd = values | st.sampled_from(
    [
        float("nan"),
        "\ud83d",
        "[",
        "{'a': 1}",
        "<tool_call>",
        {"$ref": "#"},
        {"type": "List[int]"},
        [[]],
        {"": None},
        10**400,
        "1e999",
    ]
)


@TRIES
@given(data=st.data())
def test_no_record_spoilt_in_a_place_stops_the_read(files, data) -> None:
    record = RECORDS[data.draw(st.sampled_from(sorted(RECORDS)))]
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(places(record)))
        try:
            record = changed(record, path, data.draw(odd), drop=data.draw(st.booleans()))
        except (LookupError, TypeError, ValueError):
            break
    file = files.folder / "spoilt.jsonl"
    file.write_text(json.dumps(record) + "\n", encoding="utf-8")
    assert survives(file) == 1
