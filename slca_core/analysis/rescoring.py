"""Rewards of stored rollouts once more, from their texts and the answers on disk: no policy, no endpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slca_core.conversation.dialogue import Sample
from slca_core.errors import PromptTooLong, ServiceError
from slca_core.failures import is_finished
from slca_core.rollout import Scoring, Trajectory, score
from slca_core.services.client import Lines
from slca_core.simulator.sgls import Ask, Observation

# What scoring makes of a rollout; all else in its record was there before.
SCORED = (
    *("r_tool", "r_sum", "outcome", "action", "omitted", "fmt", "name", "key", "val", "par", "process", "exact"),
    *("n_open", "n_close", "n_valid", "rating", "verdict", "votes", "unread", "summary_score", "tool_turns"),
)


@dataclass(slots=True)
class Rescored:
    """The rollouts of one step, scored again.

    Attributes:
        before, after: what of each rollout is in `SCORED`, with its `rollout_id`; as stored, and now.
        failed: rollouts that had failed, or of which an answer could not be read: they have no rewards of anybody's.
        unanswered: rollouts whose answers are not all on disk: (rollout_id, what is missing).
    """

    before: list[dict[str, Any]] = field(default_factory=list)
    after: list[dict[str, Any]] = field(default_factory=list)
    failed: int = 0
    unanswered: list[tuple[str, str]] = field(default_factory=list)

    @property
    def differing(self) -> list[str]:
        """The rollouts of which any value differs, in the last bit too."""
        return [old["rollout_id"] for old, new in zip(self.before, self.after, strict=True) if old != new]


async def rescore(
    records: Iterable[Mapping[str, Any]],
    samples: Mapping[str, Sample],
    scoring: Scoring,
    lines: Callable[[Mapping[str, Any]], Lines],
) -> Rescored:
    """Scores stored rollouts.

    Args:
        records: rows of a rollouts file.
        samples: by sample id, those the rollouts were of.
        lines: a record -> its lines to the services; they should be offline.
    """
    found = Rescored()
    for record in records:
        if not is_finished(record):
            found.failed += 1
            continue
        asked = lines(record)
        rescored = await score(
            samples[record["sample_id"]],
            trajectory_of(record),
            _as_then(record, asked.judge),
            scoring,
            ask_checker=_as_then(record, asked.checker) if asked.checker else None,
            rollout_id=record["rollout_id"],
            update=record["update"],
            sample_index=record["sample_index"],
        )
        if rescored.error:
            found.unanswered.append((record["rollout_id"], rescored.error))
            continue
        found.before.append(_scored(record))
        found.after.append(_scored(rescored.to_json()))
    return found


def _as_then(record: Mapping[str, Any], ask: Ask) -> Ask:
    """Asks as the rollout did: what its record says did not fit a context has no answer on disk, and does not fit now."""

    async def again(prompt: str) -> str:
        try:
            return await ask(prompt)
        except ServiceError as error:
            raise PromptTooLong(str(error)) from None

    return again if (record.get("overflowed") or 0) > 0 else ask  # Of older records it is missing, or no number.


def trajectory_of(record: Mapping[str, Any]) -> Trajectory:
    """The trajectory a record was made of; which of its observations were refused is not stored, only how many."""
    refused, broken = record["refused_calls"], record["broken_responses"]
    observations = [
        Observation(text, refused=at < refused, broken=refused <= at < refused + broken)
        for at, text in enumerate(record["observations"])
    ]
    return Trajectory(
        token_ids=list(record["token_ids"]),
        prompt_tokens=record["prompt_tokens"],
        action_ranges=[(start, end) for start, end in record["action_ranges"]],
        turns=list(record["turns"]),
        observations=observations,
        truncated=record["truncated"],
        final_response=record["final_response"],
        error=record["error"],
    )


def _scored(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain(record[name]) for name in ("rollout_id", *SCORED)}


def _plain(value: Any) -> Any:
    """As JSON would have it, whatever a table made of it."""
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and value != value else value
