"""MLflow: an experiment a study, a parent run, a child run for each condition and seed.

Runs are found again by their tags, so that a resumed or cached study goes on in the runs it has; each (metric, step) is logged
once, and a finished run is left as it is, unless somebody took its artifacts away: they are logged again.
"""

from __future__ import annotations

import functools
import json
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import mlflow
import pandas as pd
import psutil
from mlflow import MlflowClient
from mlflow.entities import LifecycleStage, Metric, Param, Run
from mlflow.exceptions import MlflowException
from mlflow.tracking.context.registry import resolve_tags

from slca_core.config import Study
from slca_core.errors import SlcaError
from slca_core.records.fingerprint import digest, file_digest
from slca_core.records.json_lines import read_lines
from slca_core.records.store import RECORD, Adoption, Record, Step
from slca_core.services.usage import ROLES
from tasks.mlflow_store import artifacts_of, open_store, store_lock, store_path, store_uri
from tasks.orchestration.progress import say
from tasks.orchestration.workspace import Workspace

PARENT, IDENTITY, PROCESS = "slca.study_digest", "slca.identity", "slca.process"
_STUDY, _LOGGED = "study.json", "slca.artifacts"
_RECORD_ALONE = json.dumps([RECORD])  # What runs of earlier versions have for certain.
_CUT_OFF_S = 10.0  # How long an end may take from the first step that it stops.
_T = TypeVar("_T")
# What the identity of no step knows: how long is waited, how much goes on at once, where it runs, what is done about failures.
_BEARS_ON_NOTHING: Mapping[str, Any] = {
    **dict.fromkeys(("root", "notify", "assumptions", "on_failure", "description"), True),
    "machine": {"launcher", "parallel", "threads", "kv_cache_gib"},
    "data": {"quarantine_limit"},
    "rl": {"checkpoint_every"},
    "evaluation": {
        "toucan_test": {"concurrency"},
        "bfcl": {"concurrency"},
        "tau2": {"concurrency", "python", "data_dir", "timeout_s"},
    },
}
_OF_A_SERVICE = {
    *("url", "api_key", "api_key_env", "timeout_s", "retries", "retry_delay_s", "outage_s"),
    *("concurrency", "breaker_calls", "breaker_probe_s"),
}
_BATCH, _PARAMS = 900, 100  # MLflow takes at most 1,000 metrics and 100 parameters a request.


