"""`slca rescore`: the rewards of a study's stored rollouts once more, under its settings or others, with every endpoint down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from slca_core.analysis.replay import read_rollouts
from slca_core.analysis.rescoring import Rescored, rescore
from slca_core.config import Study
from slca_core.conversation.dialogue import Sample
from slca_core.curation.rows import read_split
from slca_core.errors import DataError
from slca_core.records.store import Record
from slca_core.rollout import Scoring
from slca_core.services.client import Lines
from slca_core.services.frozen import Clients, open_cache
from slca_core.trainer.spec import load_spec
from tasks.curate import split_path
from tasks.orchestration.workspace import Workspace
from tasks.planning.plan import make_plan
from tasks.services import EVALUATION

Asking = Callable[[Clients, Mapping[str, Any]], Lines]


def rescore_study(study: Study, changed: Study) -> Iterator[tuple[str, Rescored]]:
    """(step, its rollouts rescored) for every finished training and evaluation of `study`.

    Args:
        changed: the study whose scoring counts; `study` itself to see whether the rewards come out again.

    Raises:
        DataError: nothing is finished, or the study keeps no answers.
    """
    records = {planned.name: planned.record for planned in make_plan(study).steps if planned.record and planned.state == "cached"}
    data = next((record for record in records.values() if record.step == "curate"), None)
    stored = {name: record for name, record in records.items() if record.step in ("train", "evaluate")}
    if data is None or not stored:
        raise DataError(f"Finished trainings or evaluations of {study.name} were expected below {study.root}, there are none yet.")
    if not study.services.cache:
        raise DataError("Rescoring reads the services' answers from disk; this study keeps none (services.cache: false).")
    splits: dict[str, dict[str, Sample]] = {}
    for name, record in stored.items():
        split = "rl" if record.step == "train" else "test"
        if split not in splits:
            splits[split] = {sample.sample_id: sample for sample in read_split(split_path(data, split))}
        yield name, _rescore_step(study, changed, record, splits[split])


def _rescore_step(study: Study, changed: Study, record: Record, samples: Mapping[str, Sample]) -> Rescored:
    if record.step == "train":
        spec = load_spec(record.output("spec.json"))
        arm = spec.arm
        # The arm as the run had it; an arm's own settings stay its own.
        scoring = Scoring.of(changed.rl_of(arm), arm, spec.services.checker.votes)
        roles = arm.services
        frame = read_rollouts(record.output("rollouts"))

        def lines(clients: Clients, row: Mapping[str, Any]) -> Lines:
            return clients.lines(spec.asker(row["update"], row["sample_id"], row["sample_index"]), mocker=arm.mocker)
    else:
        scoring, roles = Scoring.of(changed.rl), EVALUATION
        frame = pd.read_parquet(record.output("rollouts.parquet"))

        def lines(clients: Clients, row: Mapping[str, Any]) -> Lines:
            return clients.lines(row["rollout_id"], one_world=True)

    return asyncio.run(_rescore(study, roles, frame, samples, scoring, lines))


async def _rescore(
    study: Study, roles: tuple[str, ...], frame: pd.DataFrame, samples: Mapping[str, Sample], scoring: Scoring, asking: Asking
) -> Rescored:
    cache = open_cache(study.services, Workspace(study).root, study.machine)
    clients = Clients(study.services, dict.fromkeys(roles, "http://nobody/v1"), cache, offline=True)
    try:
        return await rescore(frame.to_dict("records"), samples, scoring, lambda row: asking(clients, row))
    finally:
        await clients.close()


def write_rescored(study: Study, name: str, found: Rescored) -> Path:
    """The new rewards as a table beside the study's report."""
    path = Workspace(study).reports / "rescored" / f"{name.replace(',', '').replace(' ', '-')}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(found.after).to_parquet(path, compression="zstd")
    return path
