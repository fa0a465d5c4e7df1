"""Disturbances other than kills: processes that stand still, runs beside each other, a clock set back, a disk that fills up.

Each is done to a whole run from outside; what the run says in the end must be what an undisturbed one says.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from slca_core.config import Study
from slca_core.records.lock import HOLDER
from tests.chaos import kills
from tests.support.waiting import wait_until

DAY_S = 24 * 3600
Start = Callable[[], subprocess.Popen]


def pause_each(start: Start, kinds: Sequence[str], seconds: float) -> list[str]:
    """Run to the end, and let one process of each kind stand still for a while, one kind after another; return the kinds met."""
    process, met = start(), []
    while process.poll() is None:
        there = kills.victims(process.pid) if len(met) < len(kinds) else {}
        waiting = [kind for kind in kinds if kind in there and kind not in met]
        # The engine is there for the shorter time.
        if "vllm engine" in kinds and "vllm engine" not in met:
            waiting = [kind for kind in waiting if kind != "policy server"]
        for kind in waiting:
            with suppress(psutil.NoSuchProcess):
                there[kind].send_signal(signal.SIGSTOP)
                met.append(kind)
                time.sleep(seconds)
                there[kind].send_signal(signal.SIGCONT)
                break
        time.sleep(0.1)
    assert process.returncode == 0, f"the run failed with code {process.returncode} after {met} had stood still"
    return met


def at_once(*starts: Start) -> None:
    """Run several to their ends side by side."""
    running = [start() for start in starts]
    codes = [process.wait() for process in running]
    assert not any(codes), codes


def clock_set_back(start: Start, study: Study, under_way: Callable[[], bool]) -> None:
    """Kill a run that is `under_way`, date all that it left a day ahead, and run on: as if the clock had been set back."""
    process = start()
    assert wait_until(lambda: under_way() or process.poll() is not None, 600)
    assert process.poll() is None, "the run ended before its clock could be set back"
    kills.kill_one(process, psutil.Process(process.pid))
    for path in study.root.rglob("*"):
        with suppress(FileNotFoundError):
            later = path.lstat().st_mtime + DAY_S
            os.utime(path, (later, later), follow_symlinks=False)
    for path in (study.root / "artifacts").glob(f"*/*/{HOLDER}"):
        held = json.loads(path.read_text())
        path.write_text(json.dumps(held | {"since": held["since"] + DAY_S, "alive_at": held["alive_at"] + DAY_S}))
    assert start().wait() == 0


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Callable[[int], None]]:
    """A file system of so many megabytes in memory; yields what gives it another size. Root only.

    Raises:
        PermissionError: this user, or this container, may not mount one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _mount("-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder))
    try:
        yield lambda size: _mount("-o", f"remount,size={size}m", str(folder))
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _mount(*arguments: str) -> None:
    if subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode:
        raise PermissionError(f"mount {' '.join(arguments)}")


def run_out_of_room(start: Start, log: Path, grow: Callable[[int], None], megabytes: int) -> str:
    """Run on a disk that is too small, and on after it has grown; return the sentence of the first attempt."""
    assert start().wait() == 2
    said = log.read_text()
    assert "Traceback" not in said
    (sentence,) = [line for line in said.splitlines() if line.startswith("slca: ")]
    grow(megabytes)
    assert start().wait() == 0
    return sentence
