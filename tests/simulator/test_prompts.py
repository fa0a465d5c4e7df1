"""The mocker's prompt differs by the tool definition alone, cannot be escaped from, and its answer is read leniently."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slca_core.conversation.dialogue import ToolCall
from slca_core.simulator.prompts import extract_response, mocker_prompt

TOOL = {"type": "function", "function": {"name": "f", "description": "Adds.", "parameters": {"type": "object"}}}
TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<tool_definition>", "</tool_definition>")
texts = st.lists(st.one_of(st.sampled_from([*TAGS, "{definition}", "{request}", "\nRequest: ", "<b>"]), st.text(max_size=4))).map(
    "".join
)


@given(texts, texts)
def test_with_and_without_the_schema_the_prompts_differ_by_the_definition_block_only(argument, description):
    call = ToolCall("f", {"x": argument})
    tool = {"type": "function", "function": {"name": "f", "description": description}}
    with_schema, without = mocker_prompt(call, tool), mocker_prompt(call, None)
    start, end = with_schema.index("\nThe called tool is defined as:\n<tool_definition>"), with_schema.index("</tool_definition>\n")
    assert with_schema[:start] + with_schema[end + len("</tool_definition>\n") :] == without


@given(texts, texts)
def test_neither_arguments_nor_definition_add_a_tag(argument, description):
    prompt = mocker_prompt(ToolCall("f", {"x": argument}), {"function": {"description": description}})
    plain = mocker_prompt(ToolCall("f", {"x": "plain"}), {"function": {"description": "plain"}})
    assert [prompt.count(tag) for tag in TAGS] == [plain.count(tag) for tag in TAGS]


@given(texts)
def test_the_call_reaches_the_mocker_unchanged(argument):
    call = ToolCall("f", {"x": argument})
    request = mocker_prompt(call, None).rpartition("\nRequest: <tool_call>")[2].removesuffix("</tool_call>\n")
    assert ToolCall.from_json(json.loads(request)) == call


def test_the_definition_reaches_the_mocker_unchanged():
    body = mocker_prompt(ToolCall("f", {}), TOOL).partition("<tool_definition>")[2].partition("</tool_definition>")[0]
    assert json.loads(body) == TOOL


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        ("<tool_response>\n{}\n</tool_response>", "{}"),
        ("Sure: <tool_response>a</tool_response> done", "a"),
        ("<tool_response>a</tool_response><tool_response>b</tool_response>", "b"),
        ("<tool_call>a</tool_call><tool_response>b</tool_response><tool_call>c</tool_call>", "b"),
        ("<tool_call>a</tool_call> then <tool_call>b</tool_call>", "b"),
        ("<tool_response>a</tool_response><tool_response>b", "a"),
        ("<tool_response>\na\nb", "a\nb"),
        ("x <tool_call> a", "a"),
        ("<tool_response>a <tool_call>b", "a <tool_call>b"),
        ("  plain\n", "plain"),
        ("<tool_response></tool_response>", ""),
        ("", ""),
    ],
)
def test_the_body_of_an_answer_is_found(answer, body):
    assert extract_response(answer) == body
