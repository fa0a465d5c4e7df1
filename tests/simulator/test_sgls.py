"""SGLS: fixed errors before the mocker, the schema with the mocker; unconstrained: neither."""

from __future__ import annotations

import asyncio

import pytest

from slca_core.conversation.dialogue import ToolCall
from slca_core.conversation.schemas import ToolSet
from slca_core.simulator.prompts import mocker_prompt
from slca_core.simulator.sgls import EMPTY_RESPONSE, Observation, simulate, validation_error

TOOL = {
    "type": "function",
    "function": {
        "name": "book",
        "description": "Books.",
        "parameters": {
            "type": "object",
            "properties": {
                "room": {"type": "string"},
                "guests": {"type": "integer"},
                "address": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
            },
            "required": ["room", "guests"],
            "additionalProperties": False,
        },
    },
}
TOOLS = ToolSet.of([TOOL])
VALID = ToolCall("book", {"room": "a", "guests": 2})


class Mocker:
    """Answers every prompt with one text and remembers the prompts."""

    def __init__(self, answer: str = "<tool_response>ok</tool_response>") -> None:
        self.answer = answer
        self.prompts: list[str] = []

    async def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        return self.answer


def run(call: ToolCall, mocker: Mocker, condition: str) -> Observation:
    return asyncio.run(simulate(call, TOOLS, mocker, condition))


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("cook", {}, "Tool 'cook' not found in the current available tools set."),
        ("book", {}, "Tool 'book' missing required parameters: [guests, room]"),
        ("book", {"room": "a"}, "Tool 'book' missing required parameters: [guests]"),
        ("book", {"room": 1}, "Tool 'book' missing required parameters: [guests]"),
        ("book", {"room": "a", "guests": 1, "address": {}}, "Tool 'book' missing required parameters: [address.city]"),
        ("book", {"room": "a", "guests": "two"}, "Tool 'book' got arguments of the wrong type: [guests]"),
        ("book", {"room": 1, "guests": "two"}, "Tool 'book' got arguments of the wrong type: [guests, room]"),
        ("book", {"room": "a", "guests": 1, "pets": 1}, "Tool 'book' got arguments of the wrong type: [arguments]"),
    ],
)
def test_a_call_that_cannot_be_served_gets_its_fixed_error(name, arguments, error):
    assert validation_error(ToolCall(name, arguments), TOOLS) == error


def test_a_valid_call_gets_no_error():
    assert validation_error(VALID, TOOLS) is None


def test_a_refused_call_never_reaches_the_mocker():
    mocker = Mocker()
    observation = run(ToolCall("cook", {}), mocker, "sgls")
    assert observation.refused
    assert mocker.prompts == []


def test_under_sgls_the_mocker_sees_the_schema():
    mocker = Mocker()
    assert run(VALID, mocker, "sgls") == Observation("ok")
    assert mocker.prompts == [mocker_prompt(VALID, TOOL)]


@pytest.mark.parametrize("call", [VALID, ToolCall("cook", {}), ToolCall("book", {})], ids=["valid", "unknown", "missing"])
def test_unconstrained_every_call_reaches_the_mocker_without_the_schema(call):
    mocker = Mocker()
    assert run(call, mocker, "unconstrained") == Observation("ok")
    assert mocker.prompts == [mocker_prompt(call, None)]


@pytest.mark.parametrize("answer", ["", " \n", "<tool_response>\n</tool_response>"])
def test_an_observation_is_never_empty(answer):
    assert run(VALID, Mocker(answer), "sgls").text == EMPTY_RESPONSE


@pytest.mark.parametrize(
    ("answer", "broken"),
    [
        ("<tool_response>{}</tool_response>", False),
        ('<tool_response>\n{"a": 1', True),
        ('{"a": 1}', True),
        ("<tool_call>{}</tool_call>", True),
    ],
)
def test_an_answer_that_breaks_the_contract_is_used_and_counted(answer, broken):
    observation = run(VALID, Mocker(answer), "sgls")
    assert (observation.broken, observation.refused) == (broken, False)
    assert observation.text
