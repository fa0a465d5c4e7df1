"""`make chaos`: the real stack, killed at random over stages and kinds of processes; the end must be an undisturbed run's.

python -m tests.chaos [KILLS] [SEED]        state lies below .slca-chaos
"""

from __future__ import annotations

import random
import shutil
import sys
from collections import Counter
from pathlib import Path

import yaml
from rich import box
from rich.console import Console
from rich.table import Table

from slca_core.config import Study, load_study
from tests.chaos import kills, outcome
from tests.smallest import SMALLEST

ROOT = Path(".slca-chaos")
WITHIN_S = 40.0
console = Console()


def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    draw = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    shutil.rmtree(ROOT, ignore_errors=True)
    expected = run("undisturbed", draw, 0)[0]
    done: list[kills.Kill] = []
    table = Table("kill", "after", "under way", box=box.SIMPLE_HEAD)
    differing = 0
    while len(done) < wanted:
        found, new = run(f"disturbed{len(done)}", draw, wanted - len(done))
        for kill in new:
            table.add_row(kill.victim, f"{kill.after_s:.0f} s", kill.stage)
        done += new
        same = [one == other for one, other in zip(found, expected, strict=True)]
        console.print(f"after {len(new)} kills: tables equal: {same[0]}, checkpoints equal: {same[1]}")
        differing += not all(same)
    console.print(table)
    kinds = dict(Counter(kill.victim for kill in done))
    console.print(f"{len(done)} kills, {kinds}; every run ended; {differing} differ from the undisturbed one")
    raise SystemExit(bool(differing))


def run(name: str, draw: random.Random, count: int) -> tuple[tuple, list[kills.Kill]]:
    """A study under `count` kills at most: what it says in the end, and the kills."""
    study, path = write_study(ROOT / name)
    start = kills.starter([str(Path(sys.executable).with_name("slca")), "run", str(path)], ROOT / f"{name}.log")
    console.print(f"{name}: {study.root}")
    done = kills.disturb(start, study, draw, kills=count, within_s=WITHIN_S)
    outcome.check_books(study, study.rl.updates)
    return (outcome.tables(study), outcome.checkpoints(study)), done


def write_study(folder: Path) -> tuple[Study, Path]:
    folder.mkdir(parents=True)
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump({"name": "chaos", "root": str(folder / "s"), "arms": ["grpo", "slca", "wo_sgls"], **SMALLEST}))
    return load_study(path), path


if __name__ == "__main__":
    main()
