"""The floor of tau2-bench: what an agent that does nothing scores on the study's tasks, measured once for all checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from slca_core.benchmarks import tau2
from slca_core.config import Study, Tau2Config
from slca_core.errors import DataError
from slca_core.records.store import Record, Step
from tasks.benchmarks import Asked
from tasks.evaluate import TAU2_CODE, write_items
from tasks.orchestration.environments import installed, require_tau2
from tasks.orchestration.progress import say
from tasks.orchestration.workspace import Workspace


def floor_step(study: Study) -> Step:
    """What bears on it: the package and its tasks; no model, and no study."""
    settings = _settings(study)
    return Step(
        step="floor",
        name="tau2",
        config=settings.model_dump(mode="json", include={"version", "domains", "split", "limit"}),
        inputs=installed(study, tau2.NAME),
        code=TAU2_CODE,
    )


@task(name="floor", cache_policy=NO_CACHE)
def measure_floor(study: Study) -> Record:
    """Per-task results of an agent that does nothing; DataError if no task could be graded."""

    def work(folder: Path) -> tuple[str, dict[str, Any]]:
        settings = _settings(study)
        python = require_tau2(settings)
        say("tau2-bench: what an agent that does nothing scores (once; about a second a task of airline)")
        lines = tau2.measure_floor(settings, folder, python=python)
        trials = tau2.as_trials(lines)
        if failed := [one.error for one in trials if one.error]:
            say(f"tau2-bench: {len(failed)} of {len(trials)} tasks have no floor; the first says: {failed[0]}")
        if len(failed) == len(trials) and not any("graded by a model" in error for error in failed):
            raise DataError(f"No task of tau2-bench could be graded; the first says: {failed[0]}. See {folder / 'tau2.log'}.")
        return write_items([Asked(tau2.NAME, trials, {"tau2_trials": len(trials)})], folder, checkpoint=tau2.FLOOR_AGENT, seed=0)

    return Workspace(study).store.run(floor_step(study), work)


def _settings(study: Study) -> Tau2Config:
    assert study.evaluation.tau2 is not None
    return study.evaluation.tau2
