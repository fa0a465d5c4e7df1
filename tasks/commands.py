"""The exact stock commands of a study, each value with where it comes from."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from slca_core.config import CpuProfile, RlConfig, SftConfig, Study
from slca_core.trainer.arguments import rl_arguments, sft_arguments
from slca_core.trainer.spec import TrainSpec
from tasks.report import SFT, SFT_FULL
from tasks.workspace import Workspace

# Stock argument -> where its value comes from.
SOURCES = {
    "train.batch_size": "Table 6, batch",
    "train.max_epochs": "Table 6, epochs",
    "train.num_episodes": "one pass over the prompt file, which holds every update",
    "train.seed": "the study's own",
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
    "ds.zero_stage": "Table 6 for SFT; the paper's RL ran on FSDP",
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
        run = {
            **{"model": start, "dataset": folder / "messages.jsonl", "out": folder / "model"},
            **{"epochs": epochs, "cpu": isinstance(study.machine, CpuProfile)},
        }
        argv, published = (sft_arguments(sft, **run) for sft in (study.sft, SftConfig()))
        yield f"finetune {name}", as_shell("openrlhf.cli.train_sft", argv, published)
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
            yield (
                title,
                as_shell(
                    "openrlhf.cli.train_ppo_ray", rl_arguments(spec), rl_arguments(spec.model_copy(update={"rl": RlConfig()}))
                ),
            )


def as_shell(module: str, argv: Sequence[str], published: Sequence[str]) -> list[str]:
    """A bash array of the arguments, a comment to each whose source is known, and the call.

    Args:
        published: the arguments under the paper's values; where ours differ, the source is the study.
    """
    paper = _options(published)
    shown = [(shlex.join(option), _source(option, option in paper)) for option in _options(argv)]
    width = max(len(text) for text, source in shown if source)
    lines = [f"  {text:<{width}}  # {source}" if source else f"  {text}" for text, source in shown]
    return ["args=(", *lines, ")", f'python -m {module} "${{args[@]}}"']


def _options(argv: Sequence[str]) -> list[list[str]]:
    """An option with its values each."""
    options: list[list[str]] = []
    for word in argv:
        if word.startswith("--"):
            options.append([word])
        else:
            options[-1].append(word)
    return options


def _source(option: list[str], as_published: bool) -> str:
    source = SOURCES.get(option[0].removeprefix("--"), "")
    if not source.startswith(("Table", "App.")) or as_published:
        return source
    return f"the study's own; {source.partition(',')[0]} has another value"
