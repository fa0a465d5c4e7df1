"""Rollouts that failed: where, how many, and from which share on a step stops rather than go on with zeros nobody gave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from slca_core.errors import ServiceError

# The policy's engine, a frozen service, the rewards, a benchmark's own code, or anything else.
Boundary = Literal["policy", "mocker", "judge", "checker", "user", "scoring", "task", "rollout"]
BOUNDARIES: tuple[Boundary, ...] = get_args(Boundary)


def is_finished(record: Mapping[str, Any]) -> bool:
    """Whether a rollout has all its answers; one that has not is played again by the next attempt."""
    return not record["error"] and not record["unread"]


def errors_by_boundary(records: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many rollouts failed, by where; every boundary is there."""
    counts = Counter(record["error"].partition(":")[0] for record in records if record["error"])
    return {boundary: counts[boundary] for boundary in BOUNDARIES}


def refuse_failures(records: Sequence[Mapping[str, Any]], limit: float, what: str, *, unread_limit: float | None = None) -> None:
    """ServiceError if more than `limit` of the rollouts failed, or `unread_limit` were scored 0 for an answer that nobody can read.

    A prompt that does not fit a frozen model's context is neither: it would not fit the next time.

    Args:
        records: rollouts' records as JSON.
        what: whose they are, as the message begins.
        unread_limit: None for as many as there are.
    """
    failed = [record["error"] for record in records if record["error"]]
    unread = sum(not record["error"] and not is_finished(record) for record in records)
    if len(failed) > limit * len(records):
        where = ", ".join(f"{boundary} {count}" for boundary, count in errors_by_boundary(records).items() if count)
        raise ServiceError(
            f"{what}: {len(failed)} of {len(records)} rollouts failed ({where}; the first says: {failed[0]}), over the study's "
            f"limit of {limit:.0%} (services.failure_limit). Mend what failed and run again: what was finished is kept."
        )
    if unread_limit is not None and unread > unread_limit * len(records):
        raise ServiceError(
            f"{what}: {unread} of {len(records)} rollouts had an answer of the judge or the checker that could not be read, over "
            f"the study's limit of {unread_limit:.0%} (services.unread_limit). See that the model behind it answers as the prompt "
            "asks, and within its max_tokens; or set the limit to null, which scores them 0 as the paper does. What was finished "
            "is kept."
        )
