"""The omission override (App. A.3): answering without a call where calls were due.

It replaces rewards before any statistic is taken. The penalty stands in the summary's reward, since such a rollout has no Tool
segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeVar

from slca_core.conversation.calls import ParsedTurn
from slca_core.conversation.dialogue import ToolCall

if TYPE_CHECKING:
    from torch import Tensor

R_PEN = -0.5

Reward = TypeVar("Reward", float, "Tensor")
Guard = Literal["opening_tag", "parseable_call"]


def is_omitted(turns: Sequence[ParsedTurn], gold: Sequence[Sequence[ToolCall]], guard: Guard = "opening_tag") -> bool:
    """Whether gold has calls and the rollout, its thinking removed, has none of what `guard` looks for.

    Args:
        turns: of the assistant, the summary included.
        guard: "opening_tag", App. A.3's words: a malformed attempt is no omission; "parseable_call", App. A.1's: it is one.
    """
    if not any(gold):
        return False
    return not any(turn.n_open if guard == "opening_tag" else turn.calls for turn in turns)


def apply_omission(r_tool: Reward, r_sum: Reward, omitted: bool | Tensor, penalty: float = R_PEN) -> tuple[Reward, Reward]:
    """(R_tool, R_sum) after the override: (0, penalty) where omitted, so that the joint reward is the penalty too.

    Args:
        r_tool, r_sum: both floats, or both tensors of shape (B,).
        omitted: a bool, or a bool tensor of shape (B,).
    """
    return _replace(r_tool, omitted, 0.0), _replace(r_sum, omitted, penalty)


def apply_omission_to_outcome(outcome: Reward, omitted: bool | Tensor) -> Reward:
    """ToolPO's outcome after the override: 0 where omitted."""
    return _replace(outcome, omitted, 0.0)


def success_weighted(r_tool: Reward, r_sum: Reward, *, lambda_tool: float = 1.0, lambda_sum: float = 1.0) -> Reward:
    """S_norm = max(0, (lambda_tool R_tool + lambda_sum R_sum) / (lambda_tool + lambda_sum)), so 0 for an omission (App. A.3)."""
    total = (lambda_tool * r_tool + lambda_sum * r_sum) / (lambda_tool + lambda_sum)
    return max(0.0, total) if isinstance(total, float | int) else total.clamp(min=0)


def _replace(value: Reward, where: bool | Tensor, by: float) -> Reward:
    if isinstance(value, float | int):
        return by if where else value
    # Rollouts are scored one by one, as floats: who plans or serves waits for no torch.
    import torch

    return torch.where(torch.as_tensor(where, dtype=torch.bool, device=value.device), by, value)