class Tracking:
    """The experiment and parent run of one study."""

    def __init__(self, study: Study) -> None:
        self.study, self.root = study, Workspace(study).root
        self.root.mkdir(parents=True, exist_ok=True)
        mlflow.set_tracking_uri(store_uri(self.root))
        with store_lock(self.root):
            open_store(self.root)
            self.client = MlflowClient(tracking_uri=store_uri(self.root))
            self.experiment_id = self._experiment()

    @cached_property
    def parent(self) -> Run:
        """The run that the study's own are children of."""
        with store_lock(self.root):
            return self._parent()

    def _experiment(self) -> str:
        name = self.study.name
        found = self.client.get_experiment_by_name(name)
        if not found:
            return self.client.create_experiment(name, artifact_location=artifacts_of(self.root, name))
        if found.lifecycle_stage == LifecycleStage.DELETED:
            say(f"The experiment {name} was deleted in MLflow's pages, where its name stays taken; it is restored with its runs.")
            self.client.restore_experiment(found.experiment_id)
        return found.experiment_id

    def _values(self) -> dict[str, Any]:
        """What of the study makes its run another one."""
        services = dict.fromkeys(ROLES, _OF_A_SERVICE)
        return self.study.model_dump(mode="json", exclude={**_BEARS_ON_NOTHING, "services": services})

    def _parent(self) -> Run:
        values = self._values()
        tag = digest(values)
        run = self._find({PARENT: tag}) or self._create(
            f"reproduce {self.study.name}", {PARENT: tag, "slca.study": self.study.name}
        )
        if _STUDY not in _artifacts(self.client, run.info.run_id):
            self.client.log_dict(run.info.run_id, values, _STUDY)
        return run

    def _find(self, tags: dict[str, str]) -> Run | None:
        wanted = " and ".join(f"tags.`{key}` = '{value}'" for key, value in tags.items())
        found = self.client.search_runs([self.experiment_id], wanted, max_results=1)
        return found[0] if found else None

    def _create(self, name: str, tags: dict[str, str]) -> Run:
        return self.client.create_run(self.experiment_id, run_name=name, tags=resolve_tags(tags))

    @contextmanager
    def child(self, step: Step, *, condition: str, seed: int, of_study: bool = True) -> Iterator[ChildRun]:
        """The run of one step, under this study's or beside it; a step that fails leaves it marked FAILED."""
        key = {IDENTITY: step.identity, "slca.condition": condition}
        if of_study:
            key["mlflow.parentRunId"] = self.parent.info.run_id
            if self.parent.info.status != "RUNNING":
                self.client.update_run(self.parent.info.run_id, status="RUNNING")
        with store_lock(self.root):
            run = self._find(key) or self._create(
                f"{condition} seed {seed}", key | {"slca.seed": str(seed), "slca.step": step.step}
            )
        child = ChildRun(self.client, run, self.root)
        if child.finished:
            yield child
            return
        # A step that another process makes is waited for, and its run stays that process's.
        if not _is_under_way_elsewhere(run):
            self.client.set_tag(child.run_id, PROCESS, _this_process())
            self.client.update_run(child.run_id, status="RUNNING")
        try:
            yield child
        except BaseException as error:
            if not _is_under_way_elsewhere(self.client.get_run(child.run_id)):
                self.client.set_terminated(child.run_id, _status_after(error))
            raise
        self.client.set_tag(child.run_id, _LOGGED, json.dumps(sorted(_artifacts(self.client, child.run_id))))
        self.client.set_terminated(child.run_id, "FINISHED")

    def break_off(self, status: str) -> None:
        """This run of the study ended in `status`, and with it what was under way; another that goes on keeps what it began.

        A step that a kill cut off had no time to say so.
        """
        parent = self._find({PARENT: digest(self._values())})
        if parent is None:
            return
        since = int(1000 * (time.time() - _CUT_OFF_S))
        under_way = self._children(parent, "attributes.status = 'RUNNING'")
        others = [run for run in under_way if _is_at_work_elsewhere(run)]
        cut_off = self._children(parent, f"attributes.status = 'FAILED' and attributes.end_time > {since}")
        for run in [*under_way, *(cut_off if status == "KILLED" else [])]:
            if not _is_at_work_elsewhere(run):
                self.client.set_terminated(run.info.run_id, status)
        if not others:
            self.client.set_terminated(parent.info.run_id, status)

    def _children(self, parent: Run, which: str) -> Sequence[Run]:
        wanted = f"tags.`mlflow.parentRunId` = '{parent.info.run_id}' and {which}"
        return self.client.search_runs([self.experiment_id], wanted)

    def find_child(self, identity: str, condition: str) -> str | None:
        """The id of a step's run under this study."""
        run = self._find({IDENTITY: identity, "slca.condition": condition, "mlflow.parentRunId": self.parent.info.run_id})
        return run.info.run_id if run else None

    def adopt(self, record: Record, adoption: Adoption) -> None:
        """Runs of a record follow it to its new identity, in whatever study they are."""
        experiments = [experiment.experiment_id for experiment in self.client.search_experiments()]
        with store_lock(self.root):
            for run in self.client.search_runs(experiments, f"tags.`{IDENTITY}` = '{adoption.identity}'"):
                told = {IDENTITY: record.identity, "slca.adopted": adoption.reason, "slca.record": _below(self.root, record.folder)}
                for key, value in told.items():
                    self.client.set_tag(run.info.run_id, key, value)
                self.client.log_dict(run.info.run_id, record.to_json(), RECORD)

    def finish_parent(self, report: Path, table: pd.DataFrame, tags: Mapping[str, str]) -> None:
        """The report's files and main table on the parent run, and what to find it by."""
        run_id = self.parent.info.run_id
        with store_lock(self.root):
            self.client.log_artifacts(run_id, str(report), "report")
            _log_table_once(self.client, run_id, table, "main_table.json")
            for key, value in tags.items():
                self.client.set_tag(run_id, key, value)
            self.client.set_terminated(run_id, "FINISHED")


def tracked(flow: Callable[[Study], _T]) -> Callable[[Study], _T]:
    """The flow function; where it breaks off, so does the study's run in MLflow: FAILED, or KILLED if someone ended it."""

    @functools.wraps(flow)
    def run(study: Study) -> _T:
        try:
            return flow(study)
        except BaseException as error:
            if store_path(Workspace(study).root).is_file():
                with _not_instead_of(error):
                    Tracking(study).break_off(_status_after(error))
            raise

    return run


@contextmanager
def _not_instead_of(error: BaseException) -> Iterator[None]:
    """What fails in the block is said; why the run ended is worth more."""
    try:
        yield
    except (MlflowException, SlcaError, OSError) as also:
        say(f"MLflow was not told that the run ended ({type(error).__name__}): {also}")


def _this_process() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def _is_at_work_elsewhere(run: Run) -> bool:
    """Whether the process that began the run is another one, and not known to be gone; of one on another host nothing is known."""
    began = run.data.tags.get(PROCESS, "")
    host, _, number = began.rpartition(":")
    if not number.isdecimal() or began == _this_process():
        return False
    return host != socket.gethostname() or psutil.pid_exists(int(number))


