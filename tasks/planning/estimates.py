"""What steps cost, before they run: time, calls of the frozen services, tokens, disk.

Times, calls and tokens come from records of steps placed alike: same kind and size of machine, same size of policy. Where there
are none, from the study's `assumptions`; where it has none, calls and tokens are the upper bounds that its limits leave, and times
are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any, Literal, TypeVar

from slca_core.config import Arm, CpuProfile, Study
from slca_core.errors import DataError
from slca_core.processes.disk import require_room
from slca_core.records.outputs import folder_bytes
from slca_core.records.store import Record, Step
from tasks.benchmarks import bfcl_items, tau2_tasks, tau2_trials
from tasks.matching import spent_by
from tasks.orchestration.progress import say
from tasks.orchestration.workspace import Workspace
from tasks.planning.placement import placement, policy_parameters

_T = TypeVar("_T")
Basis = Literal["measured", "assumed", "at most"]
# Bytes a parameter of weights, and of a training checkpoint with Adam's states: bfloat16 beside float32 masters, or float32 alone.
_WEIGHTS = {"gpu": 2, "cpu": 4}
_CHECKPOINT = {"gpu": 14, "cpu": 12}
_KEPT = 2  # training checkpoints on disk at a time


@dataclass(frozen=True, slots=True)
class Estimate:
    """Of one step.

    Attributes:
        seconds: None where nothing is known; `timed` says on what it rests.
        gpus: that it holds meanwhile.
        trials: of BFCL V3 and tau2-bench.
        judge_calls, mocker_calls, tokens: of its rollouts, the tokens being the policy's prompts and responses; `counted` says on
            what they rest.
        disk: bytes it leaves, checkpoints above all; None where nothing is known.
    """

    seconds: float | None = None
    timed: Basis = "measured"
    gpus: int = 0
    rollouts: int = 0
    trials: int = 0
    judge_calls: int = 0
    mocker_calls: int = 0
    tokens: int = 0
    counted: Basis = "measured"
    disk: int | None = None


NOTHING = Estimate(seconds=0.0, disk=0)


class Estimator:
    """Estimates of one study's steps.

    Args:
        finished: step kind -> its records, of whatever study.
    """

    def __init__(self, study: Study, finished: Callable[[str], Sequence[Record]]) -> None:
        self.study, self.finished = study, finished
        self._rates: dict[str, float | None] = {}
        self._sizes: dict[str, int | None] = {}
        self._mute: set[Path] = set()

    def estimate(self, step: Step, data: Record | None, arm: Arm | None) -> Estimate:
        """One step that is to run; `data` is the curation's record, or stands for it."""
        rollouts = rollouts_of(self.study, step, arm)
        trials = trials_of(self.study, step)
        seconds, timed = self._seconds(step, data, rollouts + trials)
        mocker_calls, tokens, counted = self._per_rollout
        return Estimate(
            seconds=seconds,
            timed=timed,
            gpus=self._gpus(step),
            rollouts=rollouts,
            trials=trials,
            judge_calls=rollouts,
            mocker_calls=round(rollouts * mocker_calls),
            tokens=round(rollouts * tokens),
            counted=counted,
            disk=self.disk(step),
        )

    def _told(self, record: Record, of: Callable[[Record], _T]) -> _T | None:
        """What a record tells; None if its files are damaged, or an earlier version wrote it: it may be another study's."""
        try:
            return of(record)
        except (DataError, LookupError) as error:
            if record.folder not in self._mute:
                what = str(error) if isinstance(error, DataError) else f"{record.folder} lacks {error}."
                say(f"Estimates do without one record. {what}")
            self._mute.add(record.folder)
            return None

    def _alike(self, kind: str, placed: Mapping[str, Any]) -> list[Record]:
        if placed and placed["parameters"] is None:
            return []
        return [record for record in self.finished(kind) if record.placement == placed]

    def _seconds(self, step: Step, data: Record | None, played: int) -> tuple[float | None, Basis]:
        """By the median rate of records placed alike: seconds a rollout or trial, a sample of SFT, a record; else as assumed."""
        work = played or _work_of(self.study, step, data)
        if rate := self._rate(step):
            return (rate * work if work else None), "measured"
        return self._assumed_seconds(step, work), "assumed"

    def _rate(self, step: Step) -> float | None:
        if step.step not in self._rates:
            alike = self._alike(step.step, step.placement)
            rates = [record.seconds / done for record in alike if (done := self._told(record, work_done))]
            self._rates[step.step] = median(rates) if rates else None
        return self._rates[step.step]

    def _assumed_seconds(self, step: Step, work: float | None) -> float | None:
        assumed, machine = self.study.assumptions, self.study.machine
        if assumed is None or work is None or isinstance(machine, CpuProfile):
            return None
        rates = {
            "train": assumed.rl_tokens_per_gpu_s,
            "finetune": assumed.sft_tokens_per_gpu_s,
            "evaluate": assumed.served_tokens_per_gpu_s,
        }
        if step.step not in rates:
            return None
        return work * assumed.rollout_tokens / rates[step.step] / self._gpus(step)

    @cached_property
    def _per_rollout(self) -> tuple[float, float, Basis]:
        """Mocker calls and tokens of one rollout; evaluation's are taken to be training's."""
        alike = self._alike("train", placement(self.study))
        spent = [found for run in alike if (found := self._told(run, spent_by))]
        if rollouts := sum(run.rollouts for run in spent):
            return sum(run.mocker_calls for run in spent) / rollouts, sum(run.tokens for run in spent) / rollouts, "measured"
        if assumed := self.study.assumptions:
            return assumed.mocker_calls, assumed.rollout_tokens, "assumed"
        # One call a turn, and the last turn calls nothing.
        return self.study.rl.max_turns - 1, self.study.rl.max_length, "at most"

    def _gpus(self, step: Step) -> int:
        machine = self.study.machine
        if isinstance(machine, CpuProfile):
            return 0
        return {"train": machine.gpus, "finetune": machine.sft_gpus, "evaluate": machine.vllm_tensor_parallel}.get(step.step, 0)

    def disk(self, step: Step) -> int | None:
        """As records placed alike needed while they ran; else weights, and a training's checkpoints, by the policy's parameters."""
        if step.step not in self._sizes:
            sizes = [record.disk or folder_bytes(record.folder) for record in self._alike(step.step, step.placement)]
            self._sizes[step.step] = round(median(sizes)) if sizes else self._checkpoint_bytes(step)
        return self._sizes[step.step]

    def _checkpoint_bytes(self, step: Step) -> int | None:
        parameters, kind = policy_parameters(self.study), self.study.machine.kind
        if parameters is None or step.step not in ("finetune", "train"):
            return None
        return parameters * (_WEIGHTS[kind] + (_KEPT * _CHECKPOINT[kind] if step.step == "train" else 0))


