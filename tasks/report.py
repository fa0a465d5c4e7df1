"""The report of a study: main table, differences and curves, from per-item results and metrics files alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from filelock import FileLock
from prefect import task
from prefect.cache_policies import NO_CACHE
from pydantic import ConfigDict

from slca_core.config import Frozen, Study
from slca_core.json_lines import read_lines
from slca_core.matching import Certificate
from slca_core.records import Record, write_atomically
from slca_core.reporting import bfcl
from slca_core.reporting.comparison import paired_difference
from slca_core.reporting.figures import Curve
from slca_core.reporting.report import ReportPaths, write_report
from slca_core.reporting.sections import Section
from slca_core.reporting.services import Asked, in_evaluation, in_training
from slca_core.reporting.services import section as services_section
from slca_core.reporting.tables import Condition, main_table
from slca_core.results import read_results
from tasks.evaluate import ITEMS
from tasks.matching import recorded
from tasks.progress import say
from tasks.services import service_labels
from tasks.tracking import Tracking, flatten
from tasks.workspace import Workspace

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
    items = _items(evaluated)
    conditions = _conditions(study, evaluated, tracking, labels)
    temperature = study.evaluation.toucan_test.temperature
    table = main_table(items, conditions, backbone=study.paper_backbone, temperature=temperature)
    out = Workspace(study).reports
    certificate, asked = _certificate(study, data, preparation, evaluated), _asked(evaluated)
    paths = write_report(
        out,
        study_name=study.name,
        description=study.description,
        table=table,
        differences=_differences(study, items, conditions),
        curves=_curves(study, evaluated),
        stages=_stages(data, preparation, evaluated),
        labels=labels,
        manifest=data.facts,
        notes=[_matched(certificate), *_notes(study)] if certificate.matched else _notes(study),
        warnings=[_unmatched(certificate)] if certificate.mismatches else [],
        sections=[*_benchmarks(study, items, conditions), services_section(asked, study.services.failure_limit)],
        values={
            "services": {stage.stage: dataclasses.asdict(stage) for stage in asked},
            **({"bfcl_v3": bfcl.to_json(items, conditions)} if study.evaluation.bfcl else {}),
        },
        mlflow_hint=f"make ui STUDY=configs/studies/{study.name}.yaml opens MLflow on these runs (experiment {study.name}).",
    )
    write_atomically(out / CERTIFICATE, certificate.model_dump_json(indent=2))
    tags = {"slca.labels": "; ".join(labels) or "none", "slca.matched": str(certificate.matched).lower()}
    tracking.finish_parent(out, _as_frame(table), tags)
    say(f"[bold]report[/]    {paths.html}")
    return paths


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


def _items(evaluated: Sequence[Evaluated]) -> pd.DataFrame:
    """All per-item rows under the names of this study; conditions that share an evaluation each have them."""
    frames = [read_results(one.evaluation.folder / ITEMS).assign(condition=one.condition, seed=one.seed) for one in evaluated]
    return pd.concat(frames, ignore_index=True)


def _conditions(study: Study, evaluated: Sequence[Evaluated], tracking: Tracking, labels: Sequence[str]) -> list[Condition]:
    first: dict[str, Evaluated] = {}
    for one in evaluated:
        first.setdefault(one.condition, one)
    owners = {}
    for one in first.values():
        owners.setdefault(one.checkpoint.identity, one.condition)
    titles = TITLES | {arm.name: arm.title for arm in study.arms}
    conditions = []
    for name, one in first.items():
        owner = owners[one.checkpoint.identity]
        conditions.append(
            Condition(
                name=name,
                title=titles[name],
                run_id=tracking.find_child(one.evaluation.identity, name),
                shares_run_of=owner if owner != name else None,
                labels=tuple(labels),
            )
        )
    return conditions


def _differences(study: Study, items: pd.DataFrame, conditions: Sequence[Condition]):
    """slca against the SFT checkpoint it started from: does RL learn? And the matched pair under an alternate mocker (Table 8)."""
    present = {condition.name for condition in conditions}
    pairs = [pair for pair in (("slca", SFT), ("slca_alternate", "grpo_alternate")) if present.issuperset(pair)]
    samplings = ["greedy"] + ["sampled"] * (study.evaluation.toucan_test.samples > 0)
    return [paired_difference(items, *pair, "process", sampling) for pair in pairs for sampling in samplings]


def _benchmarks(study: Study, items: pd.DataFrame, conditions: Sequence[Condition]) -> list[Section]:
    """The tables beside Toucan-Test's."""
    if (settings := study.evaluation.bfcl) is None:
        return []
    return [bfcl.section(items, conditions, backbone=study.paper_backbone, limit=settings.limit, categories=settings.categories)]


