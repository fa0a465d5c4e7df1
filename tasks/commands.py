"""The exact stock commands of a study, each value with where it comes from."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from slca_core.config import CpuProfile, Study
from slca_core.trainer.arguments import rl_arguments, sft_arguments
from slca_core.trainer.spec import TrainSpec
from tasks.report import SFT, SFT_FULL
from tasks.workspace import Workspace

# Stock argument -> where its value comes from.
SOURCES = {
    "train.batch_size": "Table 6, batch",
    "train.max_epochs": "Table 6, epochs",
    "train.num_episodes": "one pass over the prompt file, which holds every update",
    "train.seed": "study seeds",
    "adam.lr": "Table 6, SFT learning rate",
    "lr_scheduler": "Table 6, SFT schedule",
    "lr_warmup_ratio": "Table 6, SFT warm-up",
    "data.max_len": "Table 6, lengths",
    "rollout.batch_size": "Table 6, prompts an update",
    "rollout.n_samples_per_prompt": "Table 6, G",
    "rollout.max_new_tokens": "Table 6, response length",
    "rollout.temperature": "Table 6, sampling",
    "actor.adam.lr": "Table 6, RL learning rate",
    "actor.lr_scheduler": "Table 6, constant",
    "actor.eps_clip": "App. B, symmetric clip",
    "actor.dual_clip": "App. B, dual-clip constant c",
    "actor.loss_agg_mode": "App. B, token mean",
    "algo.advantage.estimator": "stock value; the routed advantages replace it (Eq. 3)",
    "algo.kl.use_loss": "Table 6, KL in the loss",
    "algo.kl.estimator": "Table 6, k3",
    "algo.kl.init_coef": "Table 6, KL coefficient",
    "ckpt.save_steps": "Table 6, save every",
    "ds.zero_stage": "Table 6, ZeRO-2",
    "actor.num_nodes": "study machine",
    "actor.num_gpus_per_node": "study machine",
    "vllm.num_engines": "study machine",
    "vllm.tensor_parallel_size": "study machine",
}


def commands(study: Study) -> Iterator[tuple[str, list[str]]]:
    """(title, lines of a shell command) of SFT, SFT on both splits, and every arm and seed; folders are named, not made."""
    artifacts = Workspace(study).root / "artifacts"
    start = study.policy.checkpoint or artifacts / "policy" / study.name / "model"
    for name, epochs in ((SFT, study.sft.epochs), (SFT_FULL, study.sft.full_epochs)):
        folder = artifacts / "finetune" / name
        argv = sft_arguments(
            study.sft,
            model=start,
            dataset=folder / "messages.jsonl",
            out=folder / "model",
            epochs=epochs,
            seed=study.seeds[0],
            cpu=isinstance(study.machine, CpuProfile),
        )
        yield f"finetune {name}", as_shell("openrlhf.cli.train_sft", argv)
    for arm in study.arms:
        for seed in study.seeds:
            spec = TrainSpec(
                arm=arm,
                seed=seed,
                rl=study.rl_of(arm),
                services=study.services,
                mocker_url=study.services.mocker.url or "http://127.0.0.1/v1",
                judge_url=study.services.judge.url or "http://127.0.0.1/v1",
                machine=study.machine,
                initial_checkpoint=artifacts / "finetune" / SFT / "model",
                folder=artifacts / "train" / f"{arm.name}-seed{seed}",
            )
            title = f"train {arm.name}, seed {seed}: what python -m slca_core.trainer.run_rl {spec.folder}/spec.json runs"
            yield title, as_shell("openrlhf.cli.train_ppo_ray", rl_arguments(spec))


def as_shell(module: str, argv: Sequence[str]) -> list[str]:
    """A bash array of the arguments, a comment to each whose source is known, and the call."""
    options: list[list[str]] = []
    for word in argv:
        if word.startswith("--"):
            options.append([word])
        else:
            options[-1].append(word)
    shown = [(shlex.join(option), SOURCES.get(option[0].removeprefix("--"), "")) for option in options]
    width = max(len(text) for text, source in shown if source)
    lines = [f"  {text:<{width}}  # {source}" if source else f"  {text}" for text, source in shown]
    return ["args=(", *lines, ")", f'python -m {module} "${{args[@]}}"']
