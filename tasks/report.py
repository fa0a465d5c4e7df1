"""The report of a study: the paper's tables, differences and curves, from per-item results and metrics files alone."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock
from prefect import task
from prefect.cache_policies import NO_CACHE
from pydantic import ConfigDict

from slca_core.benchmarks import tau2 as benchmark
from slca_core.benchmarks import toucan as toucan_test
from slca_core.certificate import Certificate
from slca_core.config import Frozen, Study
from slca_core.errors import ConfigError, DataError
from slca_core.records.json_lines import read_lines
from slca_core.records.store import Record, write_atomically
from slca_core.reporting import bfcl, cross_scale, differences, overview, services, tau2, toucan
from slca_core.reporting.comparison import PairedDifference, paired_difference
from slca_core.reporting.entries import runs_of
from slca_core.reporting.figures import Curve
from slca_core.reporting.overview import BENCHMARKS, Overview
from slca_core.reporting.paper import BACKBONES, Benchmark
from slca_core.reporting.report import RANKING_CAVEAT, ReportPaths, write_report
from slca_core.reporting.sections import Run, Section, run_url
from slca_core.reporting.services import Asked, in_evaluation, in_training
from slca_core.reporting.tables import Condition, MainTable, main_table
from slca_core.results import read_results
from tasks.curate import source_paths
from tasks.evaluate import ITEMS
from tasks.floor import floor_step
from tasks.matching import recorded
from tasks.orchestration.progress import say
from tasks.orchestration.workspace import Workspace
from tasks.services import EVALUATION, service_labels
from tasks.tracking import Tracking, flatten

SFT, SFT_FULL = "sft", "sft_full"
CERTIFICATE = "certificate.json"
TITLES = {SFT: "SFT", SFT_FULL: "SFT on both splits"}


class Evaluated(Frozen):
    """One condition and seed: the checkpoint's record and its evaluation's."""

    model_config = ConfigDict(frozen=True)

    condition: str
    seed: int
    checkpoint: Record
    evaluation: Record


@task(name="report", cache_policy=NO_CACHE)
def make_report(study: Study, data: Record, preparation: Sequence[Record], evaluated: Sequence[Evaluated]) -> ReportPaths:
    """Writes the report below `<root>/reports/<study>` and puts it and the main table on the study's MLflow run."""
    out = Workspace(study).reports
    out.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(out.with_name(f"{out.name}.lock")):  # Two runs of one study write the same files.
        return _make_report(study, data, preparation, evaluated)


def _make_report(study: Study, data: Record, preparation: Sequence[Record], evaluated: Sequence[Evaluated]) -> ReportPaths:
    tracking = Tracking(study)
    labels = service_labels(study)
    items = _items(study, evaluated)
    conditions = _conditions(study, evaluated, tracking)
    results = results_of(study, items, conditions, adopted([data, *preparation, *_records(evaluated)]))
    out = Workspace(study).reports
    certificate, asked = _certificate(study, data, preparation, evaluated), _asked(evaluated)
    notes = _notes(study, items)
    paths = write_report(
        out,
        study_name=study.name,
        description=study.description,
        items=items,
        table=results.table,
        results=results.sections,
        differences=_differences(study, items, conditions),
        curves=_curves(study, evaluated),
        stages=_stages(data, preparation, evaluated),
        labels=labels,
        manifest=data.facts,
        notes=[_matched(certificate), *notes] if certificate.matched else notes,
        warnings=[
            *([_unmatched(certificate)] if certificate.mismatches else []),
            *([RANKING_CAVEAT] if study.policy.scratch else []),
        ],
        books=[services.section(asked, study.services.failure_limit, study.services.unread_limit)],
        values={"services": {stage.stage: dataclasses.asdict(stage) for stage in asked}, **results.values},
        mlflow_hint=f"make ui STUDY=configs/studies/{study.name}.yaml opens MLflow on these runs (experiment {study.name}).",
    )
    write_atomically(out / CERTIFICATE, certificate.model_dump_json(indent=2))
    tags = {"slca.labels": "; ".join(labels) or "none", "slca.matched": str(certificate.matched).lower()}
    tracking.finish_parent(out, _as_frame(results.table), tags)
    say(f"{paths.html}", "report")
    return paths


