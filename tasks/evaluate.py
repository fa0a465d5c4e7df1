"""Evaluation of one checkpoint: served once, all benchmarks against it, per-item results to parquet."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd
from prefect import task
from prefect.cache_policies import NO_CACHE

from slca_core.benchmarks import bfcl, tau2
from slca_core.config import Study
from slca_core.errors import ConfigError
from slca_core.records import pins
from slca_core.records.store import Record, Step
from slca_core.reporting import bfcl as bfcl_report
from slca_core.reporting import tau2 as tau2_report
from slca_core.reporting.tables import Condition
from slca_core.results import read_results, results_digest
from slca_core.rollout import Limits, Scoring
from slca_core.services.frozen import Serving
from slca_core.services.planner_proxy import two_stage
from slca_core.services.policy_server import PolicyServer
from slca_core.trainer.serve import served
from tasks.benchmarks import JOURNAL, Asked, ask_others, ask_toucan
from tasks.curate import split_path
from tasks.finetune import model_path
from tasks.orchestration.environments import installed
from tasks.orchestration.limits import GPUS, SERVICES, limited
from tasks.orchestration.progress import say
from tasks.orchestration.workspace import Workspace
from tasks.planning.placement import placement
from tasks.services import EVALUATION, services_identity
from tasks.tracking import ChildRun, Tracking

CODE = (
    "slca_core.benchmarks.toucan",
    "slca_core.conversation.calls",
    "slca_core.conversation.chat",
    "slca_core.judges.completeness",
    "slca_core.curation.rows",
    "slca_core.conversation.dialogue",
    "slca_core.failures",
    "slca_core.judges.summary",
    "slca_core.rewards",
    "slca_core.rollout",
    "slca_core.conversation.schemas",
    "slca_core.conversation.schema_bounds",
    "slca_core.services.cache",
    "slca_core.services.client",
    "slca_core.services.frozen",
    "slca_core.simulator",
    "slca_core.conversation.tags",
    "slca_core.conversation.tokens",
    "slca_core.trainer.arguments",
    "slca_core.trainer.cpu.settings",
    "slca_core.trainer.serve",
    "slca_core.judges.transcript",
    "slca_core.judges.outcome",
)
BFCL_CODE = ("slca_core.benchmarks.bfcl", "slca_core.benchmarks.worker", "slca_core.benchmarks.workers.bfcl_worker")
TAU2_CODE = ("slca_core.benchmarks.tau2", "slca_core.benchmarks.worker", "slca_core.benchmarks.workers.tau2_worker")
ITEMS = "items.parquet"


def evaluation_step(
    study: Study, condition: str, seed: int, data: Record, checkpoint: Record, summariser: Record | None = None
) -> Step:
    """What one evaluation is; conditions that share a checkpoint share it.

    Args:
        summariser: writes the closing summaries in its place (RLTR); BFCL is the checkpoint's alone.
    """
    inputs = {"test_split": data.facts["files"]["test.parquet"], "checkpoint": checkpoint.output_digest}
    if summariser:
        inputs["summariser"] = summariser.output_digest
    return benchmarks_step(study, f"{condition}-seed{seed}", seed, inputs, with_toucan=True)


def benchmarks_step(
    study: Study, name: str, seed: int, inputs: dict[str, str], *, with_toucan: bool, of_study: bool = True
) -> Step:
    """What asking the study's benchmarks of anything is; what is not the study's own tells nothing of how long its steps take."""
    rl, settings = study.rl, study.evaluation
    config: dict[str, Any] = {"seed": seed}
    code: list[str] = ["slca_core.results"]
    roles: list[str] = []
    if with_toucan:
        config["toucan_test"] = settings.toucan_test.model_dump(exclude={"concurrency"})
        config["limits"] = dataclasses.asdict(Limits.of(rl))
        config["scoring"] = dataclasses.asdict(Scoring.of(rl))
        code += CODE
        roles += EVALUATION
    if settings.bfcl:
        config["bfcl"] = {"version": bfcl.VERSION, **settings.bfcl.model_dump(mode="json", exclude={"concurrency"})}
        inputs = inputs | installed(study, bfcl.NAME)
        code += BFCL_CODE
    if settings.tau2:
        config["tau2"] = settings.tau2.model_dump(mode="json", exclude={"concurrency", "python", "data_dir", "timeout_s"})
        inputs = inputs | installed(study, tau2.NAME)
        code += TAU2_CODE
        roles += ["user", "judge"] if tau2.asks_judge(settings.tau2) else ["user"]
    if with_toucan and (settings.bfcl or settings.tau2):
        require_room(study)
        config["max_length"] = study.context
    if not of_study:
        code.append("slca_core.policy")
    if "summariser" in inputs:
        code.append("slca_core.services.planner_proxy")
    config["services"] = services_identity(study.services, dict.fromkeys(roles))
    kind, placed = ("evaluate", placement(study)) if of_study else ("benchmark", {})
    return Step(
        step=kind,
        name=name,
        config=config,
        inputs=inputs,
        code=tuple(code),
        packages=pins.pinned(study.machine, pins.ROLLOUTS if with_toucan else pins.SERVING),
        placement=placed,
        scratch=(JOURNAL,),
    )


def require_room(study: Study) -> None:
    """ConfigError if the longest answer leaves a prompt no room in what a served checkpoint takes: no prompt would fit."""
    for name in ("bfcl", "tau2"):
        settings = getattr(study.evaluation, name)
        if settings and settings.max_tokens >= study.context:
            raise ConfigError(
                f"evaluation.{name}.max_tokens is {settings.max_tokens}, which leaves a prompt no room in the {study.context} "
                "tokens that the served policy takes. Lower it, or raise evaluation.max_length."
            )


@task(name="evaluate", cache_policy=NO_CACHE)
def evaluate_checkpoint(
    study: Study, condition: str, seed: int, data: Record, checkpoint: Record, summariser: Record | None, services: Serving
) -> Record:
    """Per-item results of one condition and seed on every benchmark of the study."""
    workspace = Workspace(study)
    step = evaluation_step(study, condition, seed, data, checkpoint, summariser)
    with Tracking(study).child(step, condition=condition, seed=seed) as run:
        record = workspace.store.run(
            step, lambda folder: _evaluate(study, condition, seed, data, checkpoint, summariser, services, folder)
        )
        log_results(run, study, read_results(record.output(ITEMS)).assign(condition=condition))
        run.log_values(
            {f"{role}/{name}": value for role, usage in record.facts["services"].items() for name, value in usage.items()}
        )
        run.finish(record, datasets=[("test", split_path(data, "test"))])
    say(f"{condition}, seed {seed}: {scores(record)}, {record.seconds:.0f} s", "evaluate")
    return record


def log_results(run: ChildRun, study: Study, items: pd.DataFrame) -> None:
    """Each benchmark's per-item table and the means of its metrics, and the figures that BFCL V3 and tau2-bench are reported by."""
    for benchmark, rows in items.groupby("benchmark"):
        run.log_items(rows, str(benchmark))
    (name,) = items["condition"].unique()
    asked, limit = [Condition(name, name)], study.evaluation.bfcl.limit if study.evaluation.bfcl else None
    figures = {
        bfcl.NAME: bfcl_report.values(items, asked, limit).get(name, {}),
        tau2.NAME: tau2_report.values(items, asked).get(name, {}),
    }
    run.log_values(
        {
            f"{benchmark}/{figure}": fmean(by_seed.values())
            for benchmark, found in figures.items()
            for figure, by_seed in found.items()
        }
    )


