"""RLTR's reward (App. C): completeness votes, minus penalties for repeats and errors; -1 for a broken format.

The votes come from a frozen checker that sees the tools, the question, the calls and their responses; here they are numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from slca_core.conversation.dialogue import ToolCall
from slca_core.rewards.prediction import Prediction

REPEAT_PENALTY = 0.1
ERROR_PENALTY = 0.2
FORMAT_VIOLATION = -1.0


def rltr_reward(votes: Sequence[int | None], prediction: Prediction, *, strict_format: bool = True) -> float:
    """R = R_comp + R_repeat + R_error, or FORMAT_VIOLATION.

    Args:
        votes: the checker's N answers, 0 or 1; None for a failed one, which is left out (no answer at all counts as 0).
        strict_format: any block that is not valid makes the whole reward FORMAT_VIOLATION, so that R_error never acts; False
            leaves it to R_error.

    Raises:
        ValueError: a vote is neither 0, 1 nor None.
    """
    if bad := [vote for vote in votes if vote not in (0, 1, None)]:
        raise ValueError(f"completeness votes of 0, 1 or None were expected, found {bad}.")
    errors = max(prediction.n_open, prediction.n_close) - prediction.n_valid
    if errors and strict_format:
        return FORMAT_VIOLATION
    cast = [vote for vote in votes if vote is not None]
    completeness = sum(cast) / len(cast) if cast else 0.0
    return completeness - REPEAT_PENALTY * count_repeats(prediction.calls) - ERROR_PENALTY * errors


def count_repeats(calls: Sequence[ToolCall]) -> int:
    """Calls with the name and arguments of the call right before them."""
    return sum(before == after for before, after in pairwise(calls))