@dataclass(frozen=True)
class Results:
    """All that follows from the per-item results.

    Attributes:
        table: Toucan-Test, every condition.
        sections: the paper's three tables, the differences, then each benchmark's own.
        values: what stands behind them, for the JSON.
    """

    table: MainTable
    sections: list[Section]
    values: dict[str, Any]


def results_of(study: Study, items: pd.DataFrame, conditions: Sequence[Condition], adoptions: Sequence[str] = ()) -> Results:
    """The tables of results, and what stands behind them."""
    found = overview_of(study, items, conditions, adoptions)
    compared = differences.measure(items, conditions)
    table = main_table(
        items,
        conditions,
        backbone=study.paper_backbone,
        temperature=study.evaluation.toucan_test.temperature,
        labels=found.labels["toucan_test"],
        notes=found.caveats(),
    )
    sections = [overview.section(found, conditions), overview.ablation(found, conditions), cross_scale.section([found])]
    values = {"overview": overview.to_json(found), **differences.to_json(compared)}
    if compared and compared.compared:
        sections.append(differences.section(compared, found))
    sections += [toucan.section(table), *toucan.by_subset(items, table)]
    shown = {"backbone": study.paper_backbone, "notes": found.caveats()}
    if (asked := study.evaluation.bfcl) and _has(items, "bfcl_v3"):
        sections.append(bfcl.section(items, conditions, limit=asked.limit, categories=asked.categories, **shown))
        values["bfcl_v3"] = bfcl.to_json(items, conditions, asked.limit)
    if _has(items, "tau2"):
        sections.append(tau2.section(items, conditions, label=found.labels["tau2"], user=found.user, **shown))
        values["tau2"] = tau2.to_json(items, conditions)
    return Results(table, sections, values)


def overview_of(study: Study, items: pd.DataFrame, conditions: Sequence[Condition], adoptions: Sequence[str] = ()) -> Overview:
    """The study on the three benchmarks, with what must stand beside each figure."""
    return Overview(
        study=study.name,
        backbone=study.paper_backbone,
        values=overview.measure(items, conditions),
        labels={
            "toucan_test": service_labels(study, EVALUATION),
            "bfcl_v3": bfcl.labels(study.evaluation.bfcl.limit if study.evaluation.bfcl else None),
            "tau2": tau2_labels(study, items),
        },
        user=user_labels(study),
        training={condition.name: condition.labels for condition in conditions},
        runs={condition.name: runs_of(condition, conditions) for condition in conditions},
        toy=study.policy.scratch is not None,
        adoptions=adoptions,
    )


def adopted(records: Sequence[Record]) -> list[str]:
    """A sentence for each word given on records (`slca adopt`), with the records it was given on."""
    words: dict[tuple[str, str, str], dict[str, None]] = {}
    for record in records:
        for word in record.adoptions:
            day = f"{datetime.fromtimestamp(word.at, UTC):%Y-%m-%d}"
            words.setdefault((word.reason, word.by, day), {})[f"{record.step} {record.name}"] = None
    return [
        f"Made by other code or packages and adopted by {by} on {day}: {', '.join(names)}. Reason given: {reason}"
        for (reason, by, day), names in words.items()
    ]


def _records(evaluated: Sequence[Evaluated]) -> list[Record]:
    return [record for one in evaluated for record in (one.checkpoint, one.evaluation)]


def tau2_labels(study: Study, items: pd.DataFrame) -> list[str]:
    """The packaging, and what makes a study's figures on tau2-bench other than the benchmark's; none if it is not asked."""
    settings = study.evaluation.tau2
    if settings is None:
        return []
    judge = service_labels(study, ["judge"]) if benchmark.asks_judge(settings) else []
    return [f"{benchmark.label(settings)}.", *tau2.labels(items, limit=settings.limit, split=settings.split), *judge]


def user_labels(study: Study) -> list[str]:
    """Who tau2-bench's user was: a stand-in, or which model; none if it is not asked."""
    if study.evaluation.tau2 is None:
        return []
    return service_labels(study, ["user"]) or [tau2.user_label(study.services.user.model)]


def training_labels(study: Study) -> dict[str, tuple[str, ...]]:
    """Arm -> the stand-ins that its training asks."""
    return {arm.name: tuple(service_labels(study, arm.services)) for arm in study.arms}


def _has(items: pd.DataFrame, benchmark: Benchmark) -> bool:
    return bool((items["benchmark"] == benchmark).any())


