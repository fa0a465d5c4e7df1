"""`slca evaluate` in the terminal."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table

from slca_core.benchmarks import bfcl, tau2, toucan
from slca_core.config import Study
from slca_core.errors import ConfigError
from slca_core.records import Record
from slca_core.results import read_results
from tasks.evaluate import ITEMS
from tasks.services import service_labels
from tasks.standalone import evaluate_endpoint, evaluate_folder

console = Console()
# The metric that stands for a benchmark, greedy or sampled as it is asked.
_MAIN = {toucan.NAME: "success_process", bfcl.NAME: "correct", tau2.NAME: "success"}
_TITLES = {toucan.NAME: "Toucan-Test, Success@0.9 (process)", bfcl.NAME: "BFCL V3, correct", tau2.NAME: "tau2-bench, success"}


def show(study: Study, *, checkpoint: Path | None, endpoint: str | None, model: str | None, seed: int) -> None:
    """Evaluates, and prints a line a subset: how many are right, of how many, and errors.

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
        record = evaluate_endpoint(study, endpoint, model, seed)
    _print(study, record)


def _print(study: Study, record: Record) -> None:
    items = read_results(record.folder / ITEMS)
    table = Table("benchmark", "subset", "right", "%", "errors", box=box.SIMPLE_HEAD)
    for column in table.columns[2:]:
        column.justify = "right"
    for benchmark, metric in _MAIN.items():
        own = items[(items.benchmark == benchmark) & ((items.sampling == "greedy") | (benchmark == tau2.NAME))]
        for subset, rows in own.groupby("subset", sort=False):
            table.add_row(_TITLES[benchmark], str(subset), *_counts(rows, metric))
    console.print(table)
    for line in _notes(study, items):
        console.print(f"  {line}", highlight=False, markup=False, style="dim")
    console.print(f"items    {record.folder / ITEMS}", soft_wrap=True, highlight=False)
    console.print(f"asked in {record.seconds:.0f} s, and not again until that folder is removed", highlight=False)


def _counts(rows: pd.DataFrame, metric: str) -> tuple[str, str, str]:
    values, errors = rows[rows.metric == metric]["value"], rows[rows.metric == "error"]["value"]
    share = f"{100 * values.mean():.2f}" if len(values) else "–"
    return f"{values.sum():.0f}/{len(values)}", share, f"{errors.sum():.0f}"


def _notes(study: Study, items: pd.DataFrame) -> list[str]:
    asked = set(items.benchmark)
    notes = [bfcl.LABEL] if bfcl.NAME in asked else []
    if study.evaluation.tau2 and tau2.NAME in asked:
        notes.append(tau2.label(study.evaluation.tau2))
    roles = (("mocker", "judge") if toucan.NAME in asked else ()) + (("user",) if tau2.NAME in asked else ())
    return notes + service_labels(study, roles)
