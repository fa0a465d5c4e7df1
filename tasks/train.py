"""One arm and seed: stock OpenRLHF through the launcher, its metrics followed into MLflow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from slca_core.config import Arm, LocalLauncher, Study
from slca_core.errors import DataError
from slca_core.records import pins
from slca_core.records.fingerprint import checkpoint_digest
from slca_core.records.json_lines import read_lines
from slca_core.records.store import Record, Step
from slca_core.services.frozen import Serving
from slca_core.trainer import launchers
from slca_core.trainer.launch import environment
from slca_core.trainer.prompt_set import write_prompts
from slca_core.trainer.spec import TrainSpec
from tasks.curate import split_path
from tasks.finetune import model_path
from tasks.orchestration.limits import GPUS, SERVICES, limited
from tasks.orchestration.progress import bar, say
from tasks.orchestration.workspace import Workspace
from tasks.planning.estimates import require_room_for
from tasks.planning.placement import placement
from tasks.services import training_identity
from tasks.tracking import ChildRun, Tracking

CODE = (
    "slca_core.credit.advantages",
    "slca_core.credit.estimators",
    "slca_core.conversation.calls",
    "slca_core.conversation.chat",
    "slca_core.curation.rows",
    "slca_core.conversation.dialogue",
    "slca_core.failures",
    "slca_core.judges.summary",
    "slca_core.rewards",
    "slca_core.rollout",
    "slca_core.conversation.schemas",
    "slca_core.conversation.schema_bounds",
    "slca_core.credit.segments",
    "slca_core.services.cache",
    "slca_core.services.client",
    "slca_core.services.frozen",
    "slca_core.simulator",
    "slca_core.conversation.tags",
    "slca_core.conversation.tokens",
    "slca_core.judges.transcript",
    "slca_core.trainer.agent",
    "slca_core.trainer.arguments",
    "slca_core.trainer.cpu",
    "slca_core.trainer.prompt_set",
    "slca_core.trainer.experience",
    "slca_core.trainer.gpu",
    "slca_core.trainer.labels",
    "slca_core.trainer.ledger",
    "slca_core.trainer.run_rl",
    "slca_core.trainer.sampling",
    "slca_core.trainer.serve",
    "slca_core.trainer.shuffling",
    "slca_core.trainer.spec",
    "slca_core.trainer.trainer",
)
# DeepSpeed's states are many times the checkpoint; a run of more updates is another step, which begins at the beginning.
SCRATCH = ("deepspeed", "spool")
_SHOWN = ("update", "r_tool", "r_sum")


def training_code(arm: Arm) -> tuple[str, ...]:
    """The modules that bear on an arm's training."""
    checker = ("slca_core.judges.completeness",) if arm.asks_checker else ()
    return (*CODE, *checker, *(("slca_core.judges.outcome",) if arm.asks_for_outcome else ()))


def training_step(study: Study, arm: Arm, seed: int, data: Record, sft: Record) -> Step:
    """What one run is. Arms of equal condition are one step, unless replicates are asked for: wo_slca at 1:1 is grpo's run."""
    config = {
        "condition": arm.condition(),
        "seed": seed,
        "rl": study.rl_of(arm).model_dump(exclude={"checkpoint_every"}),
        "services": training_identity(study, arm),
    }
    if replicate := study.replicate_of(arm):
        config["replicate"] = replicate
    return Step(
        step="train",
        name=f"{arm.name}-seed{seed}",
        config=config,
        inputs={"rl_split": data.facts["files"]["rl.parquet"], "sft": sft.output_digest},
        code=training_code(arm),
        packages=pins.pinned(study.machine, pins.RL),
        placement=placement(study),
        scratch=SCRATCH,
    )


@task(name="train", cache_policy=NO_CACHE)
def train_arm(study: Study, arm: Arm, seed: int, data: Record, sft: Record, services: Serving) -> Record:
    """The trained checkpoint of one arm and seed, with its metrics and rollouts."""
    workspace = Workspace(study)
    step = training_step(study, arm, seed, data, sft)
    shared = workspace.store.find(step)
    with Tracking(study).child(step, condition=arm.name, seed=seed) as run:

        def work(folder: Path) -> tuple[str, dict[str, Any]]:
            require_room_for(study, step, folder)
            return _train(study, arm, seed, data, sft, services, folder, run)

        record = shared or workspace.store.run(step, work)
        run.follow(read_lines(record.output("metrics.jsonl"), _SHOWN))
        run.finish(record, datasets=[("rl", split_path(data, "rl"))])
    note = f"shares {record.name}'s run" if shared and not record.name.startswith(f"{arm.name}-") else f"{record.seconds:.0f} s"
    say(f"{arm.title}, seed {seed}: {record.facts['updates']} updates, {note}", "train")
    return record


@limited(GPUS, SERVICES)
def _train(
    study: Study, arm: Arm, seed: int, data: Record, sft: Record, services: Serving, folder: Path, run: ChildRun
) -> tuple[str, dict[str, Any]]:
    # A job outlives the flow, and has services of its own.
    local = isinstance(study.machine.launcher, LocalLauncher)
    urls = services.urls(arm.services) if local else {}
    spec = TrainSpec(
        arm=arm,
        seed=seed,
        replicate=study.replicate_of(arm),
        rl=study.rl_of(arm),
        services=services.settings,
        urls=urls,
        key_files=services.key_files,
        machine=study.machine,
        initial_checkpoint=model_path(sft),
        folder=folder,
        root=Workspace(study).root,
    )
    spec_path = spec.write()
    facts = write_prompts(spec, split_path(data, "rl"))
    updates = spec.rl.updates
    with bar(f"train {arm.name} seed {seed}", total=updates, done=len(read_lines(spec.metrics, _SHOWN))) as update:

        def watch() -> None:
            lines = read_lines(spec.metrics, _SHOWN)
            run.follow(lines)
            if lines:
                last = lines[-1]
                update(completed=last["update"], note=f"R_tool {last['r_tool']:.2f} R_sum {last['r_sum']:.2f}")

        log = folder / "train.log"
        launchers.train(spec, spec_path, root=study.root, log=log, env=environment(study.root), on_poll=watch, say=say)
    done = len(read_lines(spec.metrics, _SHOWN))
    if done != updates:
        raise DataError(f"{updates} policy updates were expected of {arm.name}, {done} are in {spec.metrics}. See {log}.")
    return checkpoint_digest(spec.model), facts | {"updates": updates}
