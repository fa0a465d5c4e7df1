"""The omission override and the success it leaves (App. A.3)."""

from __future__ import annotations

import pytest
import torch

from slca_core.conversation.calls import parse_turns
from slca_core.conversation.dialogue import ToolCall
from slca_core.rewards.omission import apply_omission, apply_omission_to_outcome, is_omitted, success_weighted

GOLD = ((ToolCall("f", {}),),)


@pytest.mark.parametrize(
    ("turns", "gold", "omitted"),
    [
        (["The answer is 4."], GOLD, True),
        ([], GOLD, True),
        (["<think>should I <tool_call>?</think>The answer is 4."], GOLD, True),
        (["No opening tag </tool_call>"], GOLD, True),
        (["<tool_call>not even JSON", "Sorry."], GOLD, False),
        (["The answer is 4."], (), False),
        (["The answer is 4."], ((),), False),
    ],
)
def test_an_omission_is_due_calls_without_an_opening_tag(turns, gold, omitted):
    assert is_omitted(parse_turns(turns), gold) is omitted


def test_the_other_guard_takes_a_malformed_attempt_for_an_omission():
    gold = [[ToolCall("f", {})]]
    turns = ["<tool_call>{broken</tool_call>", "done"]
    assert not is_omitted(parse_turns(turns), gold, "opening_tag")
    assert is_omitted(parse_turns(turns), gold, "parseable_call")
    assert not is_omitted(parse_turns(turns), [], "parseable_call")


def test_the_override_makes_the_joint_reward_the_penalty():
    r_tool, r_sum = apply_omission(0.1, 1.0, True)
    assert (r_tool, r_tool + r_sum) == (0.0, -0.5)
    assert apply_omission(0.1, 1.0, False) == (0.1, 1.0)


def test_tensors_are_overridden_where_omitted():
    omitted = torch.tensor([True, False])
    r_tool, r_sum = apply_omission(torch.tensor([0.25, 0.75]), torch.tensor([1.0, 0.5]), omitted, penalty=-2.0)
    assert r_tool.tolist() == [0.0, 0.75]
    assert r_sum.tolist() == [-2.0, 0.5]
    assert apply_omission_to_outcome(torch.tensor([1.0, 1.0]), omitted).tolist() == [0.0, 1.0]


def test_success_is_the_weighted_mean_clipped_at_zero():
    assert success_weighted(0.8, 0.5, lambda_tool=3.0, lambda_sum=1.0) == pytest.approx(0.725)
    assert success_weighted(*apply_omission(0.8, 1.0, True)) == 0.0
    torch.testing.assert_close(success_weighted(torch.tensor([0.0, 1.0]), torch.tensor([-0.5, 0.5])), torch.tensor([0.0, 0.75]))
