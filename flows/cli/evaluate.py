"""`slca evaluate` in the terminal."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from rich import box
from rich.table import Table

from slca_core.benchmarks import bfcl, tau2, toucan
from slca_core.config import Study
from slca_core.errors import ConfigError
from slca_core.records.store import Record
from slca_core.reporting import bfcl as bfcl_report
from slca_core.reporting import tau2 as tau2_report
from slca_core.reporting.entries import NOTHING, over_seeds
from slca_core.reporting.tables import Condition
from slca_core.reporting.tau2 import DO_NOTHING
from slca_core.results import read_results
from slca_core.terminal import terminal
from tasks.evaluate import ITEMS
from tasks.floor import floor_step
from tasks.orchestration.workspace import Workspace
from tasks.report import tau2_labels, user_labels
from tasks.services import EVALUATION, service_labels
from tasks.standalone import evaluate_endpoint, evaluate_folder

console = terminal()
_ASKED = "asked"  # The one condition there is.
# The metric that stands for a benchmark, greedy or sampled as it is asked.
_MAIN = {toucan.NAME: "success_process", bfcl.NAME: "correct", tau2.NAME: "success"}
_FORMAT = "Asked in this project's chat format, in whatever format it was trained."
_TITLES = {toucan.NAME: "Toucan-Test, Success@0.9 (process)", bfcl.NAME: "BFCL V3, correct", tau2.NAME: "tau2-bench, success"}


def show(study: Study, *, checkpoint: Path | None, endpoint: str | None, model: str | None, key_env: str | None, seed: int) -> None:
    """Evaluates, and prints a line a subset, how many are right, of how many, and errors; then the benchmarks' own figures.

    Raises:
        ConfigError: neither a checkpoint nor an endpoint with a model is named, or both.
    """
    if (checkpoint is None) == (endpoint is None) or (endpoint is None) != (model is None):
        raise ConfigError("Either --checkpoint FOLDER is expected, or --endpoint URL with --model NAME.")
    if checkpoint:
        record = evaluate_folder(study, checkpoint, seed)
    else:
        assert endpoint is not None
        assert model is not None
        record = evaluate_endpoint(study, endpoint, model, seed, key_env)
    _print(study, record)


def _print(study: Study, record: Record) -> None:
    items = read_results(record.output(ITEMS))
    table = Table("benchmark", "subset", "right", "%", "errors", box=box.SIMPLE_HEAD)
    for column in table.columns[2:]:
        column.justify = "right"
    for benchmark, metric in _MAIN.items():
        own = items[(items.benchmark == benchmark) & ((items.sampling == "greedy") | (benchmark == tau2.NAME))]
        for subset, rows in own.groupby("subset", sort=False):
            table.add_row(_TITLES[benchmark], str(subset), *_counts(rows, metric))
    console.print(table)
    print_figures(study, items)
    for line in _notes(study, items):
        console.print(f"  {line}", style="dim")
    console.print(f"items    {record.folder / ITEMS}", soft_wrap=True)
    console.print(f"asked in {record.seconds:.0f} s, and not again until that folder is removed")


def print_figures(study: Study, items: pd.DataFrame) -> None:
    """What BFCL V3 and tau2-bench are reported by, as far as it can be had, beside what an agent that does nothing gets."""
    shown, rows = {_ASKED: "%, 95% interval"}, [items.assign(condition=_ASKED)]
    if study.evaluation.tau2 and (floor := Workspace(study).store.find(floor_step(study))):
        shown[DO_NOTHING.name] = DO_NOTHING.title
        rows.append(read_results(floor.output(ITEMS)).assign(condition=DO_NOTHING.name))
    table = Table("figure", *shown.values(), box=box.SIMPLE_HEAD)
    for name, found in figures(study, pd.concat(rows, ignore_index=True)).items():
        table.add_row(name, *(found.get(condition, NOTHING) for condition in shown))
    if table.rows:
        console.print(table)


def figures(study: Study, items: pd.DataFrame) -> dict[str, dict[str, str]]:
    """Figure -> condition -> its value and its interval in per cent; figures that could not be had are left out.

    Args:
        items: the long table, of the condition `_ASKED` and of tau2-bench's floor if it is there.
    """
    conditions, limit = [Condition(_ASKED, "")], study.evaluation.bfcl.limit if study.evaluation.bfcl else None
    powers = range(2, 1 + study.evaluation.tau2.trials) if study.evaluation.tau2 else ()
    pass_k = {"pass_1": "Pass^1 (micro)", "pass_1_macro": "Pass^1 (macro)", **{f"pass_{k}": f"Pass^{k}" for k in powers}}
    sources = (
        ("BFCL V3", bfcl.FIGURES, bfcl_report.values(items, conditions, limit), bfcl_report.intervals(items, conditions, limit)),
        ("tau2-bench", pass_k, tau2_report.values(items, conditions), tau2_report.intervals(items, conditions)),
    )
    return {
        f"{benchmark}, {title}": {
            condition: over_seeds(of_condition[name], interval=drawn.get(condition, {}).get(name)).read
            for condition, of_condition in found.items()
            if name in of_condition
        }
        for benchmark, titles, found, drawn in sources
        for name, title in titles.items()
        if any(name in of_condition for of_condition in found.values())
    }


def _counts(rows: pd.DataFrame, metric: str) -> tuple[str, str, str]:
    values, errors = rows[rows.metric == metric]["value"], rows[rows.metric == "error"]["value"]
    share = f"{100 * values.mean():.2f}" if len(values) else "–"
    return f"{values.sum():.0f}/{len(values)}", share, f"{errors.sum():.0f}"


def _notes(study: Study, items: pd.DataFrame) -> list[str]:
    asked, settings = set(items.benchmark), study.evaluation
    notes = [_FORMAT, *service_labels(study, EVALUATION)] if toucan.NAME in asked else []
    if settings.bfcl and bfcl.NAME in asked:
        notes += bfcl_report.labels(settings.bfcl.limit)
    if tau2.NAME in asked:
        notes += [*tau2_labels(study, items), *user_labels(study)]
    return list(dict.fromkeys(notes))