def _asked(evaluated: Sequence[Evaluated]) -> list[Asked]:
    """What trainings and evaluations asked of the frozen services; a record that several conditions share counts once."""
    trainings = {one.checkpoint.identity: one.checkpoint for one in evaluated if one.checkpoint.step == "train"}
    lines = [line for record in trainings.values() for line in read_lines(record.folder / "metrics.jsonl")]
    evaluations = {one.evaluation.identity: one.evaluation.facts for one in evaluated}
    return [*([in_training(lines)] if lines else []), in_evaluation(list(evaluations.values()))]


def _curves(study: Study, evaluated: Sequence[Evaluated]) -> list[Curve]:
    titles = {arm.name: arm.title for arm in study.arms}
    curves, drawn = [], set()
    for one in evaluated:
        metrics = one.checkpoint.folder / "metrics.jsonl"
        if one.condition in titles and one.checkpoint.identity not in drawn:
            drawn.add(one.checkpoint.identity)
            curves.append(Curve(one.condition, titles[one.condition], one.seed, pd.DataFrame(read_lines(metrics))))
    return curves


def _stages(data: Record, preparation: Sequence[Record], evaluated: Sequence[Evaluated]) -> dict[str, float]:
    stages = {"curate": data.seconds} | {f"{record.step} {record.name}": record.seconds for record in preparation}
    for one in evaluated:
        for record in (one.checkpoint, one.evaluation):
            stages.setdefault(f"{record.step} {record.name}", record.seconds)
    return stages


def _notes(study: Study) -> list[str]:
    settings = flatten({"rl": study.rl.model_dump(), "sft": study.sft.model_dump()})
    shown = ("rl.updates", "rl.prompts_per_update", "rl.group_size", "rl.learning_rate", "rl.kl_coef", "sft.learning_rate")
    data = study.data.generated
    sources = (
        f"Data: generated by this project; of its training demonstrations {data.dropped_argument:.0%} lack an argument and "
        f"{data.bare_summary:.0%} end in a summary that says nothing. The test set is clean."
        if study.data.source == "generated"
        else f"Data: {', '.join(str(source) for source in study.data.source)}."
    )
    start = f"SFT is one run (seed {study.sft.seed}), from which the arms start under every seed; spreads are over seeds of RL."
    replicates = [arm.title for arm in study.arms if study.replicate_of(arm)]
    repeated = f"{', '.join(replicates)}: a replicate of an arm above, the same experiment with other random numbers."
    settled = "Settings: " + ", ".join(f"{key} = {settings[key]}" for key in shown) + "."
    left_out = (
        "tau2-bench is not evaluated yet."
        if study.evaluation.bfcl
        else "BFCL V3 is not part of this study, tau2-bench of none yet."
    )
    return [sources, *([start] if len(study.seeds) > 1 else []), *([repeated] if replicates else []), settled, left_out]


def _as_frame(table) -> pd.DataFrame:
    """The main table as MLflow keeps it: one row a condition, means and spreads as numbers."""
    rows = []
    for row in table.rows:
        values = {"condition": row.condition.title, "shares_run_of": row.condition.shares_run_of or ""}
        for column, cell in zip(table.columns, row.cells, strict=True):
            values[column.title] = cell.mean if cell else float("nan")
            values[f"{column.title} std"] = cell.std if cell and cell.std is not None else float("nan")
        values["labels"] = "; ".join(row.condition.labels)
        rows.append(values)
    return pd.DataFrame(rows)


def report_paths(study: Study) -> ReportPaths:
    """Where a study's report lies."""
    out: Path = Workspace(study).reports
    return ReportPaths(markdown=out / "report.md", html=out / "report.html", json=out / "report.json")
