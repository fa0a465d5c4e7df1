"""What a study would run, before it costs anything: each step cached or to run, why, and at what cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heapreplace
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from slca_core.config import Arm, Study
from slca_core.errors import ConfigError
from slca_core.records.store import NOT_THERE, Record, Step, Store
from slca_core.reporting.report import duration
from slca_core.services.frozen import STANDIN_CODE_KEY
from slca_core.services.usage import ROLES
from tasks.curate import curation_step
from tasks.evaluate import evaluation_step
from tasks.finetune import finetune_step, policy_step
from tasks.floor import floor_step
from tasks.orchestration.workspace import Workspace
from tasks.planning.estimates import NOTHING, Estimate, Estimator
from tasks.report import SFT, SFT_FULL
from tasks.services import require_keys
from tasks.tracking import flatten
from tasks.train import training_step

State = Literal["cached", "to run", "shared"]
NOT_MADE = "(not made yet)"


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step of the study.

    Attributes:
        after: names of the steps it needs.
        record: what it left, if it is done; that of its owner if shared.
        reason: why it runs, or whose run it is.
        estimate: what it would cost; nothing if it is done.
    """

    name: str
    step: Step
    after: tuple[str, ...]
    state: State
    reason: str
    estimate: Estimate
    record: Record | None = None

    @property
    def time(self) -> str:
        """What is expected, for people."""
        if self.state != "to run":
            return ""
        if self.estimate.seconds is None:
            return "?"
        return duration(self.estimate.seconds) + (" (assumed)" if self.estimate.timed == "assumed" else "")


@dataclass(frozen=True, slots=True)
class Differing:
    """A value in which a step differs from a record.

    Attributes:
        words: both values.
        in_both: whether both have it.
        of_code: whether it is the digest of a stand-in's code, and so no setting.
    """

    words: str
    in_both: bool
    of_code: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps in the order in which they would run."""

    study: Study
    steps: tuple[PlannedStep, ...]

    @property
    def to_run(self) -> tuple[PlannedStep, ...]:
        return tuple(step for step in self.steps if step.state == "to run")

    @property
    def seconds(self) -> float | None:
        """Stage after stage, the steps of one side by side; None if a step has no estimate."""
        return None if any(step.estimate.seconds is None for step in self.to_run) else self.known_seconds

    @property
    def known_seconds(self) -> float:
        """Likewise, without the steps that have no estimate."""
        return sum(
            _side_by_side([one.estimate.seconds or 0.0 for one in steps], self.study.machine.parallel)
            for _, steps in groupby(self.to_run, key=lambda one: one.step.step)
        )


def _side_by_side(seconds: Iterable[float], lanes: int) -> float:
    """When the last of the steps ends, each taken up by the lane that is free first."""
    free = [0.0] * lanes
    for one in seconds:
        heapreplace(free, free[0] + one)
    return max(free)


def make_plan(study: Study) -> Plan:
    """Looks every step up; runs nothing and writes nothing."""
    return Plan(study, tuple(_Planner(study).steps()))


class _Planner:
    def __init__(self, study: Study) -> None:
        self.study = study
        self.store: Store = Workspace(study).store
        self.seen: dict[str, str] = {}
        self.finished: dict[str, list[Record]] = {}
        self.data: Record | None = None
        self.estimator = Estimator(study, self._finished)

    def steps(self) -> Iterator[PlannedStep]:
        study = self.study
        curated = self._planned("curate", curation_step(study, planned=True), ())
        yield curated
        data = self.data = record_of(curated)
        prepared = self._planned("policy", policy_step(study, data, planned=True), ("curate",) if study.policy.scratch else ())
        yield prepared
        policy = record_of(prepared)
        checkpoints: list[tuple[str, int, Record, str]] = []
        for name, splits, epochs in ((SFT, ("sft",), study.sft.epochs), (SFT_FULL, study.data.full_sft, study.sft.full_epochs)):
            step = finetune_step(study, data, policy, name, splits, epochs)
            tuned = self._planned(f"finetune {name}", step, ("curate", "policy"))
            yield tuned
            checkpoints.append((name, study.sft.seed, record_of(tuned), tuned.name))
        sft = checkpoints[0][2]
        for arm in study.arms:
            for seed in study.seeds:
                step = training_step(study, arm, seed, data, sft)
                trained = self._planned(f"train {arm.name}, seed {seed}", step, (f"finetune {SFT}",), arm)
                yield trained
                checkpoints.append((arm.name, seed, record_of(trained), trained.name))
        if study.evaluation.tau2:
            yield self._planned("floor of tau2", floor_step(study), ())
        for condition, seed, checkpoint, made_by in checkpoints:
            summariser, also = (sft, (f"finetune {SFT}",)) if condition in study.planners else (None, ())
            step = evaluation_step(study, condition, seed, data, checkpoint, summariser)
            yield self._planned(f"evaluate {condition}, seed {seed}", step, (made_by, *also))

    def _planned(self, name: str, step: Step, after: tuple[str, ...], arm: Arm | None = None) -> PlannedStep:
        owner = self.seen.setdefault(f"{step.step}/{step.identity}", name)
        found = self.store.find(step)
        if owner != name:
            return PlannedStep(name, step, after, "shared", f"is {owner}", NOTHING, found)
        if found:
            return PlannedStep(name, step, after, "cached", "", NOTHING, found)
        return PlannedStep(name, step, after, "to run", self._reason(step), self.estimator.estimate(step, self.data, arm))

    def _reason(self, step: Step) -> str:
        """The fields in which the nearest record differs."""
        if self.store.folder(step).is_dir():
            return "begun, goes on where it stopped"
        if absent := [f"{key} {value}" for key, value in step.inputs.items() if value.startswith(NOT_THERE)]:
            return "waits for " + ", ".join(absent)
        if unmade := sorted(key for key, value in step.inputs.items() if value.startswith(NOT_MADE)):
            return "waits for " + ", ".join(unmade)
        differences = [difference(step, record) for record in self._finished(step.step)]
        if not differences:
            return "never made"
        return "; ".join(min(differences, key=len))

    def _finished(self, kind: str) -> list[Record]:
        """The store's records of a kind, read once a plan."""
        if kind not in self.finished:
            self.finished[kind] = self.store.readable(kind)
        return self.finished[kind]


