"""What asking a frozen service cost: questions, requests, faults, tokens, time. Of one rollout, or summed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

ROLES = ("mocker", "alternate_mocker", "judge", "checker", "user")
Fault = Literal["rate_limited", "server_error", "timeout", "connection", "unreadable", "refused", "overflow", "cancelled"]
FAULTS: tuple[Fault, ...] = get_args(Fault)
# What has no curve as long as it does not happen.
RARE = (*FAULTS, "cut")


@dataclass(slots=True)
class Usage:
    """Every request ends as an answer or as a fault: requests = calls - cached - failed + faults.

    Attributes:
        calls: questions put to the service, whoever answered them.
        cached: of them answered from the cache.
        failed: of them never answered, after the retries or because the breaker was open.
        requests: sent over the wire, retries included.
        rate_limited: requests answered 429.
        server_error: answered 408, 409 or 5xx.
        timeout: not answered within the service's `timeout_s`.
        connection: ended by a connection that could not be made or broke.
        unreadable: answered 200 with what is no chat completion, or has no end.
        refused: answered with any other status, which no retry can mend.
        overflow: refused because the service's context cannot hold the prompt.
        cancelled: given up by the client itself.
        cut: answers that ended at the service's limit of tokens; they are not read and not kept.
        prompt_tokens, completion_tokens: as the service counted them, of its own answers.
        seconds: from the question to the service's answer, retries and the wait for a slot included.
    """

    calls: int = 0
    cached: int = 0
    failed: int = 0
    requests: int = 0
    rate_limited: int = 0
    server_error: int = 0
    timeout: int = 0
    connection: int = 0
    unreadable: int = 0
    refused: int = 0
    overflow: int = 0
    cancelled: int = 0
    cut: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0

    def count(self, fault: Fault) -> None:
        setattr(self, fault, getattr(self, fault) + 1)

    @property
    def faults(self) -> dict[Fault, int]:
        return {fault: getattr(self, fault) for fault in FAULTS}

    def to_json(self) -> dict[str, float]:
        return dataclasses.asdict(self)


def total(parts: Iterable[Usage | Mapping[str, float]]) -> Usage:
    """The sum, of accounts or of their JSON; what an older one does not count is 0."""
    names = [field.name for field in dataclasses.fields(Usage)]
    values = [part.to_json() if isinstance(part, Usage) else part for part in parts]
    return Usage(**{name: sum(value.get(name, 0) for value in values) for name in names})  # type: ignore[arg-type]
