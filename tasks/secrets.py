"""The secrets of a run, before anything else: in its environment, where its steps and their processes look for them.

Prefect keeps what its deployments are given, so that nothing private may be given there directly.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from prefect.blocks.system import Secret
from prefect.runtime import deployment
from prefect.settings import PREFECT_API_URL

from slca_core import secrets
from slca_core.config import LocalLauncher, NotifyConfig, Study
from slca_core.errors import ConfigError


def at_hand(study: Study) -> Study:
    """The study, its secrets in this process's environment.

    Raises:
        ConfigError: a deployment was given one directly, a job that outlives the run would need one that is, or a block of
            Prefect's is not there.
    """
    private = study.private
    if deployment.id:
        refuse(private)
    needed = [place for place in private if place.startswith("services.")]
    if needed and not isinstance(study.machine.launcher, LocalLauncher):
        raise ConfigError(
            f"{', '.join(needed)}: given directly, and a job ({study.machine.launcher.kind}) does not have what this process has. "
            f"{secrets.HOW} The nodes' environment must have the variable."
        )
    os.environ.update({secrets.reference_to(text).variable: text for text in private.values()})
    fetch(study.by_reference)
    # What else is missing is said when a step needs it; this would be missing for good.
    secrets.require_present([str(one) for one in secrets.references(study.by_reference) if one.given], study.name)
    return study


def kept(study: Study) -> Study:
    """A study as a file has it, what it gives directly in this process's environment and by reference in its place."""
    os.environ.update({secrets.reference_to(text).variable: text for text in study.private.values()})
    return Study.model_validate_json(study.model_dump_json())


def refuse(private: Mapping[str, str]) -> None:
    """ConfigError if there is anything private, by its place."""
    if private:
        raise ConfigError(
            f"{', '.join(private)}: given directly to a deployment, whose parameters Prefect keeps for all to read. {secrets.HOW} "
            "A secret that was given so is no longer one: replace it."
        )


def refuse_overrides(load: Callable[[tuple[str, ...]], Study], overrides: tuple[str, ...]) -> None:
    """ConfigError if the overrides of a deployed study file bring something private; what its file has stays where it is."""
    if deployment.id and overrides:
        in_file = set(load(()).private.values())
        refuse({place: text for place, text in load(overrides).private.items() if text not in in_file})


def fetch(value: Any) -> None:
    """Prefect's Secret blocks that `value` refers to, into the environment."""
    for one in secrets.references(secrets.opened(value)):
        if one.kind == "secret" and one.variable not in os.environ:
            os.environ[one.variable] = _block(one.name)


def resolved(notify: NotifyConfig) -> tuple[str | None, tuple[str, ...]]:
    """The address and the command of who is told, as they are."""
    fetch([notify.url, notify.command])
    url, command = secrets.resolve([notify.url, notify.command], "one who is told (notify)")
    return url, tuple(command)


def _block(name: str) -> str:
    try:
        value: Any = Secret.load(name, _sync=True).get()  # type: ignore[union-attr]
    except ValueError:
        raise ConfigError(
            f"A Prefect Secret block called {name} was expected at {PREFECT_API_URL.value() or 'the server of this run'}, there is "
            f"none. Make it there (Blocks, Secret), name its server in PREFECT_API_URL, or give the value as ${{env:NAME}}."
        ) from None
    return str(value)
