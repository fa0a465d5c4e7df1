"""Global concurrency limits of the Prefect server: so many GPUs, and so many steps at the frozen services, over all flow runs.

    prefect gcl create slca-gpus --limit 32
    prefect gcl create slca-services --limit 4

A limit that is not defined limits nothing. Slots are taken when a step is made, never when its record is found, and a run that is
killed gives its own back within minutes.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
from prefect.concurrency.asyncio import ConcurrencySlotAcquisitionError
from prefect.concurrency.sync import concurrency
from prefect.context import TaskRunContext

from slca_core.config import CpuProfile, Study
from slca_core.errors import ConfigError
from tasks.orchestration.progress import say
from tasks.services import study_roles

GPUS, SERVICES = "slca-gpus", "slca-services"
_SOON_S = 5.0
# How long a server may be away, and how soon it is asked again.
AWAY_S, _AGAIN_S = 180.0, 1.0


def slots(study: Study) -> dict[str, int]:
    """How many slots of each limit a step of the study holds: its GPUs, or one for the CPU profile's machine; one at the services,
    none if they are stand-ins or vLLM servers, which a run has to itself.
    """
    machine = study.machine
    gpus = 1 if isinstance(machine, CpuProfile) else machine.gpus
    external = any(study.services.of(role).managed == "external" for role in study_roles(study))
    return {GPUS: gpus, SERVICES: int(external)}


def limited(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A function of a study and more, within the limits `names`; taken in the order given, so that no two runs wait for each other.

    The function raises ConfigError if a limit is lower than what one step holds.
    """

    def decorate(work: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(work)
        def within_limits(study: Study, *args: Any, **kwargs: Any) -> Any:
            # Without a task run there is no server to ask.
            held = slots(study) if TaskRunContext.get() else {}
            with ExitStack() as stack:
                for name in names:
                    if occupy := held.get(name):
                        stack.enter_context(_hold(name, occupy))
                return work(study, *args, **kwargs)

        return within_limits

    return decorate


def _acquire(stack: ExitStack, name: str, occupy: int) -> None:
    """Take the slots until `stack` closes; a server that is away, as one that was killed and is started again, is asked again."""
    deadline = time.monotonic() + AWAY_S
    while True:
        try:
            stack.enter_context(concurrency(name, occupy=occupy))
            return
        except ConcurrencySlotAcquisitionError as error:
            if not isinstance(error.__cause__, httpx.TransportError) or time.monotonic() > deadline:
                raise
        time.sleep(_AGAIN_S)


@contextmanager
def _hold(name: str, occupy: int) -> Iterator[None]:
    waits = threading.Timer(_SOON_S, say, (f"waiting for {occupy} of the slots of Prefect's limit {name}",))
    waits.start()
    with ExitStack() as stack:
        try:
            _acquire(stack, name, occupy)
        except ConcurrencySlotAcquisitionError as error:
            raise ConfigError(
                f"{occupy} slots of Prefect's limit {name} were expected for a step of this study, the server refused them: "
                f"{' '.join(str(error.__cause__).split())}. If the limit is lower: prefect gcl update {name} --limit {occupy}"
            ) from error
        finally:
            waits.cancel()
        yield
