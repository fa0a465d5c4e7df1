"""The main table: one row a condition, its Toucan-Test figures, the paper's beside them, the paired difference to the baseline.

An arm that is the same experiment as another (w/o SLCA under equal weights) shows the figures of the run it shares, and says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

import pandas as pd

from slca_core.errors import DataError
from slca_core.reporting.comparison import (
    BENCHMARK,
    Cell,
    PairedDifference,
    Sampling,
    cell,
    compare,
    count_rollouts,
    failed_rollouts,
    paired_difference,
    toucan_rollouts,
)
from slca_core.reporting.paper import BACKBONES, Published, published
from slca_core.reporting.sections import Run
from slca_core.results import TOUCAN_METRICS
from slca_core.statistics import DRAWS, holm, smallest_effect

__all__ = ["Cell", "Condition", "MainTable", "PairedDifference", "main_table", "paired_difference"]

BASELINE = "grpo"

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
DIFFERENCE_COLUMNS = tuple(column for column in COLUMNS if column.key in ("process", "success_process"))


@dataclass(frozen=True, slots=True)
class Condition:
    """A row of the main table: a checkpoint that was evaluated, or an arm that shares another's run.

    Attributes:
        runs: its evaluations' MLflow runs, one a seed; a shared arm shows those it shares.
        shares_run_of: name of the condition whose run, and so whose results, are this one's too.
        labels: what a reader must know beside each figure, such as the stand-ins it was made with.
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
    """One condition's figures; `cells` and `differences` stand in the order of the table's columns, None where there is nothing."""

    condition: Condition
    cells: tuple[Cell | None, ...]
    differences: tuple[PairedDifference | None, ...]
    paper: Published | None
    n_rollouts: int
    n_errors: int


@dataclass(frozen=True, slots=True)
class MainTable:
    """Toucan-Test, all conditions; `notes` are the sentences that belong below it, or below its differences."""

    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    difference_columns: tuple[Column, ...]
    baseline: str
    paper_title: str
    notes: tuple[str, ...]
    notes_on_differences: tuple[str, ...]

    @property
    def compared(self) -> tuple[Row, ...]:
        """The rows that have a difference to the baseline."""
        return tuple(row for row in self.rows if any(row.differences))

    def title_of(self, condition: str) -> str:
        """The title of a condition; its name where the table has no such row."""
        return next((row.condition.title for row in self.rows if row.condition.name == condition), condition)


def main_table(
    items: pd.DataFrame,
    conditions: Sequence[Condition],
    *,
    backbone: str | None,
    temperature: float = 1.0,
    baseline: str = BASELINE,
) -> MainTable:
    """Toucan-Test results by condition.

    Args:
        items: the long table of `slca_core.results`; other benchmarks' rows are ignored.
        conditions: rows in order.
        backbone: key of `paper.BACKBONES` whose published figures stand beside ours, or None.
        temperature: of the sampled trials; names their column, which is there only if such trials are.
        baseline: condition that the paired differences are taken to.

    Raises:
        DataError: a condition shares the run of one that has no run of its own.
    """
    _check_sharing(conditions)
    by_name = {condition.name: condition for condition in conditions}
    columns: tuple[Column, ...] = COLUMNS
    if ((items["benchmark"] == BENCHMARK) & (items["sampling"] == "sampled")).any():
        title = f"Process, T = {temperature:g}"
        columns += (
            Column(f"process@T={temperature:g}", title, "S_process of the sampled trials", "process", "sampled", "percent"),
        )
    rollouts, rows = toucan_rollouts(items), []
    for condition in conditions:
        own = items[(items["benchmark"] == BENCHMARK) & (items["condition"] == condition.source)]
        row = Row(
            condition=condition,
            cells=tuple(cell(rollouts, condition.source, column.metric, column.sampling) for column in columns),
            differences=_differences(rollouts, condition, by_name.get(baseline)),
            paper=published(backbone, condition.name, "toucan_test"),
            n_rollouts=count_rollouts(own),
            n_errors=len(failed_rollouts(own)),
        )
        rows.append(row)
    rows = _corrected(rows)
    return MainTable(
        rows=tuple(rows),
        columns=columns,
        difference_columns=DIFFERENCE_COLUMNS,
        baseline=baseline,
        paper_title=f"Paper ({BACKBONES.get(backbone, backbone)}), Success@0.9" if backbone else "Paper",
        notes=tuple(_notes_on_rows(rows, backbone)),
        notes_on_differences=tuple(_notes_on_differences(rows, baseline)),
    )


def _check_sharing(conditions: Sequence[Condition]) -> None:
    with_own_run = [condition.name for condition in conditions if condition.shares_run_of is None]
    for condition in conditions:
        if condition.source not in with_own_run:
            raise DataError(
                f"Condition {condition.name!r} was expected to share the run of a condition that has one of its own "
                f"({', '.join(with_own_run) or 'there is none'}), found {condition.source!r}."
            )


def _differences(rollouts: pd.DataFrame, condition: Condition, baseline: Condition | None) -> tuple[PairedDifference | None, ...]:
    """None for the baseline itself, for whoever shares its run, and where the two have no two items in common."""
    if baseline is None or condition.source == baseline.source:
        return (None,) * len(DIFFERENCE_COLUMNS)
    return tuple(
        compare(rollouts, condition.source, baseline.source, column.metric, column.sampling) for column in DIFFERENCE_COLUMNS
    )


def _corrected(rows: Sequence[Row]) -> list[Row]:
    """The rows with each column's p-values corrected for all the arms that are compared in it."""
    differences = [list(row.differences) for row in rows]
    for column in range(len(DIFFERENCE_COLUMNS)):
        # An arm that shares a run is no comparison of its own.
        compared = {row.condition.source: found for row in rows if (found := row.differences[column])}
        corrected = holm({name: found.p for name, found in compared.items()})
        for row, own in zip(rows, differences, strict=True):
            if found := own[column]:
                own[column] = replace(found, p_holm=corrected.get(row.condition.source))
    return [replace(row, differences=tuple(own)) for row, own in zip(rows, differences, strict=True)]


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


def _smallest_effects(rows: Sequence[Row]) -> list[str]:
    """What differences these items could show, by the median standard error of each column."""
    notes = []
    for at, column in enumerate(DIFFERENCE_COLUMNS):
        found = [row.differences[at] for row in rows if row.differences[at] and not row.condition.shares_run_of]
        errors = [difference.standard_error for difference in found if difference]
        if errors and (error := median(errors)):
            effect = smallest_effect(error, comparisons=len(errors))
            notes.append(
                f"{column.title}: a difference under {100 * effect:.1f} points is missed here more often than one time in five "
                f"(80% power, {len(errors)} comparisons)."
            )
    return notes


def _notes_on_differences(rows: Sequence[Row], baseline: str) -> list[str]:
    if not any(any(row.differences) for row in rows):
        return []
    title = next(row.condition.title for row in rows if row.condition.name == baseline)
    return [
        f"Differences to {title} are paired by item; in brackets the 95% interval of a bootstrap over items ({DRAWS:,} draws), "
        "then p: of the paired t-test, or of McNemar's exact test where every value is 0 or 1, corrected by Holm for all arms "
        "of the column.",
        *_smallest_effects(rows),
    ]
