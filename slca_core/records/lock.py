"""A lease on a step's folder, so that two runs never make one step at once.

The lease is a lock of the operating system on a file in the folder: it is gone the moment its holder is, on this host or another
that shares the file system. A heartbeat beside it says who holds it and since when, for people.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

LOCK, HOLDER = ".lease", ".lease.json"
HEARTBEAT_S = 10.0


@contextmanager
def hold(folder: Path, on_wait: Callable[[str], None], *, heartbeat_s: float = HEARTBEAT_S) -> Iterator[None]:
    """Holds the folder's lease until the block ends; waits for it, and says once to `on_wait` whom it waits for."""
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        on_wait(f"{folder.name}: {holder(folder)}; waiting for it")
        lock.acquire()
    ended = threading.Event()
    beat = threading.Thread(target=_beat, args=(folder, ended, heartbeat_s), name=f"lease of {folder.name}", daemon=True)
    beat.start()
    try:
        yield
    finally:
        ended.set()
        beat.join()
        (folder / HOLDER).unlink(missing_ok=True)
        lock.release()


def holder(folder: Path) -> str:
    """Who makes the step in this folder, as a clause."""
    found = _last_beat(folder)
    if found is None:
        return "another run makes it"
    if (found["pid"], found["host"]) == (os.getpid(), socket.gethostname()):
        return "another step of this run is the same and makes it"
    return f"process {found['pid']} on {found['host']} makes it (alive {time.time() - found['alive_at']:.0f} s ago)"


def is_held(folder: Path) -> bool:
    """Whether a holder's heart beat lately; for people to look at, the lock alone decides."""
    found = _last_beat(folder)
    return found is not None and time.time() - found["alive_at"] < 3 * HEARTBEAT_S


def _last_beat(folder: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads((folder / HOLDER).read_text())
        return {key: found[key] for key in ("pid", "host", "alive_at")}
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _beat(folder: Path, ended: threading.Event, every_s: float) -> None:
    since = time.time()
    while True:
        values = {"pid": os.getpid(), "host": socket.gethostname(), "since": since, "alive_at": time.time()}
        unfinished = folder / f"{HOLDER}.unfinished"
        unfinished.write_text(json.dumps(values))
        unfinished.replace(folder / HOLDER)
        if ended.wait(every_s):
            return
