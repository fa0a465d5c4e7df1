"""Who hears that a run completed, failed or crashed: the address or the command that the study names under `notify`.

Prefect calls these hooks, a worker does so even for a run whose process was killed. Only the outermost flow run is told of, and a
hook that fails costs a sentence, never the run. The sentence has the kind of the fault alone: an exception repeats the address, or
the command, in a form of its own.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import httpx
from prefect import Flow
from prefect.client.schemas.objects import FlowRun, State
from prefect.context import FlowRunContext

from slca_core.config import Study, load_study
from slca_core.errors import ConfigError
from tasks.orchestration.progress import say
from tasks.report import report_paths
from tasks.secrets import resolved

_TIMEOUT_S = 30.0


def tell(flow: Flow, flow_run: FlowRun, state: State) -> None:
    """Sends study, flow run, state, message and report (its path, if the run completed) to whom the study names."""
    if flow_run.parent_task_run_id is not None:
        return
    try:
        study = _study_of(flow, flow_run)
    except (ConfigError, ValueError):
        # It is what the run failed of, and names nobody.
        return
    report = report_paths(study).html
    news = {
        "study": study.name,
        "flow_run": flow_run.name,
        "state": state.type.value.lower(),
        "message": state.message or "",
        "report": str(report) if state.is_completed() else None,
    }
    _deliver(study, news, f"it {news['state']}")


def tell_of_failure(study: Study, step: str, message: str) -> None:
    """Send that one step has failed, while others may go on for hours: study, flow run, state `step failed`, step and message."""
    context = FlowRunContext.get()
    run = context.flow_run.name if context and context.flow_run else ""
    news = {"study": study.name, "flow_run": run, "state": "step failed", "step": step, "message": message, "report": None}
    _deliver(study, news, f"{step} failed")


HOOKS = {"on_completion": [tell], "on_failure": [tell], "on_crashed": [tell]}


def _deliver(study: Study, news: dict[str, Any], event: str) -> None:
    try:
        url, command = resolved(study.notify)
        _send(url, command, json.dumps(news))
    except Exception as error:  # Whatever it is, it is no fault of the run's.
        say(f"Who is to hear of {study.name} (notify) was not told that {event}: {_kind(error)}")


def _kind(error: Exception) -> str:
    """What became of a message, in words that have nothing of the address and the command."""
    match error:
        case ConfigError():  # Our own sentence, on what a reference leads to.
            return " ".join(str(error).split())
        case httpx.HTTPStatusError():
            return f"HTTP {error.response.status_code}"
        case httpx.TimeoutException() | subprocess.TimeoutExpired():
            return f"timed out after {_TIMEOUT_S:.0f} s"
        case httpx.HTTPError():
            return f"no answer: {type(error).__name__}"
        case subprocess.CalledProcessError() if error.returncode < 0:
            return f"ended by signal {-error.returncode}"
        case subprocess.CalledProcessError():
            return f"exit code {error.returncode}"
        case FileNotFoundError():
            return "no such program"
        case _:
            return f"it could not be sent: {type(error).__name__}"


def _study_of(flow: Flow, flow_run: FlowRun) -> Study:
    """The study of a run, which has it as a value or as a file with overrides."""
    defaults = {name: values.get("default") for name, values in flow.parameters.properties.items()}
    given: dict[str, Any] = defaults | flow_run.parameters
    if "study" in given:
        return Study.model_validate(given["study"])
    return load_study(Path(given["study_file"]), tuple(given["overrides"] or ()))


def _send(url: str | None, command: tuple[str, ...], news: str) -> None:
    if url:
        headers = {"Content-Type": "application/json"}
        httpx.post(url, content=news, headers=headers, timeout=_TIMEOUT_S).raise_for_status()
    if command:
        subprocess.run(command, input=news, text=True, capture_output=True, timeout=_TIMEOUT_S, check=True)
