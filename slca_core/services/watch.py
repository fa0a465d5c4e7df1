"""Watches the processes of a run: names one that a signal has stopped, and ends the run's steps before they take the whole memory.

Ray would judge by the use of the whole machine, other people's programs too, so that a run was killed for memory that others had.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from slca_core.processes.disk import size
from slca_core.processes.supervise import stop_all

EVERY_S = 10.0
MOST_OF_MEMORY = 0.92
# Below this share of free memory the run's own use, which costs some milliseconds a process, is looked at.
_SCARCE = 0.2
_CGROUPS, _MEMBERSHIP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
# Limit and use, as a control group has them in version 2 and 1.
_LIMITS = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))


@contextmanager
def watching(say: Callable[[str], None], *, limit_memory: bool, every_s: float = EVERY_S) -> Iterator[None]:
    """Watch the children of this process until the block ends.

    Args:
        limit_memory: end the steps, with a sentence, once the run itself holds more than `MOST_OF_MEMORY` of the machine's memory.
    """
    ended = threading.Event()
    watch = _Watch(say, limit_memory)

    def look() -> None:
        while not ended.wait(every_s):
            watch.look(psutil.Process().children(recursive=True))

    thread = threading.Thread(target=look, name="watch over processes", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@dataclass
class _Watch:
    say: Callable[[str], None]
    limit_memory: bool
    stopped: set[int] = field(default_factory=set)

    def look(self, processes: Sequence[psutil.Process]) -> None:
        """Take one look at the run's processes."""
        for process in processes:
            with suppress(psutil.Error):
                self._look_at(process)
        if self.limit_memory and _free_share() < _SCARCE:
            self._look_at_memory([psutil.Process(), *processes])

    def _look_at(self, process: psutil.Process) -> None:
        is_stopped = process.status() == psutil.STATUS_STOPPED
        if is_stopped and process.pid not in self.stopped:
            self.stopped.add(process.pid)
            self.say(
                f"{_name(process)} (process {process.pid}) is stopped by a signal, and the run waits for it. "
                f"To let it go on: kill -CONT {process.pid}"
            )
        elif not is_stopped:
            self.stopped.discard(process.pid)

    def _look_at_memory(self, processes: Sequence[psutil.Process]) -> None:
        held, total = used_memory(processes), memory_of_machine()
        if held > MOST_OF_MEMORY * total:
            because = (
                f"The run held {size(held)} of the {size(total)} of memory that this machine has, and its steps were ended before "
                "it ran out. Fewer side by side take less: --set machine.parallel=1; so do smaller micro_batch_size and max_length."
            )
            self.say(because)
            stop_all(because=because)


def used_memory(processes: Sequence[psutil.Process]) -> int:
    """Bytes that the processes hold together; what they share, as forks do, is counted once."""
    held = 0
    for process in processes:
        with suppress(psutil.Error):
            info = process.memory_full_info()
            held += getattr(info, "pss", info.uss)
    return held


def memory_of_machine() -> int:
    """Bytes of memory that this process may use: the machine's, or what a container or batch job allows of it."""
    return min([int(psutil.virtual_memory().total), *(limit for limit, _ in _allowances())])


def _free_share() -> float:
    """Of the machine's memory, or of what is allowed of it, whichever is scarcer; what a group has cached counts as used."""
    memory = psutil.virtual_memory()
    shares = [float(memory.available) / float(memory.total), *(1 - used / limit for limit, used in _allowances() if limit)]
    return min(shares)


def _allowances() -> Iterator[tuple[int, int]]:
    """(limit, use) in bytes of each control group this process is in that has a limit, from its own up."""
    try:
        memberships = [line.split(":", 2) for line in _MEMBERSHIP.read_text().splitlines()]
    except OSError:
        return
    for _, controllers, path in memberships:
        if controllers not in ("", "memory"):
            continue
        top = _CGROUPS / controllers
        own = top / path.lstrip("/")
        for group in (own, *own.parents):
            for limit, used in _LIMITS:
                with suppress(OSError, ValueError):  # No such file, or no limit.
                    yield int((group / limit).read_text()), int((group / used).read_text())
            if group == top:
                break


def _name(process: psutil.Process) -> str:
    """The title of a process, cut to what tells it from others."""
    return " ".join(process.cmdline()).strip()[:80] or process.name()
