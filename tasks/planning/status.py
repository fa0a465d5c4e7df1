"""Where a running or stopped study stands, from its folders alone: leases, metrics and records."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from slca_core.config import Study
from slca_core.records.json_lines import read_lines
from slca_core.records.lock import holder, is_held
from slca_core.records.store import FAILED
from slca_core.reporting.report import duration
from tasks.orchestration.workspace import Workspace
from tasks.planning.plan import PlannedStep


@dataclass(frozen=True, slots=True)
class Progress:
    """One step: its state, what is known of it, and the time it took or still needs."""

    state: Literal["done", "shared", "running", "stopped", "waiting"]
    note: str = ""
    time: str = ""


def progress(study: Study, planned: PlannedStep) -> Progress:
    """Reads the step's folder; writes nothing."""
    if planned.state == "shared":
        return Progress("shared", planned.reason)
    if planned.record:
        return Progress("done", _rewards(planned.record.folder), duration(planned.record.seconds))
    folder = Workspace(study).store.folder(planned.step)
    if not folder.is_dir():
        return Progress("waiting", planned.reason)
    updates = planned.step.config.get("rl", {}).get("updates") if planned.step.step == "train" else None
    lines = read_lines(folder / "metrics.jsonl", needs=("r_tool", "r_sum"))
    note, left = "", ""
    if updates:
        note = f"update {len(lines)} of {updates}  {_rewards(folder)}".strip()
        if lines:
            mean = sum(line.get("seconds_total", 0.0) for line in lines) / len(lines)
            left = f"{duration(mean * (updates - len(lines)))} left"
    if is_held(folder):
        return Progress("running", note or holder(folder), left)
    return Progress("stopped", "  ".join(filter(None, (note, _failure(folder)))) or "goes on at the next run", left)


def _failure(folder: Path) -> str:
    """Why the last attempt failed or was ended; empty if it was killed."""
    path = folder / FAILED
    return " ".join(path.read_text(errors="replace").split()) if path.is_file() else ""


def _rewards(folder: Path) -> str:
    lines = read_lines(folder / "metrics.jsonl", needs=("r_tool", "r_sum"))
    if not lines:
        return ""
    last = lines[-1]
    return f"R_tool {last['r_tool']:.2f}  R_sum {last['r_sum']:.2f}"
