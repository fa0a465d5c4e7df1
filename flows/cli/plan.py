"""`slca plan`: what a study would run and why, as a table, a picture and commands; `slca status`: where it stands."""

from __future__ import annotations

import time

from rich import box
from rich.live import Live
from rich.table import Table
from rich.text import Text

from flows.cli.costs import cost_lines
from slca_core.config import Study
from slca_core.reporting.dag import Node, draw_dag
from slca_core.reporting.report import duration
from slca_core.terminal import headed, terminal
from tasks.curate import data_line
from tasks.matching import planned as planned_certificate
from tasks.orchestration.workspace import Workspace
from tasks.planning.commands import commands
from tasks.planning.plan import Plan, PlannedStep, explain, make_plan
from tasks.planning.status import progress
from tasks.services import addresses, missing_keys

WATCH_S = 2.0
_COLOURS = {"done": "green", "shared": "dim", "running": "cyan", "stopped": "magenta", "waiting": "yellow"}

console = terminal()


def show(study: Study, *, step: str | None, with_commands: bool) -> None:
    """Prints the plan, or one step's identity; ConfigError if the arms are not matched."""
    plan = make_plan(study)
    if step:
        for key, value in explain(plan, step).items():
            console.print(f"{key} = {value}", soft_wrap=True)
        return
    data = data_line(study)
    console.print(_table(plan))
    console.print(f"data     {data}", soft_wrap=True)
    for line in cost_lines(plan):
        console.print(line, soft_wrap=True)
    for line in (*addresses(study), *(f"missing  {lacking}" for lacking in missing_keys(study))):
        console.print(line, soft_wrap=True)
    certificate = planned_certificate(study)
    if certificate.matched:
        console.print(f"arms     matched: they differ in what they declare only, {len(certificate.same)} settings are alike")
    for mismatch in certificate.mismatches:
        console.print(headed("arms     not matched", f"  {mismatch.sentence()}", "red"))
    console.print(f"picture  {_picture(plan)}", soft_wrap=True)
    if with_commands:
        for title, lines in commands(study):
            console.print(headed(f"\n# {title}", ""), soft_wrap=True)
            console.print("\n".join(lines), soft_wrap=True)


def _picture(plan: Plan) -> str:
    """Where it is, or why there is none: a plan may be read where nothing can be written."""
    try:
        return str(draw_dag([_node(one) for one in plan.steps], Workspace(plan.study).reports / "plan.svg"))
    except OSError as error:
        return f"none, since it cannot be written: {error}"


def _table(plan: Plan) -> Table:
    table = Table("step", "", "why", "time", "rollouts", box=box.SIMPLE_HEAD)
    table.columns[0].no_wrap = True
    table.columns[2].overflow = "fold"
    table.columns[3].justify = table.columns[4].justify = "right"
    colours = {"cached": "green", "shared": "dim", "to run": "yellow"}
    for one in plan.steps:
        rollouts = f"{one.estimate.rollouts:,}" if one.estimate.rollouts else ""
        table.add_row(one.name, Text(one.state, colours[one.state]), one.reason, one.time, rollouts)
    return table


def _node(one: PlannedStep) -> Node:
    note = one.reason if one.state == "shared" else one.time
    return Node(one.name, one.after, one.state, note)


def show_status(study: Study, *, watch: bool) -> None:
    """Prints where the study stands; with `watch`, again and again until nothing is left to run."""
    if not watch:
        console.print(_status_table(make_plan(study)))
        return
    with Live(console=console, auto_refresh=False) as live:
        while True:
            plan = make_plan(study)
            live.update(_status_table(plan), refresh=True)
            if not plan.to_run:
                return
            time.sleep(WATCH_S)


def _status_table(plan: Plan) -> Table:
    table = Table("step", "", "progress", "time", box=box.SIMPLE_HEAD)
    table.columns[3].justify = "right"
    for one in plan.steps:
        found = progress(plan.study, one)
        table.add_row(one.name, Text(found.state, _COLOURS[found.state]), found.note, found.time)
    done = sum(one.state != "to run" for one in plan.steps)
    left = "" if plan.seconds is None else f", about {duration(plan.seconds)} if nothing had begun"
    table.caption = f"{done} of {len(plan.steps)} steps done" + (left if plan.to_run else "")
    return table