def require_ready(study: Study) -> None:
    """ConfigError if a key is missing that a step will need which is still to run: now, and not after days of training."""
    waiting = make_plan(study).to_run
    roles = [role for one in waiting for role in one.step.config.get("services", {}) if role in ROLES]
    require_keys(study.services, roles)


def record_of(planned: PlannedStep) -> Record:
    """The step's record, or one that stands for it until it is made."""
    if planned.record:
        return planned.record
    step = planned.step
    waiting = f"{NOT_MADE} {step.identity[:12]}"
    files = {f"{split}.parquet": waiting for split in ("sft", "rl", "test")}
    return Record(
        step=step.step,
        name=step.name,
        identity=step.identity,
        output_digest=waiting,
        folder=Path(),
        config={},
        inputs={},
        facts={"files": files},
        seconds=0.0,
        versions={},
        commit="",
        argv=(),
    )


def difference(step: Step, record: Record) -> list[str]:
    """Each field in which a step differs from a record, with both values; modules whose code changed; packages."""
    lines = [one.words for one in values_that_differ(step, record)]
    changed = [module for module, found in step.code_digests().items() if record.code.get(module) != found]
    if changed:
        lines.append(f"code of {', '.join(changed)}")
    if record.lock:
        return [*lines, "recorded with the digest of a whole lock"]
    packages = sorted(step.packages.keys() | record.packages.keys())
    lines += [
        f"{name} {record.packages.get(name)} -> {step.packages.get(name)}"
        for name in packages
        if record.packages.get(name) != step.packages.get(name)
    ]
    return lines


def values_that_differ(step: Step, record: Record) -> list[Differing]:
    """Settings and inputs in which a step differs from a record."""
    mine = flatten({"config": step.config, "inputs": step.inputs})
    theirs = flatten({"config": record.config, "inputs": record.inputs})
    return [
        Differing(
            words=f"{key.removeprefix('config.')} {_short(theirs.get(key))} -> {_short(mine.get(key))}",
            in_both=key in mine and key in theirs,
            of_code=key.endswith(f".{STANDIN_CODE_KEY}"),
        )
        for key in sorted(mine.keys() | theirs.keys())
        if _short(mine.get(key)) != _short(theirs.get(key))
    ]


def _short(value: Any) -> str:
    text = str(list(value) if isinstance(value, tuple) else value)
    return text[:12] if len(text) == 64 else text


def explain(plan: Plan, name: str) -> Mapping[str, Any]:
    """Everything that bears on one step's identity; ConfigError names the steps there are."""
    for planned in plan.steps:
        if planned.name == name:
            values = flatten({"config": planned.step.config, "inputs": planned.step.inputs})
            packages = {f"package.{name}": version for name, version in planned.step.packages.items()}
            return {**values, **{f"code.{module}": found for module, found in planned.step.code_digests().items()}, **packages}
    raise ConfigError(f"No step of {plan.study.name} is called {name!r}; there are: {', '.join(step.name for step in plan.steps)}.")
