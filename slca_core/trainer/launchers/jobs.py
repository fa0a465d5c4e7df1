"""What all jobs share that outlive the flow which submits them: a name, an environment, and being followed until they end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from slca_core.config import REPOSITORY

# Sockets lie below these, so they are each node's own business.
_OF_ONE_NODE = ("RAY_TMPDIR", "VLLM_RPC_BASE_PATH")
_followed: set[threading.Event] = set()


def job_name(folder: Path) -> str:
    """A run folder's name ends in its step's identity, and so does the job's."""
    return f"slca-train-{folder.name}"


def job_environment(env: Mapping[str, str]) -> dict[str, str]:
    """What a job has of the training stack's environment, on whatever node."""
    return {**{name: value for name, value in env.items() if name not in _OF_ONE_NODE}, "PYTHONPATH": str(REPOSITORY)}


def follow(running: Callable[[], bool], *, on_poll: Callable[[], None], on_leave: Callable[[], None], poll_s: float) -> None:
    """Calls `on_poll` every `poll_s` while the job is `running`.

    Raises:
        KeyboardInterrupt: someone pressed Ctrl-C, or called `leave_all`; `on_leave` has been called, and the job goes on.
    """
    left = threading.Event()
    _followed.add(left)
    try:
        while running():
            on_poll()
            if left.wait(poll_s):
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        on_leave()
        raise
    finally:
        _followed.discard(left)


def leave_all() -> None:
    """Leaves every job that is followed in this process, from whatever thread; Ctrl-C reaches the main thread alone."""
    for left in list(_followed):
        left.set()
