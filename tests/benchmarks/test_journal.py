"""The journal of an evaluation: what was finished is found by the next attempt, whatever ended this one."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slca_core.benchmarks.journal import Journal

breaks = st.sampled_from(["\n", "\r\n", "\r", "\u2028", "\x85", "\x0c", "\0", "\U0001f600", '"', "\\"])
texts = st.lists(st.one_of(breaks, st.text(st.characters(exclude_categories=["Cs"]), max_size=6)), max_size=4).map("".join)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rollouts.jsonl"


def rollout(rollout_id: str, text: str = "fine", error: str | None = None) -> dict:
    return {"rollout_id": rollout_id, "error": error, "unread": 0, "final_response": text}


def test_a_finished_rollout_is_found_by_the_next_attempt(path):
    journal = Journal(path)
    for rollout_id in ("a", "b"):
        journal.add(rollout(rollout_id))
    found = Journal(path)
    assert [found.get(rollout_id) for rollout_id in ("a", "b", "c")] == [rollout("a"), rollout("b"), None]
    assert len(found) == 2


def test_what_several_attempts_finished_is_all_found(path):
    for number in range(3):
        assert len(Journal(path)) == number
        Journal(path).add(rollout(str(number)))
    assert [Journal(path).get(str(number)) for number in range(3)] == [rollout(str(number)) for number in range(3)]


def test_a_rollout_that_failed_is_returned_but_not_kept(path):
    failed = rollout("a", error="mocker: ServiceError: nobody answered")
    assert Journal(path).add(failed) == failed
    assert Journal(path).get("a") is None


def test_a_rollout_that_failed_once_is_kept_when_it_is_finished(path):
    Journal(path).add(rollout("a", error="judge: ServiceError: nobody answered"))
    Journal(path).add(rollout("a"))
    assert Journal(path).get("a") == rollout("a")


def test_wherever_a_crash_cut_the_last_line_it_is_dropped_and_the_next_one_is_whole(path):
    journal = Journal(path)
    journal.add(rollout("a", "é\u2028"))
    first = path.stat().st_size
    journal.add(rollout("b", "Zürich \U0001f600"))
    whole = path.read_bytes()
    for cut in range(first, len(whole)):
        path.write_bytes(whole[:cut])
        resumed = Journal(path)
        assert [resumed.get(rollout_id) for rollout_id in ("a", "b")] == [rollout("a", "é\u2028"), None]
        resumed.add(rollout("c"))
        found = Journal(path)
        assert [found.get(rollout_id) for rollout_id in ("a", "b", "c")] == [rollout("a", "é\u2028"), None, rollout("c")]


def test_a_first_line_that_a_crash_cut_leaves_nothing(path):
    path.write_text('{"rollout_id": "a", "err', encoding="utf-8")
    assert len(Journal(path)) == 0
    assert path.read_bytes() == b""


def test_an_empty_journal_and_one_that_is_not_there_hold_nothing(path):
    assert len(Journal(path)) == 0
    path.touch()
    assert len(Journal(path)) == 0


@settings(deadline=None)
@given(st.dictionaries(texts, values, max_size=4))
def test_what_is_returned_is_what_the_next_attempt_reads(records):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rollouts.jsonl"
        journal = Journal(path)
        returned = [journal.add({**rollout(rollout_id), "value": value}) for rollout_id, value in records.items()]
        found = Journal(path)
        assert [found.get(rollout_id) for rollout_id in records] == returned
        assert [record["value"] for record in returned] == list(records.values())
        assert len(found) == len(records)


def test_what_json_has_no_form_for_is_returned_as_it_is_read_back(path):
    record = {**rollout("a"), "action_ranges": [(1, 2)], "counts": {1: 2}}
    returned = Journal(path).add(record)
    assert returned == Journal(path).get("a") == {**rollout("a"), "action_ranges": [[1, 2]], "counts": {"1": 2}}


def test_without_a_path_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    journal = Journal(None)
    assert journal.add({**rollout("a"), "action_ranges": [(1, 2)]}) == {**rollout("a"), "action_ranges": [[1, 2]]}
    journal.remove()
    assert (journal.get("a"), len(journal), list(tmp_path.iterdir())) == (None, 0, [])


def test_a_journal_that_was_removed_is_empty_for_the_next_attempt(path):
    journal = Journal(path)
    journal.add(rollout("a"))
    journal.remove()
    journal.remove()
    assert not path.exists()
    assert len(Journal(path)) == 0
