"""Toucan-Test in the report: the main table, and each subset on its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from slca_core.benchmarks import toucan
from slca_core.reporting.comparison import Cell, cell, usable
from slca_core.reporting.entries import NOTHING, linked, measured, named, part_of, reference, runs_of
from slca_core.reporting.sections import Cell as TableCell
from slca_core.reporting.sections import Entry, Run, Section
from slca_core.reporting.tables import COLUMNS, Column, Condition, MainTable, Row

SUBSETS = ("single-turn", "decomposed")
_BY_SUBSET = ("success_process", "success_weighted", "process", "name_f1", "argument_match", "judge")


def section(table: MainTable) -> Section:
    """The main table."""
    success, *others = (heading(column) for column in table.columns)
    conditions = [row.condition for row in table.rows]
    return Section(
        "Toucan-Test",
        ["Condition", success, table.paper_title, *others, "Errors", "Run"],
        [_line(row, table, conditions) for row in table.rows],
        table.notes,
        {column.title: column.description for column in table.columns},
    )


def _line(row: Row, table: MainTable, conditions: Sequence[Condition]) -> list[TableCell]:
    """The paper's figure stands beside ours of the same metric, which is the first."""
    runs, labels = runs_of(row.condition, conditions), table.labels_of(row.condition)
    success, *others = (_figure(column, found, runs, labels) for column, found in zip(table.columns, row.cells, strict=True))
    errors = part_of(row.n_errors, row.n_rollouts)
    return [named(row.condition, conditions), success, reference(row.paper), *others, errors, linked(runs)]


def by_subset(items: pd.DataFrame, table: MainTable) -> list[Section]:
    """A table for each subset of the items: what its greedy rollouts gave, mean and spread over seeds.

    Args:
        items: the long table of `slca_core.results`.
        table: of all subsets together.
    """
    columns = [column for column in COLUMNS if column.key in _BY_SUBSET]
    conditions = [row.condition for row in table.rows]
    trials = usable(items, toucan.NAME)
    found = set(trials["subset"])
    made = []
    for subset in (*(name for name in SUBSETS if name in found), *sorted(found.difference(SUBSETS))):
        of_subset = trials[trials["subset"] == subset]
        rows: list[list[TableCell]] = []
        for condition in conditions:
            cells = [cell(of_subset, condition.source, column.metric, column.sampling) for column in columns]
            items_seen = max((one.n_items for one in cells if one), default=0)
            runs, labels = runs_of(condition, conditions), table.labels_of(condition)
            figures = [_figure(column, one, runs, labels) for column, one in zip(columns, cells, strict=True)]
            rows.append([named(condition, conditions), f"{items_seen:,}" if items_seen else NOTHING, *figures])
        head = ["Condition", "Items", *(heading(column) for column in columns)]
        made.append(Section(f"Toucan-Test by subset: {subset}", head, rows))
    return made


def heading(column: Column) -> str:
    """A column's title with its unit."""
    return f"{column.title}, %" if column.unit == "percent" else column.title


def _figure(column: Column, found: Cell | None, runs: Sequence[Run], labels: Sequence[str]) -> Entry:
    return measured(found.mean, found.std, unit=column.unit, runs=runs, remarks=labels) if found else Entry(NOTHING)


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
                "labels": list(table.labels_of(row.condition)),
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
        "labels": list(dict.fromkeys(label for row in table.rows for label in table.labels_of(row.condition))),
        "paper": {
            "title": table.paper_title,
            "values": {row.condition.name: None if row.paper is None else asdict(row.paper) for row in table.rows},
        },
        "notes": list(table.notes),
    }
