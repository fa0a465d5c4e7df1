"""Sloppy demonstrations, as real ones are, at stated rates: so that SFT learns habits that reinforcement learning can mend.

Only demonstrations of the training splits are spoilt. Gold calls, prompts and the test set stay as they are.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from slca_core.conversation.dialogue import Message, Sample, ToolCall

BARE_SUMMARY = "That is done."


@dataclass(frozen=True, slots=True)
class Sloppiness:
    """Shares of demonstrations, each in [0, 1], drawn independently.

    Attributes:
        dropped_argument: one call lacks one of its arguments, whether the schema requires it or not.
        bare_summary: the summary is BARE_SUMMARY and quotes nothing of the responses.
    """

    dropped_argument: float = 0.0
    bare_summary: float = 0.0


def spoil(sample: Sample, rates: Sloppiness, seed: int) -> tuple[Sample, Counter[str]]:
    """The sample with its demonstration spoilt, or as it is, and what was done to it; the draw follows from seed and sample id."""
    rng = random.Random(f"{seed}/{sample.sample_id}")
    drops, bare = rng.random() < rates.dropped_argument, rng.random() < rates.bare_summary
    messages, done = list(sample.demonstration), Counter[str]()
    if drops and (places := _arguments(messages)):
        _drop(messages, *rng.choice(places))
        done["dropped_argument"] += 1
    if bare and messages and messages[-1].role == "assistant":
        messages[-1] = replace(messages[-1], content=BARE_SUMMARY)
        done["bare_summary"] += 1
    return replace(sample, demonstration=tuple(messages)), done


def _arguments(messages: Sequence[Message]) -> list[tuple[int, int, str]]:
    """(message, call, key) of every argument of a demonstration."""
    return [
        (position, number, key)
        for position, message in enumerate(messages)
        for number, call in enumerate(message.tool_calls)
        for key in call.arguments
    ]


def _drop(messages: list[Message], position: int, number: int, key: str) -> None:
    calls = list(messages[position].tool_calls)
    kept = {name: value for name, value in calls[number].arguments.items() if name != key}
    calls[number] = ToolCall(calls[number].name, kept)
    messages[position] = replace(messages[position], tool_calls=tuple(calls))
