"""The process rewards by name: what each is of a rollout, and whether it asks the completeness checker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, assert_never

from slca_core.conversation.calls import ParsedTurn
from slca_core.conversation.dialogue import ToolCall
from slca_core.rewards.execution import execution_reward
from slca_core.rewards.outcome import reference_outcome
from slca_core.rewards.prediction import Prediction, Rules
from slca_core.rewards.rltr import rltr_reward

if TYPE_CHECKING:
    from slca_core.config import ProcessReward


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a process reward may look at.

    Attributes:
        hierr: S_process under the arm's weights.
        answered: calls that passed the simulator's checks and got a response.
        votes: the completeness checker's; empty if it was not asked.
    """

    turns: Sequence[ParsedTurn]
    prediction: Prediction
    gold: Sequence[Sequence[ToolCall]]
    rules: Rules
    hierr: float
    answered: int
    votes: Sequence[int | None]


class Rule(NamedTuple):
    """A process reward, in [0, 1] but for RLTR's."""

    reward: Callable[[Evidence], float]
    asks_checker: bool = False


def process_reward(name: ProcessReward) -> Rule:
    """Return the rule of that name; a type checker finds a name without one."""
    match name:
        case "hierr":
            return Rule(lambda found: found.hierr)
        case "none":
            return Rule(lambda _: 0.0)
        case "reference_outcome":
            return Rule(lambda found: reference_outcome(found.prediction, found.gold, found.rules))
        case "execution":
            return Rule(lambda found: execution_reward(found.answered, sum(map(_attempts, found.turns))))
        case "rltr":
            return Rule(_rltr, asks_checker=True)
        case _:
            assert_never(name)


def _attempts(turn: ParsedTurn) -> int:
    """Calls of readable blocks, blocks that cannot be read, and opening tags without a block."""
    return len(turn.calls) + sum(block.refusal is not None for block in turn.blocks) + turn.n_unclosed


def _rltr(found: Evidence) -> float:
    if not found.votes:
        raise ValueError("RLTR's process reward is made of the completeness checker's votes, and it was not asked")
    return rltr_reward(found.votes, found.prediction)
