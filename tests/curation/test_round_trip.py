"""What is written in any format that we read comes back as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slca_core.conversation.dialogue import Message, Sample
from slca_core.curation.decomposition import decompose
from slca_core.curation.readers import Parsed, read_source
from slca_core.curation.rows import row_of, sample_of
from tests.curation.conversations import DIALOGUES, TOOLS, conversations, verl

EXAMPLES = 40


def through_a_file(folder: Path, suffix: str, record: dict[str, Any]) -> Parsed:
    path = folder / f"rows.{suffix}"
    if suffix == "parquet":
        # As Toucan's tables have it: every column a string.
        columns = {key: value if isinstance(value, str) else json.dumps(value) for key, value in record.items()}
        pq.write_table(pa.Table.from_pylist([columns]), path)
    else:
        path.write_text(
            json.dumps([record] if suffix == "json" else record, ensure_ascii=False) + "\n", encoding="utf-8", newline=""
        )
    (outcome,) = read_source(path)
    assert isinstance(outcome, Parsed), outcome
    return outcome


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("round-trip")


@pytest.mark.parametrize("name", DIALOGUES)
@settings(max_examples=EXAMPLES, deadline=None)
@given(messages=conversations(), suffix=st.sampled_from(["parquet", "jsonl", "json"]))
def test_a_conversation_comes_back_from_every_format(name, folder, messages: tuple[Message, ...], suffix: str) -> None:
    parsed = through_a_file(folder, suffix, DIALOGUES[name](messages))
    assert parsed.value.messages == messages
    assert parsed.value.tools == TOOLS
    assert not parsed.repairs
    for sample in decompose(parsed.value):
        assert sample_of(row_of(sample)) == sample


@settings(max_examples=EXAMPLES, deadline=None)
@given(messages=conversations(), suffix=st.sampled_from(["parquet", "jsonl", "json"]))
def test_a_prompt_and_its_gold_come_back_from_a_verl_row(folder, messages: tuple[Message, ...], suffix: str) -> None:
    sample = through_a_file(folder, suffix, verl(messages)).value
    last = max(at for at, message in enumerate(messages) if message.role == "user")
    assert isinstance(sample, Sample)
    assert sample.prompt == messages[: last + 1]
    assert sample.gold == tuple(message.tool_calls for message in messages[last:] if message.tool_calls)
    assert sample_of(row_of(sample)) == sample


@settings(max_examples=EXAMPLES, deadline=None)
@given(messages=conversations())
def test_every_format_tells_equal_conversations_to_be_equal(folder, messages: tuple[Message, ...]) -> None:
    labelled = [{**make(messages), "subset_name": "x"} for make in DIALOGUES.values()]
    assert len({through_a_file(folder, "jsonl", record).content for record in labelled}) == 1
