"""What the frozen services were asked and how they failed, as the report shows it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slca_core.failures import BOUNDARIES
from slca_core.reporting.sections import Section
from slca_core.services.usage import ROLES, Usage, total

HEAD = ("Service", "Calls", "From cache", "Requests", "Faults", "Unanswered", "Tokens in", "Tokens out", "Seconds a call")


@dataclass(frozen=True, slots=True)
class Asked:
    """All trainings or all evaluations of a study.

    Attributes:
        stage: "training" or "evaluation".
        usage: role -> what it was asked.
        rollouts: that were played.
        failures: boundary -> rollouts that failed there.
        unread: rollouts with an answer of judge or checker that could not be read, scored 0.
        overflowed: rollouts whose prompt to judge or checker did not fit its context, scored 0.
        left_out: share of rollouts whose group left the policy loss for a failed one of it; training's.
    """

    stage: str
    usage: Mapping[str, Usage]
    rollouts: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    unread: int = 0
    overflowed: int = 0
    left_out: float = 0.0


def in_training(lines: Sequence[Mapping[str, float]]) -> Asked:
    """Lines of metrics files, of however many runs, summed over the frozen services and over what failed."""
    roles = sorted({name.partition("/")[0] for line in lines for name in line if name.endswith("/calls")}, key=ROLES.index)
    names = [field.name for field in dataclasses.fields(Usage)]
    rollouts = sum(line["rollouts"] for line in lines)
    return Asked(
        stage="training",
        usage={role: total({name: line.get(f"{role}/{name}", 0) for name in names} for line in lines) for role in roles},
        rollouts=round(rollouts),
        failures={boundary: round(sum(line.get(f"errors/{boundary}", 0) for line in lines)) for boundary in BOUNDARIES},
        unread=round(sum(line.get("unread_answers", 0) * line["rollouts"] for line in lines)),
        overflowed=round(sum(line.get("overflowed_prompts", 0) * line["rollouts"] for line in lines)),
        left_out=sum(line.get("incomplete_groups", 0) * line["rollouts"] for line in lines) / rollouts,
    )


def in_evaluation(facts: Sequence[Mapping[str, Any]]) -> Asked:
    """The facts of evaluations' records, summed likewise."""
    asked = [one["services"] for one in facts]
    roles = [role for role in ROLES if any(role in services for services in asked)]
    return Asked(
        stage="evaluation",
        usage={role: total(services[role] for services in asked if role in services) for role in roles},
        rollouts=sum(one["rollouts"] for one in facts),
        failures={boundary: sum(one["failures"][boundary] for one in facts) for boundary in BOUNDARIES},
        unread=sum(one["unread"] for one in facts),
        overflowed=sum(one.get("overflowed", 0) for one in facts),
    )


def rows(asked: Sequence[Asked]) -> list[list[str]]:
    """A line a stage and service, under `HEAD`."""
    return [_row(f"{role.replace('_', ' ')}, {stage.stage}", usage) for stage in asked for role, usage in stage.usage.items()]


def section(asked: Sequence[Asked], failure_limit: float, unread_limit: float | None) -> Section:
    """The report's table; the failures said below stop a step above `failure_limit`, unread answers above `unread_limit`."""
    return Section("Frozen services", HEAD, rows(asked), [sentence(stage, failure_limit, unread_limit) for stage in asked])


def _row(name: str, usage: Usage) -> list[str]:
    counted = [*usage.faults.items(), ("cut answer", usage.cut)]
    faults = ", ".join(f"{count:,} {fault.replace('_', ' ')}" for fault, count in counted if count) or "none"
    answered = usage.calls - usage.cached - usage.failed
    seconds = f"{usage.seconds / answered:.3f}" if answered else "–"
    tokens = (f"{usage.prompt_tokens:,}", f"{usage.completion_tokens:,}")
    return [name, f"{usage.calls:,}", f"{usage.cached:,}", f"{usage.requests:,}", faults, f"{usage.failed:,}", *tokens, seconds]


def sentence(stage: Asked, limit: float, unread_limit: float | None) -> str:
    """What failed in a stage, beside the shares at which its steps would have stopped."""
    failed = sum(stage.failures.values())
    where = ", ".join(f"{boundary} {count:,}" for boundary, count in stage.failures.items() if count)
    parts = [f"{failed:,} of {stage.rollouts:,} rollouts failed" + (f" ({where})" if where else "")]
    parts.append(f"{stage.unread:,} had an answer of judge or checker that could not be read and counted 0")
    if stage.overflowed:
        parts.append(f"{stage.overflowed:,} had a prompt that does not fit the context of judge or checker and counted 0")
    if stage.left_out:
        parts.append(f"{stage.left_out:.1%} were in a group that left the policy loss for one that failed")
    where_from = " on Toucan-Test" if stage.stage == "evaluation" else ""
    stops = f"A step stops above {limit:.0%} failed"
    stops += ", at no share of unread answers." if unread_limit is None else f" or {unread_limit:.0%} unread."
    return f"{stage.stage.capitalize()}{where_from}: {'; '.join(parts)}. {stops}"
