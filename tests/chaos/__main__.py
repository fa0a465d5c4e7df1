"""`make chaos`: the real stack, killed at random, paused, run twice at once, its clock set back and its disk filled.

Whatever was done to it, the end must be an undisturbed run's.

python -m tests.chaos [KILLS] [SEED]        state lies below .slca-chaos
"""

from __future__ import annotations

import random
import shutil
import sys
import time
from collections import Counter
from pathlib import Path

import yaml
from rich import box
from rich.console import Console
from rich.table import Table

from slca_core.config import Study, load_study
from slca_core.records.json_lines import read_lines
from tests.chaos import kills, outcome, scenarios
from tests.support.smallest import SMALLEST

ROOT = Path(".slca-chaos")
WITHIN_S = 40.0
PAUSED = ("prefect server", "stand-ins", "raylet", "trainer", "vllm engine", "policy server", "fork server")
PAUSE_S = 15.0
console = Console(highlight=False)
Said = tuple[dict, dict]


def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    draw = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    shutil.rmtree(ROOT, ignore_errors=True)
    study, path = write_study("undisturbed")
    assert starter(path)().wait() == 0, f"the undisturbed run failed: {path.with_suffix('.log')}"
    expected = said_by(study)
    checks = [*killed(wanted, draw, expected), *(check(expected) for check in (paused, at_once, set_back, without_room))]
    console.print(f"{len(checks)} disturbed studies; {sum(not same for same in checks)} differ from the undisturbed one")
    raise SystemExit(not all(checks))


def killed(wanted: int, draw: random.Random, expected: Said) -> list[bool]:
    """Studies under SIGKILLs at random moments, of a random process each time, until so many are done."""
    done: list[kills.Kill] = []
    checks: list[bool] = []
    table = Table("kill", "after", "under way", box=box.SIMPLE_HEAD)
    while len(done) < wanted:
        study, path = write_study(f"killed{len(done)}")
        log = path.with_suffix(".log")
        new = kills.disturb(starter(path), study, draw, kills=wanted - len(done), within_s=WITHIN_S, log=log)
        for kill in new:
            table.add_row(kill.victim, f"{kill.after_s:.0f} s", kill.stage)
        done += new
        checks.append(told(f"{len(new)} kills", study, expected))
    console.print(table)
    console.print(f"{len(done)} kills: {dict(Counter(kill.victim for kill in done))}")
    return checks


def paused(expected: Said) -> bool:
    """SIGSTOP for a while, then SIGCONT, to a process of each kind."""
    study, path = write_study("paused")
    met = scenarios.pause_each(starter(path), PAUSED, PAUSE_S)
    named = path.with_suffix(".log").read_text().count("is stopped by a signal")
    assert set(met) == set(PAUSED), f"never seen: {set(PAUSED) - set(met)}"
    assert named, "none that stood still was named by the run"
    return told(f"{PAUSE_S:.0f} s of standing still: {', '.join(met)} ({named} named by the run)", study, expected)


def at_once(expected: Said) -> bool:
    """Two runs of the study, and another study, in one root."""
    study, path = write_study("twice")
    _, other = write_study("twice-other", name="other", arms=["slca"], root=str(study.root))
    scenarios.at_once(starter(path), starter(path), starter(other))
    return told("two runs and another study in one root", study, expected)


def set_back(expected: Said) -> bool:
    """A clock that is a day behind what the killed run before it has written."""
    study, path = write_study("clock")
    folder = study.root / "artifacts" / "train"
    scenarios.clock_set_back(starter(path), study, lambda: any(read_lines(lines) for lines in folder.glob("*/metrics.jsonl")))
    return told("a clock set back by a day in training", study, expected)


def without_room(expected: Said) -> bool:
    """A disk that has no room for the study, and later has."""
    used = sum(file.stat().st_size for file in (ROOT / "undisturbed").rglob("*") if file.is_file()) // 2**20
    try:
        with scenarios.small_disk(ROOT / "disk", max(1, used // 2)) as grow:
            study, path = write_study("full", root=str(ROOT / "disk" / "s"))
            sentence = scenarios.run_out_of_room(starter(path), path.with_suffix(".log"), grow, 4 * used + 1000)
            console.print(sentence, markup=False)
            return told(f"a disk of half of {used} MiB", study, expected)
    except PermissionError as error:
        console.print(f"no disk was filled, since only root may mount one, where containers let it: {error}")
        return True


def told(what: str, study: Study, expected: Said) -> bool:
    """Whether a study says what it must, and its books are right; prints it."""
    outcome.check_books(study, study.rl.updates)
    same = [one == other for one, other in zip(said_by(study), expected, strict=True)]
    console.print(
        f"{time.strftime('%H:%M:%S')} after {what}: tables equal: {same[0]}, checkpoints equal: {same[1]}", highlight=False
    )
    return all(same)


def said_by(study: Study) -> Said:
    return outcome.tables(study), outcome.checkpoints(study)


def starter(path: Path) -> scenarios.Start:
    return kills.starter([str(Path(sys.executable).with_name("slca")), "run", str(path)], path.with_suffix(".log"))


def write_study(folder: str, **changes) -> tuple[Study, Path]:
    place = ROOT / folder
    place.mkdir(parents=True)
    path = place / "study.yaml"
    values = {"name": "chaos", "root": str(place / "s"), "arms": ["grpo", "slca", "wo_sgls"], **SMALLEST, **changes}
    path.write_text(yaml.safe_dump(values))
    return load_study(path), path


if __name__ == "__main__":
    main()
