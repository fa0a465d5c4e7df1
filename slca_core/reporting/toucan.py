"""Toucan-Test in the report: the main table with the paired differences, and each subset on its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import pandas as pd

from slca_core.reporting.comparison import Cell, PairedDifference, cell, toucan_rollouts
from slca_core.reporting.entries import NOTHING, linked, measured, named, part_of, reference, runs_of
from slca_core.reporting.sections import Cell as TableCell
from slca_core.reporting.sections import Entry, Section
from slca_core.reporting.tables import COLUMNS, Column, Condition, MainTable, Row
from slca_core.statistics import Interval

SUBSETS = ("single-turn", "decomposed")
_BY_SUBSET = ("success_process", "success_weighted", "process", "name_f1", "argument_match", "judge")


def sections(table: MainTable) -> list[Section]:
    """The main table, and the differences to the baseline if anything is compared to it."""
    success, *others = (heading(column) for column in table.columns)
    conditions = [row.condition for row in table.rows]
    main = Section(
        "Toucan-Test",
        ["Condition", success, table.paper_title, *others, "Errors", "Run"],
        [_line(row, table, conditions) for row in table.rows],
        table.notes,
        {column.title: column.description for column in table.columns},
    )
    if not table.compared:
        return [main]
    compared = Section(
        f"Toucan-Test: difference to {table.title_of(table.baseline)}",
        ["Condition", *(f"{column.title}, points" for column in table.difference_columns), "Items"],
        [
            [named(row.condition, conditions), *(_difference(found, row.condition) for found in row.differences), _items(row)]
            for row in table.compared
        ],
        table.notes_on_differences,
    )
    return [main, compared]


def _line(row: Row, table: MainTable, conditions: Sequence[Condition]) -> list[TableCell]:
    """The paper's figure stands beside ours of the same metric, which is the first."""
    success, *others = (
        _figure(column, found, row.condition, conditions) for column, found in zip(table.columns, row.cells, strict=True)
    )
    errors = part_of(row.n_errors, row.n_rollouts)
    return [
        named(row.condition, conditions),
        success,
        reference(row.paper),
        *others,
        errors,
        linked(runs_of(row.condition, conditions)),
    ]


def by_subset(items: pd.DataFrame, conditions: Sequence[Condition]) -> list[Section]:
    """A table for each subset of the items: what its greedy rollouts gave, mean and spread over seeds.

    Args:
        items: the long table of `slca_core.results`.
    """
    columns = [column for column in COLUMNS if column.key in _BY_SUBSET]
    rollouts = toucan_rollouts(items)
    found = set(rollouts["subset"])
    made = []
    for subset in (*(name for name in SUBSETS if name in found), *sorted(found.difference(SUBSETS))):
        of_subset = rollouts[rollouts["subset"] == subset]
        rows: list[list[TableCell]] = []
        for condition in conditions:
            cells = [cell(of_subset, condition.source, column.metric, column.sampling) for column in columns]
            items_seen = max((one.n_items for one in cells if one), default=0)
            figures = [_figure(column, one, condition, conditions) for column, one in zip(columns, cells, strict=True)]
            rows.append([named(condition, conditions), f"{items_seen:,}" if items_seen else NOTHING, *figures])
        head = ["Condition", "Items", *(heading(column) for column in columns)]
        made.append(Section(f"Toucan-Test by subset: {subset}", head, rows))
    return made


def heading(column: Column) -> str:
    """A column's title with its unit."""
    return f"{column.title}, %" if column.unit == "percent" else column.title


def _figure(column: Column, found: Cell | None, condition: Condition, conditions: Sequence[Condition]) -> Entry:
    if found is None:
        return Entry(NOTHING)
    runs = runs_of(condition, conditions)
    return measured(found.mean, found.std, unit=column.unit, runs=runs, remarks=condition.labels)


def _difference(difference: PairedDifference | None, condition: Condition) -> Entry:
    """In points, with its 95 % interval and its corrected p."""
    if difference is None:
        return Entry(NOTHING)
    entry = measured(
        difference.mean, None, signed=True, interval=Interval(*difference.interval), runs=condition.runs, remarks=condition.labels
    )
    p = "" if difference.p_holm is None else f", p {format_p(difference.p_holm)}"
    return replace(entry, small=entry.small + p)


def format_p(p: float) -> str:
    """Two digits that count; never 0."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def _items(row: Row) -> str:
    """How many items the differences are over: one number, or one a column where they differ."""
    return " / ".join(dict.fromkeys(str(difference.n_items) for difference in row.differences if difference)) or NOTHING


def to_json(table: MainTable) -> dict[str, Any]:
    """The main table as plain values: `values`, `spread` and `counts` by condition and column; `run_ids` has each one's first run.

    Shares are 0 to 1; the paper's figures are per cent.
    """
    keys = [column.key for column in table.columns]
    cells = {row.condition.name: dict(zip(keys, row.cells, strict=True)) for row in table.rows}
    conditions = [row.condition for row in table.rows]
    runs = {condition.name: runs_of(condition, conditions) for condition in conditions}
    return {
        "rows": [
            {
                "name": row.condition.name,
                "title": row.condition.title,
                "shares_run_of": row.condition.shares_run_of,
                "labels": list(row.condition.labels),
                "n_rollouts": row.n_rollouts,
                "n_errors": row.n_errors,
            }
            for row in table.rows
        ],
        "columns": [asdict(column) for column in table.columns],
        "values": {name: {key: cell and cell.mean for key, cell in line.items()} for name, line in cells.items()},
        "spread": {name: {key: cell and cell.std for key, cell in line.items()} for name, line in cells.items()},
        "counts": {
            name: {key: cell and {"items": cell.n_items, "seeds": cell.n_seeds} for key, cell in line.items()}
            for name, line in cells.items()
        },
        "run_ids": {name: of_seeds[0].run_id if of_seeds else None for name, of_seeds in runs.items()},
        "runs": {name: [asdict(run) for run in of_seeds] for name, of_seeds in runs.items()},
        "labels": list(dict.fromkeys(label for row in table.rows for label in row.condition.labels)),
        "baseline": table.baseline,
        "differences_to_baseline": {
            row.condition.name: {
                column.key: None if difference is None else difference_to_json(difference)
                for column, difference in zip(table.difference_columns, row.differences, strict=True)
            }
            for row in table.rows
        },
        "paper": {
            "title": table.paper_title,
            "values": {row.condition.name: None if row.paper is None else asdict(row.paper) for row in table.rows},
        },
        "notes": [*table.notes, *table.notes_on_differences],
    }


def difference_to_json(difference: PairedDifference) -> dict[str, Any]:
    """A difference as plain values; an infinite z, which JSON has no word for, is None."""
    return {
        **asdict(difference),
        "z": difference.z if math.isfinite(difference.z) else None,
        "interval": list(difference.interval),
    }
