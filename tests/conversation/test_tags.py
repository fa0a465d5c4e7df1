"""Blocks between tags: what a regular expression finds, in time linear in the text.

Two megabytes of tags that nothing closes would take the expressions hours: that the tests end is what they say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slca_core.conversation.chat import START, as_plain_turns
from slca_core.conversation.tags import blocks, tag_pair, without_blocks
from slca_core.curation.readers.records import RecordError
from slca_core.curation.readers.system import without_tool_list
from slca_core.curation.readers.verl import read_verl
from slca_core.judges.outcome import parse_verdict
from slca_core.judges.summary import parse_rating
from slca_core.rewards.matching import loosely_equal
from slca_core.simulator.prompts import extract_response, has_response
from slca_core.standins.server import answer_as_checker

SIZE = 2_000_000
LAMP = {"name": "lamp", "parameters": {"type": "object", "properties": {}}}


def texts(*pieces: str) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from([*pieces, "x", "\n", " "]), max_size=14).map("".join)


@settings(deadline=None)
@given(texts("<a>", "</a>", "<A>"))
def test_blocks_are_what_a_regular_expression_finds(text):
    for flags in (re.NOFLAG, re.IGNORECASE):
        pattern = re.compile("<a>(.*?)</a>", re.DOTALL | flags)
        assert [block.body for block in blocks(text, *tag_pair("a", flags))] == pattern.findall(text)
        assert without_blocks(text, *tag_pair("a", flags)) == pattern.sub("", text)


RATING = re.compile(r"<response_quality>.*?<rating>(.*?)</rating>.*?</response_quality>", re.DOTALL)


@settings(deadline=None, max_examples=300)
@given(texts("<response_quality>", "</response_quality>", "<rating>", "</rating>", "good"))
def test_a_rating_is_what_stands_in_one_frame(text):
    found = RATING.search(text) if text.count("<rating>") == 1 else None
    assert parse_rating(text) == ("good" if found and found[1].strip() == "good" else None)


FRAME = re.compile(
    r"(?:# Tools\s*)?<tools>\s*[\[{].*?</tools>\s*(?:Use them when appropriate to help answer the user's questions\.)?", re.DOTALL
)


@settings(deadline=None, max_examples=300)
@given(texts("# Tools", "<tools>", "<tools>[", "</tools>", "Use them when appropriate to help answer the user's questions."))
def test_a_frame_of_tools_is_cut_out_of_a_system_message(text):
    rest = FRAME.sub("", text)
    assert without_tool_list(text, ()) == (rest.strip() if rest != text else text)


def row(**turn: str) -> dict:
    prompt = [{"role": "user", "content": "On?"}, turn, {"role": "user", "content": "And off?"}]
    gold = [[{"name": "lamp", "arguments": {}}]]
    return {"prompt": prompt, "reward_model": {"ground_truth": {"gold_tool_calls": gold}}, "tools": json.dumps([LAMP])}


def refusal(record: dict) -> str:
    with pytest.raises(RecordError) as caught:
        read_verl(record)
    return caught.value.detail


@pytest.mark.parametrize(
    ("tag", "read", "expected"),
    [
        ("<tools>[", lambda text: without_tool_list(text, ()) == text, True),
        ("# Tools\n<tools>{", lambda text: without_tool_list(text, ()) == text, True),
        ("<tool_call>", lambda text: refusal(row(role="assistant", content=text)), "prompt[1]: <tool_call> in the text"),
        ("<tool_response>", lambda text: refusal(row(role="tool", content=text)), "prompt[1]: text around <tool_response>"),
        ("<tool_response>", has_response, False),
        ("<tool_call>", extract_response, ""),
        ("<verdict>", parse_verdict, None),
        ("<response_quality>", lambda text: parse_rating(text + "<rating>" + text), None),
        ("</rating>", lambda text: parse_rating("<response_quality><rating>good" + text), None),
        (f"{START}user\n", as_plain_turns, []),
        ("<calls>\n", answer_as_checker, "0"),
        ("1", lambda text: loosely_equal(text + "x", 1), False),
    ],
    ids=["tools", "framed", "call", "response", "whole", "body", "verdict", "quality", "rating", "turn", "section", "number"],
)
def test_tags_that_nothing_closes_are_read_to_the_end_once(tag: str, read: Callable[[str], object], expected: object):
    found = read(tag * (SIZE // len(tag)))
    assert found.startswith(expected) if isinstance(expected, str) and isinstance(found, str) else found == expected