def scores(record: Record) -> str:
    """An evaluation's main figures in a few words."""
    facts = record.facts
    parts = [f"process {facts['process']:.3f}, exact {facts['exact']:.3f} (greedy)"] if "process" in facts else []
    parts += [f"BFCL {facts['correct']:.3f}"] if "correct" in facts else []
    parts += [f"tau2 {facts['success']:.3f}"] if "success" in facts else []
    return ", ".join(parts)


@limited(GPUS, SERVICES)
def _evaluate(
    study: Study,
    condition: str,
    seed: int,
    data: Record,
    checkpoint: Record,
    summariser: Record | None,
    services: Serving,
    folder: Path,
) -> tuple[str, dict[str, Any]]:
    with _served(study, condition, checkpoint, summariser, folder) as (policy, spoken):
        asked = [ask_toucan(study, seed, split_path(data, "test"), model_path(checkpoint), spoken, services, folder)]
        asked += ask_others(study, seed, policy, spoken, services, folder)
    # Conditions may share this evaluation: it says nothing of the one that asked first.
    return write_items(asked, folder, checkpoint=checkpoint.output_digest[:12], seed=seed)


def write_items(asked: list[Asked], folder: Path, *, checkpoint: str, seed: int) -> tuple[str, dict[str, Any]]:
    """Writes all trials as one table; returns its digest, and what is to be known of it: facts and main means."""
    items = pd.concat([one.table(checkpoint=checkpoint, seed=seed) for one in asked], ignore_index=True)
    items.to_parquet(folder / ITEMS, compression="zstd")
    main = items[((items.sampling == "greedy") | (items.metric == "success")) & (items.metric != "error")]
    facts: dict[str, Any] = main.groupby("metric")["value"].mean().to_dict()
    for one in asked:
        facts |= one.facts
    return results_digest(items), {**facts, "services": {role: used for one in asked for role, used in one.services.items()}}


@contextmanager
def _served(
    study: Study, condition: str, checkpoint: Record, summariser: Record | None, folder: Path
) -> Iterator[tuple[PolicyServer, PolicyServer]]:
    """The checkpoint alone, and as it speaks: with the summariser behind it if there is one."""
    options = {
        "machine": study.machine,
        "max_length": study.context,
        "root": study.root,
        "share": 0.5 if summariser else 1.0,
    }
    # Unique to the checkpoint, and without "_": BFCL keeps its environments by it and takes "_" for "/".
    name = f"{condition}-{checkpoint.output_digest[:8]}".replace("_", "-")
    with served(model_path(checkpoint), name, log=folder / "server.log", **options) as policy:
        if summariser is None:
            yield policy, policy
            return
        with (
            served(model_path(summariser), "summariser", log=folder / "summariser.log", **options) as other,
            two_stage((policy.url, policy.model), (other.url, other.model), folder / "two-stage.log") as url,
        ):
            yield policy, PolicyServer(url, name)
