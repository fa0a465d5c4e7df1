"""Prefect's server of one `slca run`: on loopback, its database below the root, gone with the run however that ends.

Where PREFECT_API_URL names a server, that one is used. The one that Prefect starts by itself outlives a killed run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_urlsafe

import prefect
from filelock import FileLock
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, get_current_settings, temporary_settings

from slca_core.processes.supervise import keep_serving, listen
from tasks.orchestration.progress import say

_PRIVATE = "SLCA_PRIVATE_PREFECT"
_DRAIN_S = 10
# As Prefect's own temporary server has it: no pages, and none of the services that watch over other runs.
_ENVIRONMENT = {
    **{"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"},
    # Why it fails to start, its log says.
    **{"PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "ERROR", "PREFECT_LOGGING_INTERNAL_LEVEL": "ERROR"},
}


@contextmanager
def private_server(root: Path) -> Iterator[None]:
    """Flows inside the block run on a server of their own."""
    if get_current_settings().api.url:
        yield
        return
    # Ours, so that no client of a server that is started again finds it away: Prefect's give up at the first refusal.
    door = listen()
    argv = [
        *(sys.executable, "-m", "uvicorn", "--app-dir", str(prefect.__module_path__.parent)),
        *("--factory", "prefect.server.api.server:create_app", "--fd", str(door.fileno())),
        *("--log-level", "error", "--lifespan", "on"),
    ]
    log = root.resolve() / "logs" / f"prefect-{os.getpid()}.log"
    # Loopback is shared by all who use this machine.
    password = f"slca:{token_urlsafe(32)}"
    starting = FileLock(root.resolve() / "prefect.lock")
    with (
        door,
        # Two that make one database at once are in each other's way.
        starting,
        # Its state is in the database: one that is killed goes on where it was, and whoever asks meanwhile asks again.
        keep_serving(
            "Prefect server",
            argv,
            port=door.getsockname()[1],
            log=log,
            say=say,
            health="/api/health",
            env=_ENVIRONMENT | {"PREFECT_SERVER_API_AUTH_STRING": password},
            timeout_s=180,
            restarts=10,
            of_run=True,
            fds=(door.fileno(),),
        ) as url,
        temporary_settings({PREFECT_API_URL: f"{url}/api", PREFECT_API_AUTH_STRING: password}),
    ):
        starting.release()
        os.environ[_PRIVATE] = "1"
        try:
            yield
        finally:
            # Threads of Prefect still send what the flow logged and did.
            for worker in (APILogWorker, EventsWorker):
                worker.drain_all(timeout=_DRAIN_S)
    log.unlink(missing_ok=True)


def is_private() -> bool:
    """Whether this process's flows run on a server that nobody can look at."""
    return _PRIVATE in os.environ
