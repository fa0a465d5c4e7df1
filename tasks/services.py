"""The frozen services while a stage runs: stand-ins started and stopped here, external ones named by the study."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from slca_core.config import ServiceConfig, ServicesConfig, Study
from slca_core.fingerprint import code_digest
from slca_core.services.frozen import Services, serve_frozen
from tasks.workspace import Workspace

STANDIN_CODE = ("slca_core.services.standins", "slca_core.services.mocking", "slca_core.judge", "slca_core.simulator.prompts")


class StageServices:
    """URLs of a stage's services; stand-ins start when a step first asks for one, so a stage that is all recorded starts none."""

    def __init__(self, serving: AbstractContextManager[Services], stack: ExitStack) -> None:
        self._serving, self._stack, self._lock = serving, stack, threading.Lock()
        self._services: Services | None = None

    @property
    def mocker_url(self) -> str:
        return self._started().mocker_url

    @property
    def judge_url(self) -> str:
        return self._started().judge_url

    def _started(self) -> Services:
        with self._lock:
            self._services = self._services or self._stack.enter_context(self._serving)
            return self._services


@contextmanager
def frozen_services(study: Study) -> Iterator[StageServices]:
    """The services while a stage runs."""
    with ExitStack() as stack:
        yield StageServices(serve_frozen(study.services, Workspace(study).logs / "standins.log"), stack)


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
