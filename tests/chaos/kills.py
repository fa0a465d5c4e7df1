"""A study that is killed again and again, at random moments, a random process of it each time, and then left alone."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from slca_core.config import Study
from slca_core.processes.supervise import tail
from slca_core.records.json_lines import read_lines
from slca_core.records.lock import HOLDER
from slca_core.records.store import RECORD

GONE_S = 30.0
# Kind of process -> how it is known by its command line. The first that fits names it.
KINDS = {
    "fork server": "slca_core.processes.forkserver",  # Its arguments name what it imports.
    "ray worker": "ray::",
    "raylet": "/raylet/raylet",
    "vllm engine": "VLLM::",
    "policy server": "policy server|vllm.entrypoints.openai.api_server|tests.chaos.policy_server",
    "stand-ins": "slca_core.standins.server",
    "trainer": "slca_core.trainer.run_|tests.chaos.trainer",
    "prefect server": "prefect.server.api.server",
}


@dataclass(frozen=True)
class Kill:
    """What was killed, how long after the start, and which step was under way."""

    victim: str
    after_s: float
    stage: str


def disturb(
    start: Callable[[], subprocess.Popen], study: Study, draw: random.Random, *, kills: int, within_s: float, log: Path
) -> list[Kill]:
    """Runs the study to its end, killing `kills` times on the way: at most `within_s` after an attempt has taken up a step, or has
    another process at work. What the attempts say is in `log`.

    Returns the kills that were done; they are fewer if the study finished before.

    Raises:
        AssertionError: an undisturbed attempt failed, or a killed one left processes behind.
    """
    done: list[Kill] = []
    while True:
        process, began = start(), time.monotonic()
        if len(done) == kills:
            process.wait()
        else:
            let_run(process, study, draw.uniform(0, within_s), draw.choice((is_working, has_children)))
        if process.poll() is not None:
            said = tail(log, lines=60)
            assert process.returncode == 0, f"left alone, an attempt failed with code {process.returncode}, after {done}:\n{said}"
            return done
        kind, victim = draw.choice(sorted(victims(process.pid).items()))
        done.append(Kill(kind, time.monotonic() - began, stage(study)))
        kill_one(process, victim)


def let_run(process: subprocess.Popen, study: Study, seconds: float, is_under_way: Callable[[Study, int], bool]) -> None:
    """Until the attempt has ended, or for so long from when it is under way."""
    while process.poll() is None and not is_under_way(study, process.pid):
        time.sleep(0.05)
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def is_working(study: Study, pid: int) -> bool:
    """Whether this process holds the lease of a step."""
    return any(json.loads(path.read_text())["pid"] == pid for path in (study.root / "artifacts").glob(f"*/*/{HOLDER}"))


def has_children(_study: Study, pid: int) -> bool:
    """Whether this process has another at work; on a busy machine that takes longer than a step's first moments."""
    return len(victims(pid)) > 1


def kill_one(process: subprocess.Popen, victim: psutil.Process) -> None:
    """SIGKILL to one process; waits until the attempt has ended by it, or in spite of it, and nothing of it is left."""
    tree = descendants(process.pid)
    victim.kill()
    if victim.pid == process.pid:
        process.wait()
    else:
        # A killed helper may be one whose loss an attempt survives; then it is ended as well, so that each kill is a crash.
        try:
            process.wait(GONE_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
    _, left = psutil.wait_procs(tree, timeout=GONE_S)
    assert not left, f"{victim} was killed, and left {[(one.pid, one.cmdline()[:4]) for one in left]}"


def victims(pid: int) -> dict[str, psutil.Process]:
    """One process of each kind that is there, the flow itself included."""
    found = {"flow": psutil.Process(pid)}
    for process in descendants(pid):
        if kind := kind_of(process):
            found.setdefault(kind, process)
    return found


def descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def kind_of(process: psutil.Process) -> str | None:
    try:
        command = " ".join(process.cmdline())
    except psutil.Error:
        return None
    return next((kind for kind, marks in KINDS.items() if any(mark in command for mark in marks.split("|"))), None)


def stage(study: Study) -> str:
    """The steps that have begun and not ended, with the last policy update of a training."""
    folders = sorted(path for path in (study.root / "artifacts").glob("*/*") if not (path / RECORD).exists())
    return (
        ", ".join(f"{folder.parent.name} {folder.name.rpartition('-')[0]}{_update(folder)}" for folder in folders)
        or "between steps"
    )


def _update(folder: Path) -> str:
    lines = read_lines(folder / "metrics.jsonl")
    return f" update {lines[-1]['update']:.0f}" if lines else ""


def starter(argv: Sequence[str], log: Path, env: dict[str, str] | None = None) -> Callable[[], subprocess.Popen]:
    """Starts `argv` as a person would, output appended to `log`."""

    def start() -> subprocess.Popen:
        with log.open("ab") as sink:
            return subprocess.Popen(argv, stdout=sink, stderr=sink, start_new_session=True, env={**os.environ, **(env or {})})

    return start
