"""What Prefect's pages show of a run: its plan, the table of `slca status` while it goes on, the report's main table at the end.

Only where there is a server whose pages somebody may look at. The status is one artifact, written again when it has changed, by a
thread that looks every few seconds.
"""

from __future__ import annotations

import contextvars
import functools
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from prefect.artifacts import create_table_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactUpdate

from slca_core.config import Study
from slca_core.reporting.report import ReportPaths
from tasks.orchestration.progress_artifact import has_pages, never_failing
from tasks.planning.plan import Plan, make_plan
from tasks.planning.status import progress

STATUS_EVERY_S = 10.0
Table = list[dict[str, str]]


def published(flow: Callable[[Study], ReportPaths]) -> Callable[[Study], ReportPaths]:
    """The flow function, with its plan, status and report as artifacts of its flow run."""

    @functools.wraps(flow)
    def run(study: Study) -> ReportPaths:
        if not has_pages():
            return flow(study)
        with never_failing():
            _create("plan", study, plan_table(make_plan(study)), "What this run would do when it began, and why.")
        with _live_status(study):
            paths = flow(study)
        with never_failing():
            _create("report", study, report_table(json.loads(paths.json.read_text())), f"The whole report: {paths.html}")
        return paths

    return run


def plan_table(plan: Plan) -> Table:
    """As `slca plan` prints it."""
    return [
        {
            "step": one.name,
            "state": one.state,
            "why": one.reason,
            "time": one.time,
            "rollouts": f"{one.estimate.rollouts:,}" if one.estimate.rollouts else "",
        }
        for one in plan.steps
    ]


def status_table(plan: Plan) -> Table:
    """As `slca status` prints it."""
    found = [(one.name, progress(plan.study, one)) for one in plan.steps]
    return [{"step": name, "state": one.state, "progress": one.note, "time": one.time} for name, one in found]


def report_table(report: dict[str, Any]) -> Table:
    """The main table of a report's JSON, a row a condition; shares in per cent."""
    rows = []
    for row in report["rows"]:
        means, spreads = report["values"][row["name"]], report["spread"][row["name"]]
        cells = {
            column["title"]: _cell(means[column["key"]], spreads[column["key"]], column["unit"]) for column in report["columns"]
        }
        rows.append({"condition": row["title"], **cells})
    return rows


def _cell(mean: float | None, std: float | None, unit: str) -> str:
    if mean is None:
        return "–"
    scale, digits, sign = (100, 1, " %") if unit == "percent" else (1, 2, "")
    return f"{scale * mean:.{digits}f}" + (f" ± {scale * std:.{digits}f}" if std is not None else "") + sign


@contextmanager
def _live_status(study: Study) -> Iterator[None]:
    ended = threading.Event()
    keep = functools.partial(contextvars.copy_context().run, _keep_status, study, ended)
    thread = threading.Thread(target=keep, name=f"status of {study.name}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _keep_status(study: Study, ended: threading.Event) -> None:
    shown: Table | None = None
    artifact: UUID | None = None
    over = False
    while True:
        with never_failing():
            table = status_table(make_plan(study))
            if artifact is None:
                artifact = _create("status", study, table, _counted(table))
            elif table != shown:
                update = ArtifactUpdate(data=json.dumps(table), description=_counted(table))
                get_client(sync_client=True).update_artifact(artifact, update)
            shown = table
        if over:
            return
        over = ended.wait(STATUS_EVERY_S)


def _counted(table: Table) -> str:
    done = sum(row["state"] in ("done", "shared") for row in table)
    return f"{done} of {len(table)} steps done"


def _create(kind: str, study: Study, table: Table, description: str) -> UUID:
    # Keys have letters, digits and dashes only.
    return create_table_artifact(table, key=re.sub("[._]", "-", f"{kind}-{study.name}"), description=description)