def _is_under_way_elsewhere(run: Run) -> bool:
    return run.info.status == "RUNNING" and _is_at_work_elsewhere(run)


def _status_after(error: BaseException) -> str:
    return "FAILED" if isinstance(error, Exception) else "KILLED"


class ChildRun:
    """One condition and seed."""

    def __init__(self, client: MlflowClient, run: Run, root: Path) -> None:
        self.client, self.run_id, self._root = client, run.info.run_id, root
        self.finished = run.info.status == "FINISHED"
        if self.finished and (lost := set(json.loads(run.data.tags.get(_LOGGED, _RECORD_ALONE))) - _artifacts(client, self.run_id)):
            say(f"MLflow's artifacts of {run.info.run_name} are gone ({', '.join(sorted(lost))}); they are logged again.")
            self.finished = False
        self._last_step: int | None = None

    def follow(self, lines: Sequence[dict[str, float]], step_key: str = "update") -> None:
        """Logs the lines of a metrics file that MLflow does not have yet."""
        if not lines or self.finished:
            return
        if self._last_step is None:
            any_metric = next(key for key in lines[-1] if key != step_key)
            history = self.client.get_metric_history(self.run_id, any_metric)
            self._last_step = max((metric.step for metric in history), default=-1)
        fresh = [line for line in lines if line[step_key] > self._last_step]
        now = int(time.time() * 1000)
        metrics = [
            Metric(key, float(value), now, int(line[step_key])) for line in fresh for key, value in line.items() if key != step_key
        ]
        for start in range(0, len(metrics), _BATCH):
            self.client.log_batch(self.run_id, metrics=metrics[start : start + _BATCH])
        if fresh:
            self._last_step = int(fresh[-1][step_key])

    def log_curve(self, path: Path, step_key: str) -> None:
        """Logs a JSON-lines file of one curve."""
        self.follow(read_lines(path, needs=(step_key,)), step_key)

    def finish(self, record: Record, datasets: Sequence[tuple[str, Path]] = ()) -> None:
        """Resolved configuration as parameters, the datasets by digest, the record as an artifact."""
        if self.finished:
            return
        # As the record's file has them: the run may have been begun with the record just made, and be finished with the one read.
        stored = record.to_json()
        settings = flatten({"config": stored["config"], "inputs": stored["inputs"]})
        params = [Param(key, str(value)[:500]) for key, value in settings.items()]
        inputs = [_dataset(context, path, self._root) for context, path in datasets]
        with store_lock(self._root):
            for start in range(0, len(params), _PARAMS):
                self.client.log_batch(self.run_id, params=params[start : start + _PARAMS])
            self.client.log_dict(self.run_id, stored, RECORD)
            self.client.set_tag(self.run_id, "slca.record", _below(self._root, record.folder))
            if inputs:
                self.client.log_inputs(self.run_id, inputs)

    def log_items(self, items: pd.DataFrame, name: str) -> None:
        """A per-item table and the mean of each of its metrics."""
        if self.finished:
            return
        means = items.groupby(["sampling", "metric"])["value"].mean()
        with store_lock(self._root):
            _log_table_once(self.client, self.run_id, items, f"{name}.json")
        self.log_values({f"{name}/{metric}/{sampling}": value for (sampling, metric), value in means.items()})

    def log_values(self, values: Mapping[str, float]) -> None:
        """Metrics without a course in time, each once."""
        if self.finished:
            return
        now = int(time.time() * 1000)
        with store_lock(self._root):
            known = self.client.get_run(self.run_id).data.metrics
            metrics = [Metric(key, float(value), now, 0) for key, value in values.items() if key not in known]
            self.client.log_batch(self.run_id, metrics=metrics)


def _artifacts(client: MlflowClient, run_id: str) -> set[str]:
    return {item.path for item in client.list_artifacts(run_id)}


def _log_table_once(client: MlflowClient, run_id: str, table: pd.DataFrame, file: str) -> None:
    """MLflow appends to a table it has already."""
    if file not in _artifacts(client, run_id):
        client.log_table(run_id, table, file)


def _below(root: Path, path: Path) -> str:
    """A path as it stays true when the root is moved."""
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


def _dataset(context: str, path: Path, root: Path):
    from mlflow.entities import DatasetInput, InputTag

    frame = pd.read_parquet(path)
    with warnings.catch_warnings():
        # MLflow knows its source of local files twice, and warns that a path may be either; and of integer columns, which lack
        # nothing here.
        warnings.simplefilter("ignore", UserWarning)
        dataset = mlflow.data.from_pandas(frame, source=_below(root, path), name=path.stem, digest=file_digest(path)[:32])
        entity = dataset._to_mlflow_entity()
    return DatasetInput(entity, [InputTag("mlflow.data.context", context)])


def flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        flat |= flatten(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return flat