def _certificate(study: Study, data: Record, preparation: Sequence[Record], evaluated: Sequence[Evaluated]) -> Certificate:
    arms = {arm.name for arm in study.arms}
    sft = next(record for record in preparation if record.step == "finetune" and record.name == SFT)
    return recorded(study, data, sft, {(one.condition, one.seed): one.checkpoint for one in evaluated if one.condition in arms})


def _matched(certificate: Certificate) -> str:
    spent = {(run.updates, run.rollouts) for run in certificate.spent.values()}
    budget = " or ".join(f"{updates} updates of {rollouts:,} rollouts in all" for updates, rollouts in sorted(spent))
    return (
        f"The arms are matched: same splits, SFT checkpoint, prompt order, seeds, decoding, services and budget ({budget}); "
        f"{CERTIFICATE} beside this report has every field."
    )


def _unmatched(certificate: Certificate) -> str:
    return f"The arms are NOT matched ({'; '.join(mismatch.sentence() for mismatch in certificate.mismatches)})."


def _items(study: Study, evaluated: Sequence[Evaluated]) -> pd.DataFrame:
    """All per-item rows under the names of this study, and the floor of tau2-bench; conditions that share an evaluation each have
    its rows.
    """
    frames = [read_results(one.evaluation.output(ITEMS)).assign(condition=one.condition, seed=one.seed) for one in evaluated]
    if study.evaluation.tau2 and (floor := Workspace(study).store.find(floor_step(study))):
        frames.append(read_results(floor.output(ITEMS)).assign(condition=tau2.DO_NOTHING.name))
    return pd.concat(frames, ignore_index=True).assign(study=study.name)


def _conditions(study: Study, evaluated: Sequence[Evaluated], tracking: Tracking) -> list[Condition]:
    of_seeds: dict[str, list[Evaluated]] = {}
    for one in evaluated:
        of_seeds.setdefault(one.condition, []).append(one)
    owners: dict[tuple[str, str], str] = {}
    for name, (first, *_) in of_seeds.items():
        owners.setdefault(_run_of(first), name)
    titles = TITLES | {arm.name: arm.title for arm in study.arms}
    labels, conditions = training_labels(study), []
    for name, seeds in of_seeds.items():
        owner = owners[_run_of(seeds[0])]
        conditions.append(
            Condition(
                name=name,
                title=titles[name],
                runs=tuple(run for one in seeds if (run := _run(one, tracking))),
                shares_run_of=owner if owner != name else None,
                labels=labels.get(name, ()),
            )
        )
    return conditions


def _run_of(one: Evaluated) -> tuple[str, str]:
    """What two conditions have in common that are one experiment: a training, and how it is evaluated."""
    return one.checkpoint.identity, one.evaluation.identity


def _run(one: Evaluated, tracking: Tracking) -> Run | None:
    run_id = tracking.find_child(one.evaluation.identity, one.condition)
    return Run(one.seed, run_id, run_url(tracking.experiment_id, run_id)) if run_id else None


def _differences(study: Study, items: pd.DataFrame, conditions: Sequence[Condition]) -> list[PairedDifference]:
    """slca against the SFT checkpoint it started from: does RL learn? And the matched pair under an alternate mocker (Table 8)."""
    present = {condition.name for condition in conditions}
    pairs = [pair for pair in (("slca", SFT), ("slca_alternate", "grpo_alternate")) if present.issuperset(pair)]
    samplings = ["greedy"] + ["sampled"] * (study.evaluation.toucan_test.samples > 0)
    return [
        paired_difference(items, *pair, "process", sampling, benchmark=toucan_test.NAME) for pair in pairs for sampling in samplings
    ]


def _asked(evaluated: Sequence[Evaluated]) -> list[Asked]:
    """What trainings and evaluations asked of the frozen services; a record that several conditions share counts once."""
    trainings = {one.checkpoint.identity: one.checkpoint for one in evaluated if one.checkpoint.step == "train"}
    lines = [line for record in trainings.values() for line in read_lines(record.output("metrics.jsonl"))]
    evaluations = {one.evaluation.identity: one.evaluation.facts for one in evaluated}
    return [*([in_training(lines)] if lines else []), in_evaluation(list(evaluations.values()))]


