"""Toucan-Test: one row a condition, its figures, the paper's beside them.

An arm that is the same experiment as another (w/o SLCA under equal weights) shows the figures of the run it shares, and says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from slca_core.benchmarks import toucan
from slca_core.errors import DataError
from slca_core.reporting.comparison import Cell, Sampling, cell, count_trials, failed_trials, usable
from slca_core.reporting.paper import BACKBONES, Published, published
from slca_core.reporting.sections import Run
from slca_core.results import TOUCAN_METRICS

Unit = Literal["percent", "score", "turns"]


@dataclass(frozen=True, slots=True)
class Column:
    """One metric of one sampling mode; `unit` is how it is written, values are kept as they are."""

    key: str
    title: str
    description: str
    metric: str
    sampling: Sampling
    unit: Unit


def _greedy(metric: str, title: str, unit: Unit = "percent") -> Column:
    return Column(metric, title, TOUCAN_METRICS[metric], metric, "greedy", unit)


# `error` is no column: its rollouts are counted in each row.
COLUMNS = (
    _greedy("success_process", "Success@0.9 (process)"),
    _greedy("success_weighted", "Success@0.9 (weighted)"),
    _greedy("process", "Process"),
    _greedy("name_f1", "Name F1"),
    _greedy("argument_match", "ArgMatch"),
    _greedy("exact", "Exact"),
    _greedy("format_valid", "Format valid"),
    _greedy("judge", "Judge", "score"),
    _greedy("no_call", "No call"),
    _greedy("tool_turns", "Tool turns", "turns"),
    _greedy("truncated", "Truncated"),
)


@dataclass(frozen=True, slots=True)
class Condition:
    """A row of the tables: a checkpoint that was evaluated, or an arm that shares another's run.

    Attributes:
        runs: its evaluations' MLflow runs, one a seed; a shared arm shows those it shares.
        shares_run_of: name of the condition whose run, and so whose results, are this one's too.
        labels: the stand-ins that its training asked.
    """

    name: str
    title: str
    runs: tuple[Run, ...] = ()
    shares_run_of: str | None = None
    labels: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """Name of the condition whose results are shown."""
        return self.shares_run_of or self.name


@dataclass(frozen=True, slots=True)
class Row:
    """One condition's figures; `cells` stand in the order of the table's columns, None where there is nothing."""

    condition: Condition
    cells: tuple[Cell | None, ...]
    paper: Published | None
    n_rollouts: int
    n_errors: int


@dataclass(frozen=True, slots=True)
class MainTable:
    """Toucan-Test, all conditions.

    Attributes:
        labels: what a reader must know beside each figure, such as the stand-ins it was measured with.
        notes: the sentences that belong below it.
    """

    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    paper_title: str
    labels: tuple[str, ...]
    notes: tuple[str, ...]

    def title_of(self, condition: str) -> str:
        """The title of a condition; its name where the table has no such row."""
        return next((row.condition.title for row in self.rows if row.condition.name == condition), condition)

    def labels_of(self, condition: Condition) -> tuple[str, ...]:
        """What a reader must know beside a condition's figures: stand-ins of evaluation and of training."""
        return tuple(dict.fromkeys((*self.labels, *condition.labels)))


def main_table(
    items: pd.DataFrame,
    conditions: Sequence[Condition],
    *,
    backbone: str | None,
    temperature: float = 1.0,
    labels: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> MainTable:
    """Toucan-Test results by condition.

    Args:
        items: the long table of `slca_core.results`; other benchmarks' rows are ignored.
        conditions: rows in order.
        backbone: key of `paper.BACKBONES` whose published figures stand beside ours, or None.
        temperature: of the sampled trials; names their column, which is there only if such trials are.
        labels: what holds for every figure.
        notes: further sentences below the table; they come first.

    Raises:
        DataError: a condition shares the run of one that has no run of its own.
    """
    _check_sharing(conditions)
    columns: tuple[Column, ...] = COLUMNS
    of_toucan = items[items["benchmark"] == toucan.NAME]
    if (of_toucan["sampling"] == "sampled").any():
        title = f"Process, T = {temperature:g}"
        columns += (
            Column(f"process@T={temperature:g}", title, "S_process of the sampled trials", "process", "sampled", "percent"),
        )
    trials, rows = usable(of_toucan, toucan.NAME), []
    for condition in conditions:
        own = of_toucan[of_toucan["condition"] == condition.source]
        row = Row(
            condition=condition,
            cells=tuple(cell(trials, condition.source, column.metric, column.sampling) for column in columns),
            paper=published(backbone, condition.name, "toucan_test"),
            n_rollouts=count_trials(own),
            n_errors=len(failed_trials(own)),
        )
        rows.append(row)
    return MainTable(
        rows=tuple(rows),
        columns=columns,
        paper_title=f"Paper ({BACKBONES.get(backbone, backbone)}), Success@0.9" if backbone else "Paper",
        labels=tuple(labels),
        notes=(*notes, *_notes_on_rows(rows, backbone)),
    )


def _check_sharing(conditions: Sequence[Condition]) -> None:
    with_own_run = [condition.name for condition in conditions if condition.shares_run_of is None]
    for condition in conditions:
        if condition.source not in with_own_run:
            raise DataError(
                f"Condition {condition.name!r} was expected to share the run of a condition that has one of its own "
                f"({', '.join(with_own_run) or 'there is none'}), found {condition.source!r}."
            )


def _notes_on_rows(rows: Sequence[Row], backbone: str | None) -> list[str]:
    titles = {row.condition.name: row.condition.title for row in rows}
    notes = [
        f"{row.condition.title} is a shared run: it is the same experiment as {titles[shared]}, whose run and figures it shows."
        for row in rows
        if (shared := row.condition.shares_run_of)
    ]
    if empty := [row.condition.title for row in rows if not row.n_rollouts]:
        notes.append(f"No results yet: {', '.join(empty)}.")
    if errors := sum(row.n_errors for row in rows if row.condition.shares_run_of is None):
        notes.append(
            f"Rollouts that met an infrastructure error: {errors}. They are counted under Errors and enter no other figure."
        )
    if backbone and backbone not in BACKBONES:
        notes.append(f"No published figures are known for the backbone {backbone!r}; known: {', '.join(BACKBONES)}.")
    return notes
