"""ToolPO's reference-rule outcome and action reward (App. C)."""

from __future__ import annotations

from typing import Any

import pytest

from slca_core.conversation.calls import parse_turns, render_call
from slca_core.conversation.dialogue import ToolCall
from slca_core.conversation.schemas import ToolSet
from slca_core.rewards.outcome import action_reward, reference_outcome
from slca_core.rewards.prediction import RULES, Prediction, read_prediction

TOOLS = ToolSet.of(
    [{"type": "function", "function": {"name": name, "parameters": {"properties": {"x": {"type": "integer"}}}}} for name in "fg"]
)


def call(name: str = "f", **arguments: Any) -> ToolCall:
    return ToolCall(name, arguments)


def turn(*calls: ToolCall) -> str:
    return "\n".join(map(render_call, calls))


def predicted(turns: list[str], semantics: str = "paper") -> Prediction:
    return read_prediction(parse_turns(turns), TOOLS, RULES[semantics])


def outcome_of(turns: list[str], gold: list[list[ToolCall]], semantics: str = "paper") -> float:
    return reference_outcome(predicted(turns, semantics), gold, RULES[semantics])


GOLD = [[call(x=1), call("g", x=2)], [call(x=3)]]
FIRST, SECOND = turn(*GOLD[0]), turn(*GOLD[1])


@pytest.mark.parametrize(
    ("turns", "outcome"),
    [
        pytest.param([FIRST, SECOND, "Done."], 1.0, id="gold's calls"),
        pytest.param([turn(call(x=3), call("g", x=2)), turn(call(x=1))], 1.0, id="another order across turns"),
        pytest.param([turn(call(x=1, y=0), call("g", x=2)), SECOND], 1.0, id="a key more than gold's"),
        pytest.param([turn(call(x=1), call("g")), SECOND], 0.0, id="a key of gold's missing"),
        pytest.param([turn(call(x=1), call("g", x=4)), SECOND], 0.0, id="a wrong value"),
        pytest.param([FIRST, turn(call(x="3"))], 0.0, id="a value that matches loosely but breaks the schema"),
        pytest.param([FIRST], 0.0, id="a call missing"),
        pytest.param([FIRST, SECOND, SECOND], 0.0, id="a call repeated"),
        pytest.param([turn(GOLD[0][0]), turn(GOLD[0][1]), SECOND], 0.0, id="a narrower first step"),
        pytest.param([FIRST, SECOND, "Done. <tool_call>"], 0.0, id="an unclosed tag"),
        pytest.param([FIRST, SECOND + "</tool_call>"], 0.0, id="a stray closing tag"),
        pytest.param(["Done."], 0.0, id="no call"),
    ],
)
def test_the_reference_rule_is_a_conjunction(turns, outcome):
    assert outcome_of(turns, GOLD) == outcome


def test_without_gold_only_silence_is_right():
    assert outcome_of(["Hello."], []) == 1.0
    assert outcome_of([FIRST], []) == 0.0


@pytest.mark.parametrize("semantics", ["paper", "release"])
def test_gold_calls_without_arguments_need_only_their_name(semantics):
    gold = [[call()], [call("g")]]
    assert outcome_of([turn(call(z=0)), turn(call("g"))], gold, semantics) == 1.0


@pytest.mark.parametrize(
    ("turns", "share"),
    [
        ([FIRST, SECOND], 1.0),
        ([FIRST], 2 / 3),
        ([turn(call(x=1), call(x=1))], 1 / 3),
        ([turn(call(x="1", z=0))], 1 / 3),
        ([turn(call("g"))], 0.0),
        (["Done."], 0.0),
    ],
)
def test_the_action_reward_is_the_share_of_gold_calls_made(turns, share):
    assert action_reward(predicted(turns), GOLD) == pytest.approx(share)


def test_without_gold_the_action_reward_is_one():
    assert action_reward(predicted([FIRST]), []) == 1.0
