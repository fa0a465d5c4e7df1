"""Rows of a report's per-item table, runs, and tables read by line and column."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from slca_core.reporting.sections import Entry, Run, Section, as_entry, run_url
from slca_core.results import REPORTED

HOSTILE = r"A & B_% #1 {x} \input{/etc/passwd} ~ ^ $y$ <script>alert(1)</script> [z](javascript:0) *w* |"

Row = tuple[str, int, str, str, str, int, str, str, float]


def table_of(rows: Iterable[Row], study: str = "toy") -> pd.DataFrame:
    """The long table of rows (condition, seed, benchmark, subset, item, trial, sampling, metric, value)."""
    lines = [
        (study, condition, f"checkpoint of {condition}", seed, *rest, "gone" if rest[4] == "error" and rest[5] else "", 8, 0.5)
        for condition, seed, *rest in rows
    ]
    return pd.DataFrame(lines, columns=list(REPORTED))


def run(seed: int, run_id: str) -> Run:
    """An MLflow run of experiment 7."""
    return Run(seed, run_id, run_url("7", run_id))


def cells(section: Section) -> dict[str, dict[str, Entry]]:
    """Line -> column -> cell."""
    head = [as_entry(cell).text for cell in section.head]
    return {as_entry(row[0]).text: dict(zip(head, map(as_entry, row), strict=True)) for row in section.rows}


def texts(section: Section) -> dict[str, dict[str, str]]:
    """Line -> column -> what is read in the cell."""
    return {name: {column: cell.read for column, cell in line.items()} for name, line in cells(section).items()}
