"""The frozen services while a stage runs: stand-ins and vLLM servers started and stopped here, external ones named by the study."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

from slca_core import secrets
from slca_core.config import Arm, ServicesConfig, Study
from slca_core.services.frozen import Serving, identity, serve_frozen
from slca_core.services.usage import ROLES
from tasks.orchestration.progress import say
from tasks.orchestration.workspace import Workspace

EVALUATION = ("mocker", "judge")


def frozen_services(study: Study) -> AbstractContextManager[Serving]:
    """The services while a stage runs: a stage that is all recorded asks for none, and starts none."""
    workspace = Workspace(study)
    return serve_frozen(study.services, study.machine, root=workspace.root, logs=workspace.logs, say=say)


def services_identity(services: ServicesConfig, roles: Iterable[str]) -> dict[str, Any]:
    """What of the services in these roles bears on results; without a cache, the same call meets another answer each time."""
    uncached = {} if services.cache else {"cache": False}
    return {role: identity(services.of(role)) for role in roles} | uncached


def require_keys(services: ServicesConfig, roles: Iterable[str]) -> None:
    """ConfigError if the environment lacks the key of a service in one of these roles, or what else its settings refer to."""
    for role in dict.fromkeys(roles):
        secrets.require_present(services.of(role).by_reference, role.replace("_", " "))


def addresses(study: Study) -> list[str]:
    """A line on each endpoint that the study asks: role, model and where."""
    asked = [(role, study.services.of(role)) for role in study_roles(study)]
    return [f"{role.replace('_', ' '):<8} {service.model} at {public_url(service.url)}" for role, service in asked if service.url]


def public_url(url: str) -> str:
    """A URL as people see it: what is kept elsewhere by its reference."""
    return url if secrets.references(url) else secrets.public_url(url)


def missing_keys(study: Study) -> list[str]:
    """A sentence on each thing that this environment lacks and the study's services refer to."""
    return [
        f"services.{role} needs the {one.where()}, which is not set here"
        for role in study_roles(study)
        for one in secrets.missing(study.services.of(role).by_reference)
        if one.kind == "env"
    ]


def training_identity(study: Study, arm: Arm) -> dict[str, Any]:
    """What of the services bears on one arm's training; the checker's number of votes does, too."""
    votes = {"votes": study.services.checker.votes} if arm.asks_checker else {}
    return services_identity(study.services, arm.services) | votes


def study_roles(study: Study) -> tuple[str, ...]:
    """The services a study asks, in training or evaluation."""
    asked = {role for arm in study.arms for role in arm.services} | set(EVALUATION)
    if study.evaluation.tau2:
        asked.add("user")
    return tuple(role for role in ROLES if role in asked)


def service_labels(study: Study, roles: Iterable[str] | None = None) -> list[str]:
    """The labels a table must carry for the stand-ins in these roles; in all that the study asks if none are named."""
    asked = [(role, study.services.of(role)) for role in (study_roles(study) if roles is None else roles)]
    return [
        f"{role.replace('_', ' ')}: stand-in {service.model} (rule-based, not an LLM)"
        for role, service in asked
        if service.managed == "standin"
    ]
