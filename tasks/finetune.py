"""The start policy and SFT: stock `openrlhf.cli.train_sft` on the curated demonstrations."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Literal

from prefect import task
from prefect.cache_policies import NO_CACHE

from slca_core.config import CpuProfile, Study
from slca_core.curation.rows import read_split
from slca_core.policy import adopt_chat_format, create_policy, require_checkpoint
from slca_core.records import pins
from slca_core.records.fingerprint import checkpoint_digest
from slca_core.records.store import Record, Step, not_there
from slca_core.trainer import loopback
from slca_core.trainer.arguments import sft_arguments, sft_launch
from slca_core.trainer.demonstrations import with_demonstration, write_sft_rows
from slca_core.trainer.launch import environment, python_for, run_module
from tasks.curate import split_path
from tasks.orchestration.limits import GPUS, limited
from tasks.orchestration.progress import bar, say
from tasks.orchestration.workspace import Workspace
from tasks.planning.estimates import require_room_for
from tasks.planning.placement import placement
from tasks.tracking import Tracking

POLICY_CODE = (
    "slca_core.conversation.chat",
    "slca_core.conversation.dialogue",
    "slca_core.policy",
    "slca_core.conversation.tags",
    "slca_core.conversation.tokens",
    "slca_core.trainer.demonstrations",
)
CODE = (
    "slca_core.conversation.chat",
    "slca_core.conversation.dialogue",
    "slca_core.conversation.tags",
    "slca_core.conversation.tokens",
    "slca_core.trainer.arguments",
    "slca_core.trainer.cpu",
    "slca_core.trainer.demonstrations",
    "slca_core.trainer.run_sft",
)
Splits = tuple[Literal["sft", "rl", "sft_full"], ...]
SCRATCH = ("model-deepspeed",)
_BATCH = re.compile(r"Train step of epoch (\d+):[^\r\n]*? (\d+)/(\d+) \[[^\]\r\n]*?gpt_loss=([\d.]+(?:e[+-]?\d+)?)")


def model_path(record: Record) -> Path:
    """The checkpoint that a step made, to be loaded; DataError if a file of it is not as it was recorded."""
    return record.output("model")


def policy_step(study: Study, data: Record, *, planned: bool = False) -> Step:
    """ConfigError if the study names a checkpoint that is none; if it is only `planned`, the folder may come later."""
    policy = study.policy
    if policy.scratch:
        config: dict[str, Any] = {"scratch": policy.scratch.model_dump(), "max_length": study.rl.max_length}
        inputs = {"data": data.output_digest}
    elif planned and not policy.checkpoint.exists():
        config, inputs = {}, {"checkpoint": not_there(policy.checkpoint)}
    else:
        folder = require_checkpoint(policy.checkpoint)
        config, inputs = {}, {"checkpoint": checkpoint_digest(folder, Workspace(study).inputs.file_digest)}
    return Step(
        step="policy",
        name=study.name,
        config=config,
        inputs=inputs,
        code=POLICY_CODE,
        packages=pins.pinned(study.machine, pins.POLICY),
        placement=placement(study),
    )


def finetune_step(study: Study, data: Record, policy: Record, name: str, splits: Splits, epochs: int) -> Step:
    settings = study.sft.model_dump(exclude={"epochs", "full_epochs"})
    return Step(
        step="finetune",
        name=name,
        config={"sft": settings, "epochs": epochs, "splits": list(splits)},
        inputs={"data": data.output_digest, "policy": policy.output_digest},
        code=CODE,
        packages=pins.pinned(study.machine, pins.SFT),
        placement=placement(study),
        scratch=SCRATCH,
    )


@task(name="prepare-policy", cache_policy=NO_CACHE)
def prepare_policy(study: Study, data: Record) -> Record:
    """The policy before SFT: made from scratch on the SFT split, or the study's checkpoint with this project's chat format."""
    policy = study.policy

    def work(folder: Path) -> tuple[str, dict[str, Any]]:
        # It imports the stack while the policy is made.
        python_for(study.machine, study.root)
        out = folder / "model"
        if policy.scratch:
            samples = with_demonstration(read_split(split_path(data, "sft")))
            create_policy(out, samples, policy.scratch)
        else:
            adopt_chat_format(policy.checkpoint, out)
        return checkpoint_digest(out), {"made": "from scratch" if policy.scratch else "from a checkpoint"}

    return Workspace(study).store.run(policy_step(study, data), work)


@task(name="finetune", cache_policy=NO_CACHE)
def finetune(study: Study, data: Record, policy: Record, name: str, splits: Splits, epochs: int) -> Record:
    """SFT of `policy` on the demonstrations of `splits`; `sft_full` trains on both, the data-equivalent of SFT followed by RL."""
    workspace = Workspace(study)
    step = finetune_step(study, data, policy, name, splits, epochs)
    tracking = Tracking(study)
    with tracking.child(step, condition=name, seed=study.sft.seed) as run:

        def work(folder: Path) -> tuple[str, dict[str, Any]]:
            require_room_for(study, step, folder)
            return _finetune(study, data, policy, name, splits, epochs, folder)

        record = workspace.store.run(step, work)
        run.finish(record, datasets=[(split, split_path(data, split)) for split in splits])
        run.log_curve(record.output("loss.jsonl"), step_key="step")
    say(f"{name}: {record.facts['steps']} steps, last loss {record.facts['loss']:.3f}, {record.seconds:.0f} s", "finetune")
    return record


@limited(GPUS)
def _finetune(
    study: Study, data: Record, policy: Record, name: str, splits: Splits, epochs: int, folder: Path
) -> tuple[str, dict[str, Any]]:
    samples = [sample for split in splits for sample in with_demonstration(read_split(split_path(data, split)))]
    rows = folder / "messages.jsonl"
    kept, too_long = write_sft_rows(samples, model_path(policy), study.sft.max_length, rows)
    sft = study.sft.model_copy(update={"batch_size": min(study.sft.batch_size, kept)})
    sft = sft.model_copy(update={"micro_batch_size": min(sft.micro_batch_size, sft.batch_size)})
    argv = sft_arguments(
        sft,
        model=model_path(policy),
        dataset=rows,
        out=folder / "model",
        epochs=epochs,
        cpu=isinstance(study.machine, CpuProfile),
    )
    curve = _run(study, f"finetune {name}", argv, folder / "train.log", sft.batch_size // sft.micro_batch_size)
    (folder / "loss.jsonl").write_text("".join(json.dumps(point) + "\n" for point in curve))
    facts = {"samples": kept, "too_long": too_long, **(curve[-1] if curve else {"step": 0, "loss": float("nan")})}
    facts["steps"] = facts.pop("step")
    return checkpoint_digest(folder / "model"), facts


def _run(study: Study, title: str, argv: list[str], log: Path, accumulation: int) -> list[dict[str, float]]:
    env = environment(study.root) | loopback.ENVIRONMENT
    if isinstance(study.machine, CpuProfile):
        env["OMP_NUM_THREADS"] = str(study.machine.threads)
    with bar(title) as update:

        def watch() -> None:
            if points := read_loss(log, accumulation):
                last = points[-1]
                update(completed=last["step"], total=last["total"], note=f"loss {last['loss']:.3f}")

        python = python_for(study.machine, study.root)
        module, *launch = sft_launch(study.machine, "slca_core.trainer.run_sft")
        run_module(module, [*launch, *argv], python=python, log=log, env=env, on_poll=watch)
    return [{"step": point["step"], "loss": point["loss"]} for point in read_loss(log, accumulation)]


def read_loss(log: Path, accumulation: int = 1) -> list[dict[str, float]]:
    """Step, total and loss of SFT, steps counted on over the epochs.

    Stock SFT's bar counts micro-batches, `accumulation` of them a step; the loss is that of a step's last.
    """
    points: dict[int, dict[str, float]] = {}
    for epoch, batch, of_epoch, loss in _BATCH.findall(log.read_text(errors="replace")):
        step = (int(epoch) * int(of_epoch) + int(batch)) // accumulation
        if step:
            total = (int(epoch) + 1) * int(of_epoch) // accumulation
            points[step] = {"step": step, "total": total, "loss": float(loss)}
    return list(points.values())
