"""A circuit breaker: a service that answers nobody any more is not asked by thousands of rollouts first."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from slca_core.errors import ServiceError


@dataclass
class Breaker:
    """Opens after `calls` calls in a row that nobody answered; then every `probe_s` one call is let through to see.

    Args:
        service: who it is, for the message.
    """

    service: str
    calls: int
    probe_s: float
    _unanswered: int = field(default=0, init=False)
    _probe_at: float = field(default=0.0, init=False)
    _last: str = field(default="", init=False)

    @property
    def is_open(self) -> bool:
        return self._unanswered >= self.calls

    def let_through(self) -> None:
        """ServiceError while it is open, but for the call that is to find out."""
        if not self.is_open:
            return
        if time.monotonic() < self._probe_at:
            raise ServiceError(f"{self.service} has not answered {self._unanswered} calls in a row. The last: {self._last}")
        self._probe_at = time.monotonic() + self.probe_s

    def answered(self) -> None:
        self._unanswered = 0

    def unanswered(self, why: str) -> None:
        self._unanswered += 1
        self._last = why
        self._probe_at = time.monotonic() + self.probe_s
