"""The main table as Markdown, as plain values for JSON, and cell by cell as text; only here do shares become per cent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from slca_core.reporting.comparison import Cell, PairedDifference
from slca_core.reporting.paper import Published
from slca_core.reporting.tables import Column, MainTable, Row

NOTHING = "–"


def format_cell(column: Column, cell: Cell | None) -> tuple[str, str]:
    """A cell's mean and its spread as text; the spread is empty for one seed."""
    if cell is None:
        return NOTHING, ""
    scale, digits = (100, 1) if column.unit == "percent" else (1, 2)
    return f"{cell.mean * scale:.{digits}f}", "" if cell.std is None else f"± {cell.std * scale:.{digits}f}"


def format_errors(row: Row) -> str:
    """How many of a row's rollouts met an infrastructure error."""
    return f"{row.n_errors} of {row.n_rollouts}" if row.n_rollouts else NOTHING


def format_paper(figure: Published | None) -> tuple[str, str]:
    """A published figure and its spread as text."""
    if figure is None:
        return NOTHING, ""
    return f"{figure.mean:.2f}", "" if figure.std is None else f"± {figure.std:.2f}"


def format_difference(difference: PairedDifference | None) -> tuple[str, str]:
    """A difference of shares in percentage points; its 95 % interval and corrected p."""
    if difference is None:
        return NOTHING, ""
    low, high = difference.interval
    p = "" if difference.p_holm is None else f", p {format_p(difference.p_holm)}"
    return f"{100 * difference.mean:+.1f}", f"[{100 * low:+.1f}, {100 * high:+.1f}]{p}"


def format_p(p: float) -> str:
    """Two digits that count; never 0."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def format_items(row: Row) -> str:
    """How many items the differences are over: one number, or one a column where they differ."""
    return " / ".join(dict.fromkeys(str(difference.n_items) for difference in row.differences if difference)) or NOTHING


def heading(column: Column) -> str:
    """A column's title with its unit."""
    return f"{column.title}, %" if column.unit == "percent" else column.title


def to_markdown(table: MainTable) -> str:
    """The table, the differences to the baseline, and the notes, as Markdown."""
    success, *others = (heading(column) for column in table.columns)
    head = ["Condition", success, table.paper_title, *others, "Errors", "Run", "Labels"]
    body = [
        [
            marked_title(row, table),
            *_cells_with_paper(row, table),
            format_errors(row),
            f"`{row.run_id}`" if row.run_id else NOTHING,
            ", ".join(row.condition.labels) or NOTHING,
        ]
        for row in table.rows
    ]
    baseline = table.title_of(table.baseline)
    difference_head = [f"Difference to {baseline}", *(f"{column.title}, points" for column in table.difference_columns), "Items"]
    difference_body = [
        [
            marked_title(row, table),
            *(" ".join(format_difference(difference)).strip() for difference in row.differences),
            format_items(row),
        ]
        for row in table.compared
    ]
    parts = [markdown_table(head, body)]
    if difference_body:
        parts.append(markdown_table(difference_head, difference_body))
    parts.append("\n".join(f"- {note}" for note in table.notes))
    return without_html("\n\n".join(parts)) + "\n"


def _cells_with_paper(row: Row, table: MainTable) -> list[str]:
    """The paper's figure stands beside ours of the same metric, which is the first."""
    success, *others = (format_cell(column, cell) for column, cell in zip(table.columns, row.cells, strict=True))
    return [" ".join(pair).strip() for pair in (success, format_paper(row.paper), *others)]


def markdown_table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A Markdown table: first column to the left, the others to the right; pipes and line breaks in cells are escaped."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    lines = [[" ".join(cell.replace("|", "\\|").split()) for cell in line] for line in (head, rule, *body)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def without_html(markdown: str) -> str:
    """Markdown in which no text can open an HTML tag."""
    return markdown.replace("<", "&lt;")


def marked_title(row: Row, table: MainTable) -> str:
    """A row's title, with whose run it shares."""
    shared = row.condition.shares_run_of
    return f"{row.condition.title} (shares the run of {table.title_of(shared)})" if shared else row.condition.title


def to_json(table: MainTable) -> dict[str, Any]:
    """The table as plain values: `values`, `spread` and `counts` by condition and column.

    Shares are 0 to 1; the paper's figures are per cent.
    """
    keys = [column.key for column in table.columns]
    cells = {row.condition.name: dict(zip(keys, row.cells, strict=True)) for row in table.rows}

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
        "run_ids": {row.condition.name: row.run_id for row in table.rows},
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
        "notes": list(table.notes),
    }


def difference_to_json(difference: PairedDifference) -> dict[str, Any]:
    """A difference as plain values; an infinite z, which JSON has no word for, is None."""
    return {
        **asdict(difference),
        "z": difference.z if math.isfinite(difference.z) else None,
        "interval": list(difference.interval),
    }
