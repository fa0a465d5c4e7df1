"""The frozen services while a stage runs: stand-ins started and stopped here, external ones named by the study."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from slca_core.config import ServiceConfig, ServicesConfig, Study
from slca_core.fingerprint import code_digest
from slca_core.services.process import free_port, serve
from tasks.workspace import Workspace

STANDIN_CODE = ("slca_core.services.standins", "slca_core.services.mocking", "slca_core.judge", "slca_core.simulator.prompts")


@dataclass(frozen=True)
class Services:
    mocker_url: str
    judge_url: str


@contextmanager
def frozen_services(study: Study) -> Iterator[Services]:
    """URLs of mocker and judge. One stand-in server serves both roles if either is managed so."""
    mocker, judge = study.services.mocker, study.services.judge
    if "standin" not in (mocker.managed, judge.managed):
        yield Services(mocker.url or "", judge.url or "")
        return
    port = free_port()
    argv = [sys.executable, "-m", "slca_core.services.standins", "--port", str(port)]
    log = Workspace(study).logs / "standins.log"
    with serve("stand-in server", argv, port=port, log=log, timeout_s=120) as root:
        url = f"{root}/v1"
        yield Services(mocker.url or url, judge.url or url)


def services_identity(services: ServicesConfig) -> dict[str, Any]:
    """What of the services bears on results: models and decoding, and a stand-in's code; not where they run."""
    return {"mocker": _identity(services.mocker), "judge": _identity(services.judge)}


def _identity(service: ServiceConfig) -> dict[str, Any]:
    values: dict[str, Any] = {"model": service.model, "temperature": service.temperature, "max_tokens": service.max_tokens}
    if service.managed == "standin":
        values["standin_code"] = code_digest(*STANDIN_CODE)
    return values


def service_labels(services: ServicesConfig) -> list[str]:
    """The labels a table must carry for the stand-ins it was made with."""
    roles = (("mocker", services.mocker), ("judge", services.judge))
    return [f"{role}: stand-in {service.model} (rule-based, not an LLM)" for role, service in roles if service.managed == "standin"]
