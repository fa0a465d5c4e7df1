"""Where the frozen services answer: an endpoint's own URL, or a stand-in server that lives as long as the block."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from slca_core.config import ServicesConfig
from slca_core.services.process import free_port, serve


@dataclass(frozen=True)
class Services:
    """URLs of the /v1 roots."""

    mocker_url: str
    judge_url: str


def has_standins(services: ServicesConfig) -> bool:
    return "standin" in (services.mocker.managed, services.judge.managed)


@contextmanager
def serve_frozen(services: ServicesConfig, log: Path) -> Iterator[Services]:
    """URLs of mocker and judge. One stand-in server serves both roles if either is managed so."""
    mocker, judge = services.mocker, services.judge
    if not has_standins(services):
        yield Services(mocker.url or "", judge.url or "")
        return
    port = free_port()
    argv = [sys.executable, "-m", "slca_core.services.standins", "--port", str(port)]
    with serve("stand-in server", argv, port=port, log=log, timeout_s=120) as root:
        url = f"{root}/v1"
        yield Services(mocker.url or url, judge.url or url)
