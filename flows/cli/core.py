"""Commands that need the core alone: `slca replay` and `slca conformance`, no study, no service."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from slca_core.terminal import terminal

if TYPE_CHECKING:
    from slca_core.analysis.conformance import Conformance

console = terminal()
conformance = typer.Typer(
    no_args_is_help=True, help="This implementation against files of golden values; exit code 1 if a case differs."
)

GoldenFile = Annotated[Path, typer.Argument(help="one JSON object a line, as in tests/golden")]


def replay(
    rollouts: Annotated[Path, typer.Argument(help="a training run's folder, or parquet files of rollouts")],
    lambda_tool: float = 1.0,
    lambda_sum: float = 1.0,
) -> None:
    """Every estimator on the same stored rollouts: conflict regime, flipped signs, noise from the summary, group sizes."""
    from slca_core.analysis.replay import read_rollouts
    from slca_core.analysis.replay import replay as replay_rollouts

    found = replay_rollouts(read_rollouts(rollouts), lambda_tool=lambda_tool, lambda_sum=lambda_sum)
    console.print(
        f"{found.rollouts:,} rollouts in {found.groups:,} groups of {found.group_size:.1f}"
        + (f", {found.failed} failed ones left out" if found.failed else "")
        + f"; conflict regime (tool below its mean, summary above): {found.conflict:.1%} of those with both segments",
    )
    table = Table(
        "estimator", "tool tokens\nflipped", "summary tokens\nflipped", "tool advantage's variance\nfrom R_sum", box=box.SIMPLE_HEAD
    )
    for column in table.columns[1:]:
        column.justify = "right"
    for one in found.estimators:
        table.add_row(
            one.name, f"{one.tool_tokens_flipped:.1%}", f"{one.summary_tokens_flipped:.1%}", _percent(one.explained_by_summary)
        )
    console.print(table)
    console.print(
        f"Compared only within one tool outcome, a summary would have {found.partitioned:.2f} of {found.group_size:.1f} rollouts "
        f"left to be compared with, itself included; {found.alone:.0%} would be alone. G / C^K gives {found.predicted:.2f}: "
        f"C = {found.outcomes_per_call:.2f} outcomes a call, K = {found.tool_turns:.2f} tool turns.",
    )


@conformance.command("hierr")
def conformance_hierr(file: GoldenFile) -> None:
    """HierR's parts and total, under both semantics."""
    from slca_core.analysis.conformance import check_hierr

    _print_conformance(file, check_hierr(file))


@conformance.command("advantages")
def conformance_advantages(file: GoldenFile) -> None:
    """Token advantages of every estimator the file expects."""
    from slca_core.analysis.conformance import check_advantages

    _print_conformance(file, check_advantages(file))


def _print_conformance(file: Path, found: Conformance) -> None:
    table = Table("field", "largest error", box=box.SIMPLE_HEAD)
    for field, error in found.largest.items():
        table.add_row(field, f"{error:.1e}")
    console.print(f"{file}: {found.cases} cases", soft_wrap=True)
    console.print(table)
    differing = ", ".join(found.differing) or "none"
    console.print(f"{len(found.differing)} of {found.cases} cases differ by more than 1e-6: {differing}", soft_wrap=True)
    if found.differing:
        raise SystemExit(1)


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.1%}"
