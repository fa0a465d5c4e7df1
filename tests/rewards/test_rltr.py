"""RLTR's reward and the execution reward of the controls (App. C and D)."""

from __future__ import annotations

import pytest

from slca_core.conversation.calls import parse_turns, render_call
from slca_core.conversation.dialogue import ToolCall
from slca_core.conversation.schemas import ToolSet
from slca_core.rewards.execution import execution_reward
from slca_core.rewards.prediction import RULES, Prediction, read_prediction
from slca_core.rewards.rltr import rltr_reward

TOOLS = ToolSet.of([{"type": "function", "function": {"name": name, "parameters": {"required": ["x"]}}} for name in "fg"])


def turn(name: str, **arguments) -> str:
    return render_call(ToolCall(name, arguments))


def predicted(turns: list[str]) -> Prediction:
    return read_prediction(parse_turns(turns), TOOLS, RULES["paper"])


ONE, TWO = turn("f", x=1), turn("f", x=2)
BROKEN = "<tool_call>{</tool_call>"


@pytest.mark.parametrize(
    ("votes", "turns", "reward"),
    [
        ([1, 1, 1], [ONE, "done"], 1.0),
        ([1, 0, 1], [ONE, "done"], 2 / 3),
        ([1, None, 0], [ONE, "done"], 0.5),
        ([None, None, None], [ONE, "done"], 0.0),
        ([1, 1, 1], [ONE, ONE, ONE], 0.8),
        ([1, 1, 1], [ONE, TWO, ONE], 1.0),
        ([1, 1, 1], [ONE + ONE], 0.9),
        ([1, 1, 1], [ONE, BROKEN], -1.0),
        ([1, 1, 1], [turn("f"), "done"], -1.0),
        ([1, 1, 1], [ONE, "</tool_call>"], -1.0),
    ],
)
def test_completeness_less_repeats_or_a_broken_format(votes, turns, reward):
    assert rltr_reward(votes, predicted(turns)) == pytest.approx(reward)


def test_without_the_strict_format_each_error_costs_two_tenths():
    assert rltr_reward([1, 1, 1], predicted([ONE, BROKEN, BROKEN]), strict_format=False) == pytest.approx(0.6)


def test_a_vote_off_the_scale_is_refused():
    with pytest.raises(ValueError, match="votes of 0, 1 or None"):
        rltr_reward([2], predicted([ONE]))


@pytest.mark.parametrize(
    ("answered", "attempts", "share"),
    [(0, 0, 0.0), (2, 2, 1.0), (1, 2, 0.5), (0, 3, 0.0)],
)
def test_the_execution_reward_is_the_share_of_calls_that_ran(answered, attempts, share):
    assert execution_reward(answered, attempts) == share