def require_room_for(study: Study, step: Step, folder: Path) -> None:
    """Check that the disk has room for what a step will write below its folder; DataError where it has not."""
    estimator = Estimator(study, Workspace(study).store.readable)
    missing = (estimator.disk(step) or 0) - folder_bytes(folder)
    if missing > 0:
        require_room(folder, missing, f"{step.step} {step.name}")


def rollouts_of(study: Study, step: Step, arm: Arm | None) -> int:
    """How many rollouts a step makes."""
    if step.step == "train" and arm:
        rl = study.rl_of(arm)
        return rl.updates * rl.prompts_per_update * rl.group_size
    if step.step == "evaluate":
        return study.data.test_size * (study.evaluation.toucan_test.samples + 1)
    return 0


def trials_of(study: Study, step: Step) -> int:
    """How many items of BFCL V3 and trials of tau2-bench a step asks."""
    if step.step == "floor":
        return tau2_tasks(study)
    return bfcl_items(study) + tau2_trials(study) if step.step == "evaluate" else 0


def _work_of(study: Study, step: Step, data: Record | None) -> float | None:
    """What a step without rollouts works through, in the units of `work_done`; None if that is not known yet."""
    if step.step == "curate":
        return study.data.generated.count if study.data.is_generated else None
    if step.step == "policy":
        return 1
    share = {"sft": study.data.sft_fraction, "rl": 1 - study.data.sft_fraction}
    splits = step.config["splits"]
    if data and "splits" in data.facts:
        samples: float = sum(sum(data.facts["splits"][split].values()) for split in splits)
    elif study.assumptions:
        samples = study.assumptions.curated_samples * sum(share.get(split, 1.0) for split in splits)
    else:
        return None
    return samples * step.config["epochs"]


def work_done(record: Record) -> float:
    """Rollouts of training, rollouts and trials of evaluation, samples times epochs of SFT, records of curation; 1 for a policy."""
    facts, config = record.facts, record.config
    if record.step == "train":
        return spent_by(record).rollouts
    if record.step == "evaluate":
        if "toucan_test" not in config:
            return 0.0  # Of an endpoint, as an earlier version kept it.
        rollouts = facts["items"] * (config["toucan_test"]["samples"] + 1)
        return float(rollouts + facts.get("bfcl_items", 0) + facts.get("tau2_trials", 0))
    if record.step == "floor":
        return float(facts["tau2_trials"])
    if record.step == "finetune":
        return facts["samples"] * config["epochs"]
    return facts["read"] if record.step == "curate" else 1
