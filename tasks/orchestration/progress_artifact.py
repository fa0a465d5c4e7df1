"""A progress bar on Prefect's pages beside the one in the terminal, at a bounded rate."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.context import FlowRunContext, TaskRunContext
from prefect.exceptions import PrefectException
from prefect.logging import get_logger
from prefect.settings import get_current_settings

from slca_core.errors import SlcaError
from tasks.orchestration.server import is_private

EVERY_S = 5.0


def has_pages() -> bool:
    """Whether this is a run of a server that stays, unlike the one that `slca run` starts for itself."""
    return bool(get_current_settings().api.url and not is_private() and (TaskRunContext.get() or FlowRunContext.get()))


@contextmanager
def never_failing() -> Iterator[None]:
    """A page that cannot be written costs the run nothing but a line in Prefect's log."""
    try:
        yield
    except (httpx.HTTPError, PrefectException, SlcaError, OSError, ValueError) as error:
        get_logger("slca").warning("An artifact was not written: %s", error)


@contextmanager
def mirrored(title: str) -> Iterator[Callable[[float, str], None]]:
    """Yields what takes a percentage and a note; it writes them every few seconds at most, and when all is done."""
    if not has_pages():
        yield lambda percentage, note: None
        return
    artifact = None
    with never_failing():
        artifact = create_progress_artifact(0.0, key=re.sub("[^a-z0-9]+", "-", title.lower()), description=title)
    written = time.monotonic()

    def show(percentage: float, note: str) -> None:
        nonlocal written
        if artifact is None or (percentage < 100 and time.monotonic() - written < EVERY_S):
            return
        written = time.monotonic()
        with never_failing():
            update_progress_artifact(artifact, percentage, description=f"{title}  {note}".strip())

    yield show
