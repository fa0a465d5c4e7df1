"""Evaluation of one checkpoint: served once, all benchmarks against it, per-item results to parquet."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pandas as pd
from prefect import task
from prefect.cache_policies import NO_CACHE

from slca_core.benchmarks import bfcl, toucan
from slca_core.benchmarks.journal import Journal
from slca_core.config import BFCL_SIZES, Study
from slca_core.curation.pipeline import read_split
from slca_core.errors import DataError
from slca_core.failures import errors_by_boundary, refuse_failures
from slca_core.fingerprint import file_digest
from slca_core.records import Record, Step
from slca_core.rollout import Limits, Scoring, prompts_that_fit
from slca_core.services.frozen import Clients, Serving, open_cache
from slca_core.tokenizer import load_tokenizer
from slca_core.trainer.ledger import usage_by_role
from slca_core.trainer.serve import served
from tasks.curate import split_path
from tasks.environments import require_bfcl
from tasks.finetune import model_path
from tasks.limits import GPUS, SERVICES, limited
from tasks.placement import placement
from tasks.progress import bar, say
from tasks.services import EVALUATION, services_identity
from tasks.tracking import Tracking
from tasks.workspace import Workspace

CODE = (
    "slca_core.benchmarks.toucan",
    "slca_core.calls",
    "slca_core.chat",
    "slca_core.dialogue",
    "slca_core.judge",
    "slca_core.rewards",
    "slca_core.rollout",
    "slca_core.schemas",
    "slca_core.services.client",
    "slca_core.services.frozen",
    "slca_core.simulator",
    "slca_core.trainer.serve",
    "slca_core.transcript",
)
ITEMS, JOURNAL = "items.parquet", "rollouts.jsonl"


BFCL_CODE = ("slca_core.benchmarks.bfcl", "slca_core.benchmarks.bfcl_worker")


def evaluation_step(study: Study, condition: str, seed: int, data: Record, checkpoint: Record) -> Step:
    """What one evaluation is; conditions that share a checkpoint share it."""
    rl, settings = study.rl, study.evaluation.bfcl
    asked = {"bfcl": {"version": bfcl.VERSION, **settings.model_dump(mode="json", exclude={"concurrency"})}} if settings else {}
    return Step(
        step="evaluate",
        name=f"{condition}-seed{seed}",
        config={
            "toucan_test": study.evaluation.toucan_test.model_dump(exclude={"concurrency"}),
            "limits": dataclasses.asdict(Limits.of(rl)),
            "scoring": dataclasses.asdict(Scoring.of(rl)),
            "seed": seed,
            "services": services_identity(study.services, EVALUATION),
            **asked,
        },
        inputs={"test_split": data.facts["files"]["test.parquet"], "checkpoint": checkpoint.output_digest},
        code=(*CODE, *(BFCL_CODE if settings else ())),
        placement=placement(study),
    )


@task(name="evaluate", cache_policy=NO_CACHE)
def evaluate_checkpoint(study: Study, condition: str, seed: int, data: Record, checkpoint: Record, services: Serving) -> Record:
    """Per-item results of one condition and seed on every benchmark of the study."""
    workspace = Workspace(study)
    step = evaluation_step(study, condition, seed, data, checkpoint)
    with Tracking(study).child(step, condition=condition, seed=seed) as run:
        record = workspace.store.run(step, lambda folder: _evaluate(study, condition, seed, data, checkpoint, services, folder))
        Journal(record.folder / JOURNAL).remove()
        for benchmark, items in pd.read_parquet(record.folder / ITEMS).assign(condition=condition).groupby("benchmark"):
            run.log_items(items, str(benchmark))
        run.log_values(
            {f"{role}/{name}": value for role, usage in record.facts["services"].items() for name, value in usage.items()}
        )
        run.finish(record, datasets=[("test", split_path(data, "test"))])
    facts = record.facts
    scores = f"process {facts['process']:.3f}, exact {facts['exact']:.3f} (greedy)"
    say(f"[bold]evaluate[/]  {condition}, seed {seed}: {scores}, {record.seconds:.0f} s")
    return record


@limited(GPUS, SERVICES)
def _evaluate(
    study: Study, condition: str, seed: int, data: Record, checkpoint: Record, services: Serving, folder: Path
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
    protocol = toucan.Protocol(settings=settings, limits=limits, scoring=Scoring.of(study.rl), seed=seed)
    finished, root = Journal(folder / JOURNAL), Workspace(study).root
    # Unique to the checkpoint, and without "_": BFCL keeps its environments by it and takes "_" for "/".
    name = f"{condition}-{checkpoint.output_digest[:8]}".replace("_", "-")
    total = len(samples) * (settings.samples + 1)
    with (
        bar(f"evaluate {condition} seed {seed}", total=total) as update,
        served(model, name, study.machine, max_length=limits.max_length, root=study.root, log=folder / "server.log") as server,
    ):
        clients = Clients(study.services, services.urls(EVALUATION), open_cache(study.services, root, study.machine))
        results = asyncio.run(
            toucan.evaluate(samples, tokenizer, server, clients, protocol, finished=finished, on_done=lambda: update(advance=1))
        )
        records = [record for _, record in results]
        refuse_failures(records, study.services.failure_limit, f"Evaluation of {condition}")
        lines = _ask_bfcl(study, condition, seed, server, folder) if study.evaluation.bfcl else []
    # Conditions may share this evaluation: it says nothing of the one that asked first.
    items = toucan.as_items(results, condition=checkpoint.output_digest[:12], seed=seed)
    greedy = items[items.sampling == "greedy"].groupby("metric")["value"].mean().to_dict()
    if lines:
        items = pd.concat([items, bfcl.as_items(lines, condition=checkpoint.output_digest[:12], seed=seed)], ignore_index=True)
    items.to_parquet(folder / ITEMS, compression="zstd")
    pd.DataFrame(records).to_parquet(folder / "rollouts.parquet", compression="zstd")
    books = {
        "rollouts": len(records),
        "failures": errors_by_boundary(records),
        "unread": sum(record["unread"] > 0 for record in records),
        "services": {role: usage.to_json() for role, usage in usage_by_role(records).items()},
    }
    return file_digest(folder / ITEMS), {**greedy, "items": len(samples), "too_long": too_long, **books}


def _ask_bfcl(study: Study, condition: str, seed: int, server: toucan.PolicyServer, folder: Path) -> list[dict[str, Any]]:
    """BFCL's lines of every item asked; ServiceError if too many met a server that did not answer."""
    settings = study.evaluation.bfcl
    assert settings is not None
    python = require_bfcl()
    total = sum(min(BFCL_SIZES[name], settings.limit or BFCL_SIZES[name]) for name in settings.categories)
    with bar(f"bfcl {condition} seed {seed}", total=total) as update:
        lines = bfcl.evaluate(server, settings, folder, python=python, on_poll=lambda done: update(completed=done))
    failed = [{"error": line["error"] and f"policy: {line['error']}", "unread": 0} for line in lines]
    refuse_failures(failed, study.services.failure_limit, f"BFCL V3 of {condition}")
    return lines
