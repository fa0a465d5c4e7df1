"""What `slca run` ends with in the terminal: a report's main figures, with all that must be said beside them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich import box
from rich.table import Table

from slca_core.reporting import overview
from slca_core.reporting.paper import Benchmark
from slca_core.reporting.tau2 import DO_NOTHING
from slca_core.terminal import terminal

console = terminal()
# The columns that tell the story in a terminal; the report has them all.
_SHOWN = ("success_process", "process", "process@T=1", "exact", "format_valid", "no_call")
# The benchmarks beside Toucan-Test.
_OTHERS: dict[Benchmark, str] = {"bfcl_v3": "BFCL V3", "tau2": "tau2-bench, Pass^1"}


def show(report: dict[str, Any]) -> None:
    """The main table, a row a condition, in per cent, the paper's figure beside ours; then the other benchmarks.

    Args:
        report: a report's JSON.
    """
    columns = [column for column in report["columns"] if column["key"] in _SHOWN]
    titles = [column["title"].removesuffix(" (process)").replace("Process, ", "") for column in columns]
    table = Table("%", *titles, report["paper"]["title"], box=box.SIMPLE_HEAD)
    table.columns[0].no_wrap = True
    for row in report["rows"]:
        values, spread = report["values"][row["name"]], report["spread"][row["name"]]
        cells = [_percent(values[column["key"]], spread[column["key"]]) for column in columns]
        table.add_row(_title(row), *cells, _published(report["paper"]["values"][row["name"]]))
    console.print(table)
    show_others(report)
    _print_lines([*report["caveats"], *report["notes"], *report["smallest_effects"]])


def show_others(report: dict[str, Any]) -> None:
    """The other benchmarks that some condition has a figure on, the floor of tau2-bench, and what concerns these figures."""
    found, rows = overview.from_json(report["overview"]), report["rows"]
    conditions = [row["name"] for row in rows]
    run = [name for name in _OTHERS if any(found.of(condition, name) for condition in conditions)]
    if not run:
        return
    if "tau2" in run and DO_NOTHING.name in found.values:
        rows = [*rows, {"name": DO_NOTHING.name, "title": DO_NOTHING.title, "shares_run_of": None}]
    table = Table("%", *(title for name in run for title in (_OTHERS[name], "Paper")), box=box.SIMPLE_HEAD)
    for row in rows:
        figures = [report["overview"]["values"][row["name"]][name] for name in run]
        cells = [text for one in figures for text in (_percent(one["mean"], one["std"]), _published(one["paper"]))]
        table.add_row(_title(row), *cells)
    console.print(table)
    _print_lines(dict.fromkeys(remark for name in run for remark in found.remarks(name, *conditions)))


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        console.print(f"  {line}", style="dim")


def _title(row: dict[str, Any]) -> str:
    return row["title"] + (f" (= {row['shares_run_of']}'s run)" if row["shares_run_of"] else "")


def _published(figure: dict[str, Any] | None) -> str:
    return f"{'~' if figure['derived'] else ''}{figure['mean']:.1f}" if figure else "–"


def _percent(mean: float | None, std: float | None) -> str:
    if mean is None:
        return "–"
    return f"{100 * mean:.1f}" + (f" ± {100 * std:.1f}" if std is not None else "")