def _curves(study: Study, evaluated: Sequence[Evaluated]) -> list[Curve]:
    titles = {arm.name: arm.title for arm in study.arms}
    curves, drawn = [], set()
    for one in evaluated:
        if one.condition in titles and one.checkpoint.identity not in drawn:
            drawn.add(one.checkpoint.identity)
            metrics = pd.DataFrame(read_lines(one.checkpoint.output("metrics.jsonl")))
            curves.append(Curve(one.condition, titles[one.condition], one.seed, metrics))
    return curves


def _stages(data: Record, preparation: Sequence[Record], evaluated: Sequence[Evaluated]) -> dict[str, float]:
    stages = {"curate": data.seconds} | {f"{record.step} {record.name}": record.seconds for record in preparation}
    for one in evaluated:
        for record in (one.checkpoint, one.evaluation):
            stages.setdefault(f"{record.step} {record.name}", record.seconds)
    return stages


def _notes(study: Study, items: pd.DataFrame) -> list[str]:
    settings = flatten({"rl": study.rl.model_dump(), "sft": study.sft.model_dump()})
    shown = ("rl.updates", "rl.prompts_per_update", "rl.group_size", "rl.learning_rate", "rl.kl_coef", "sft.learning_rate")
    data = study.data.generated
    sources = (
        f"Data: generated by this project; of its training demonstrations {data.dropped_argument:.0%} lack an argument and "
        f"{data.bare_summary:.0%} end in a summary that says nothing. The test set is clean."
        if study.data.is_generated
        else f"Data: {', '.join(str(path) for path in source_paths(study.data))}."
    )
    start = f"SFT is one run (seed {study.sft.seed}), from which the arms start under every seed; spreads are over seeds of RL."
    replicates = [arm.title for arm in study.arms if study.replicate_of(arm)]
    repeated = f"{', '.join(replicates)}: a replicate of an arm above, the same experiment with other random numbers."
    settled = "Settings: " + ", ".join(f"{key} = {settings[key]}" for key in shown) + "."
    two_stages = [arm.title for arm in study.arms if arm.name in study.planners]
    planned = (
        f"{', '.join(two_stages)}: a planner, evaluated with the SFT checkpoint as the writer of its closing summaries; BFCL V3 "
        "asks the planner alone."
    )
    missing = [title for benchmark, (title, _) in BENCHMARKS.items() if not _has(items, benchmark)]
    left_out = [f"Not part of this study: {', '.join(missing)}."] if missing else []
    return [
        sources,
        *([start] if len(study.seeds) > 1 else []),
        *([repeated] if replicates else []),
        *([planned] if two_stages else []),
        settled,
        *left_out,
    ]


def _as_frame(table: MainTable) -> pd.DataFrame:
    """The main table as MLflow keeps it: one row a condition, means and spreads as numbers."""
    rows = []
    for row in table.rows:
        values = {"condition": row.condition.title, "shares_run_of": row.condition.shares_run_of or ""}
        for column, cell in zip(table.columns, row.cells, strict=True):
            values[column.title] = cell.mean if cell else float("nan")
            values[f"{column.title} std"] = cell.std if cell and cell.std is not None else float("nan")
        values["labels"] = "; ".join(table.labels_of(row.condition))
        rows.append(values)
    return pd.DataFrame(rows)


def report_paths(study: Study) -> ReportPaths:
    """Where a study's report lies."""
    return ReportPaths.below(Workspace(study).reports)


def read_overviews(studies: Sequence[Study]) -> tuple[list[Overview], list[str]]:
    """What the reports of several studies say for the comparison across backbones, and a sentence on those without one yet.

    Raises:
        ConfigError: a study names none of the paper's backbones.
    """
    found, unfinished = [], []
    for study in studies:
        if study.paper_backbone not in BACKBONES:
            raise ConfigError(
                f"Each of several studies is expected to name a backbone of the paper ({', '.join(BACKBONES)}); paper_backbone of "
                f"{study.name} is {study.paper_backbone}."
            )
        path = report_paths(study).json
        values = _read_report(path) if path.is_file() else {}
        if "runs" in values.get("overview", {}):
            found.append(overview.from_json(values["overview"]))
        else:
            unfinished.append(study.name)
    return found, [f"No report of this version yet: {', '.join(unfinished)}."] if unfinished else []


def _read_report(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_bytes()))
    except (ValueError, TypeError, RecursionError) as error:
        raise DataError(f"A report was expected in {path}, it cannot be read: {error}. `slca run` writes it again.") from None
