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


def refuse_failures(records: Sequence[Mapping[str, Any]], limit: float, what: str) -> None:
    """ServiceError if more than `limit` of the rollouts failed or were scored 0 because an answer could not be read.

    Args:
        records: rollouts' records as JSON.
        what: whose they are, as the message begins.
    """
    failed = [record["error"] for record in records if record["error"]]
    unread = sum(not record["error"] and not is_finished(record) for record in records)
    if len(failed) + unread <= limit * len(records):
        return
    found = []
    if failed:
        where = ", ".join(f"{boundary} {count}" for boundary, count in errors_by_boundary(records).items() if count)
        found.append(f"{len(failed)} of {len(records)} rollouts failed ({where}; the first says: {failed[0]})")
    if unread:
        found.append(f"{unread} of {len(records)} had an answer of the judge or the checker that could not be read")
    raise ServiceError(
        f"{what}: {' and '.join(found)}, over the study's limit of {limit:.0%} (services.failure_limit). "
        "Mend what failed and run again: what was finished is kept."
    )
