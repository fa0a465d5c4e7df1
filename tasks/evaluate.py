"""Evaluation of one checkpoint: served once, all benchmarks against it, per-item results to parquet."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pandas as pd
from prefect import task
from prefect.cache_policies import NO_CACHE

from slca_core.benchmarks import toucan
from slca_core.config import Study
from slca_core.curation.pipeline import read_split
from slca_core.errors import DataError, ServiceError
from slca_core.fingerprint import file_digest
from slca_core.records import Record, Step
from slca_core.rollout import Limits, Scoring, prompts_that_fit
from slca_core.tokenizer import load_tokenizer
from slca_core.trainer.serve import served
from tasks.curate import split_path
from tasks.finetune import model_path
from tasks.limits import GPUS, SERVICES, limited
from tasks.placement import placement
from tasks.progress import bar, say
from tasks.services import StageServices, services_identity
from tasks.tracking import Tracking
from tasks.workspace import Workspace

CODE = (
    "slca_core.benchmarks.toucan",
    "slca_core.calls",
    "slca_core.chat",
    "slca_core.judge",
    "slca_core.rewards",
    "slca_core.rollout",
    "slca_core.schemas",
    "slca_core.simulator",
    "slca_core.trainer.serve",
)
ITEMS = "items.parquet"


def evaluation_step(study: Study, condition: str, seed: int, data: Record, checkpoint: Record) -> Step:
    """What one evaluation is; conditions that share a checkpoint share it."""
    rl = study.rl
    return Step(
        step="evaluate",
        name=f"{condition}-seed{seed}",
        config={
            "toucan_test": study.evaluation.toucan_test.model_dump(exclude={"concurrency"}),
            "limits": dataclasses.asdict(Limits.of(rl)),
            "scoring": dataclasses.asdict(Scoring.of(rl)),
            "seed": seed,
            "services": services_identity(study.services),
        },
        inputs={"test_split": data.facts["files"]["test.parquet"], "checkpoint": checkpoint.output_digest},
        code=CODE,
        placement=placement(study),
    )


@task(name="evaluate", cache_policy=NO_CACHE)
def evaluate_checkpoint(
    study: Study, condition: str, seed: int, data: Record, checkpoint: Record, services: StageServices
) -> Record:
    """Per-item results of one condition and seed on every benchmark of the study."""
    workspace = Workspace(study)
    step = evaluation_step(study, condition, seed, data, checkpoint)
    with Tracking(study).child(step, condition=condition, seed=seed) as run:
        record = workspace.store.run(step, lambda folder: _evaluate(study, condition, seed, data, checkpoint, services, folder))
        run.log_items(pd.read_parquet(record.folder / ITEMS), toucan.NAME)
        run.finish(record, datasets=[("test", split_path(data, "test"))])
    facts = record.facts
    scores = f"process {facts['process']:.3f}, exact {facts['exact']:.3f} (greedy)"
    say(f"[bold]evaluate[/]  {condition}, seed {seed}: {scores}, {record.seconds:.0f} s")
    return record


@limited(GPUS, SERVICES)
def _evaluate(
    study: Study, condition: str, seed: int, data: Record, checkpoint: Record, services: StageServices, folder: Path
) -> tuple[str, dict[str, Any]]:
    model = model_path(checkpoint)
    tokenizer = load_tokenizer(model)
    limits, settings = Limits.of(study.rl), study.evaluation.toucan_test
    samples, too_long = prompts_that_fit(read_split(split_path(data, "test")), tokenizer, limits)
    if not samples:
        raise DataError(
            f"Evaluation prompts may have {limits.max_length - limits.response_tokens} tokens "
            f"(rl.max_length - rl.response_tokens); none of the {too_long} held-out ones fits. Raise rl.max_length."
        )
    scoring = Scoring.of(study.rl)
    name = f"{condition}-{checkpoint.output_digest[:8]}"
    total = len(samples) * (settings.samples + 1)
    with (
        bar(f"evaluate {condition} seed {seed}", total=total) as update,
        served(model, name, study.machine, max_length=limits.max_length, root=study.root, log=folder / "server.log") as server,
    ):
        results = asyncio.run(
            toucan.evaluate(
                samples,
                tokenizer,
                server,
                settings=settings,
                limits=limits,
                scoring=scoring,
                services=study.services,
                mocker_url=services.mocker_url,
                judge_url=services.judge_url,
                seed=seed,
                on_done=lambda: update(advance=1),
            )
        )
    items = toucan.as_items(results, condition=condition, seed=seed)
    _refuse_too_many_errors(items, total, study.services.failure_limit, condition)
    items.to_parquet(folder / ITEMS, compression="zstd")
    pd.DataFrame([record.to_json() for _, record in results]).to_parquet(folder / "rollouts.parquet", compression="zstd")
    greedy = items[items.sampling == "greedy"].groupby("metric")["value"].mean().to_dict()
    return file_digest(folder / ITEMS), {**greedy, "items": len(samples), "too_long": too_long}


def _refuse_too_many_errors(items: pd.DataFrame, total: int, limit: float, condition: str) -> None:
    failed = int(items.loc[items.metric == "error", "value"].sum())
    if failed > limit * total:
        raise ServiceError(
            f"{failed} of {total} evaluation rollouts of {condition} failed for want of a service, over the study's limit of "
            f"{limit:.0%}. Mend the service and run again."
        )
