"""The exact stock commands of a study (services, SFT, RL), each value with where it comes from."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from slca_core.config import CpuProfile, Deployment, RlConfig, SftConfig, SlurmLauncher, Study
from slca_core.records.store import write_atomically
from slca_core.trainer.arguments import rl_arguments, service_arguments, sft_arguments, sft_launch
from slca_core.trainer.launch import environment
from slca_core.trainer.launchers import JOB_MODULE
from slca_core.trainer.launchers.jobs import job_name
from slca_core.trainer.launchers.slurm import batch_script
from slca_core.trainer.spec import TrainSpec
from tasks.orchestration.workspace import Workspace
from tasks.report import SFT, SFT_FULL
from tasks.services import study_roles

# Stock argument -> where its value comes from.
SOURCES = {
    "train.batch_size": "Table 6, batch",
    "train.micro_batch_size": "Table 6, micro batch a GPU",
    "train.max_epochs": "Table 6, epochs",
    "train.num_episodes": "one pass over the prompt file, which holds every update",
    "train.seed": "the study's own",
    "adam.lr": "Table 6, SFT learning rate",
    "adam.betas": "AdamW's usual ones; the paper names none",
    "lr_scheduler": "Table 6, SFT schedule",
    "lr_warmup_ratio": "Table 6, SFT warm-up",
    "min_lr_ratio": "Table 6, cosine to 0",
    "data.max_len": "Table 6, lengths",
    "data.max_samples": "updates x prompts an update",
    "rollout.batch_size": "Table 6, prompts an update",
    "rollout.n_samples_per_prompt": "Table 6, G",
    "rollout.micro_batch_size": "Table 6, micro batch a GPU",
    "rollout.max_new_tokens": "Table 6, response length",
    "rollout.temperature": "Table 6, sampling",
    "actor.adam.lr": "Table 6, RL learning rate",
    "actor.adam.betas": "AdamW's usual ones; the paper names none",
    "actor.lr_scheduler": "Table 6, constant",
    "actor.lr_warmup_ratio": "Table 6, constant",
    "actor.eps_clip": "App. B, symmetric clip",
    "actor.dual_clip": "App. B, dual-clip constant c",
    "actor.loss_agg_mode": "App. B, token mean",
    "algo.advantage.estimator": "stock value; the routed advantages replace it (Eq. 3)",
    "algo.kl.use_loss": "Table 6, KL in the loss",
    "algo.kl.estimator": "Table 6, k3",
    "algo.kl.init_coef": "Table 6, KL coefficient",
    "ckpt.save_steps": "Table 6, save every",
    "ds.zero_stage": "Table 6 for SFT; the paper's RL ran on FSDP",
    **dict.fromkeys(
        (
            *("actor.num_nodes", "actor.num_gpus_per_node", "ref.num_nodes", "ref.num_gpus_per_node"),
            *("vllm.num_engines", "vllm.tensor_parallel_size", "vllm.gpu_memory_utilization", "vllm.sync_backend"),
            *("vllm.enable_sleep", "ds.enable_sleep", "train.colocate_all"),
        ),
        "study machine",
    ),
}


# Deployments as published: the mocker's in Table 7, the judge's in Table 3.
PUBLISHED = {
    "mocker": Deployment(
        checkpoint="Qwen/Qwen3-235B-A22B-Instruct-2507",
        dtype="bfloat16",
        expert_parallel=True,
        max_model_len=32768,
        max_num_seqs=300,
        gpu_memory=0.70,
        custom_all_reduce=False,
    ),
    "judge": Deployment(
        checkpoint="openai/gpt-oss-120b",
        max_model_len=16384,
        max_num_seqs=6000,
        gpu_memory=0.85,
        chunked_prefill=True,
        async_scheduling=True,
    ),
}
_TABLES = {"mocker": "Table 7, SGLS deployment", "judge": "Table 3, judge deployment"}
_STUDY = {"served-model-name": "study services", "host": "all nodes of training call it", "port": "study services"}


def commands(study: Study) -> Iterator[tuple[str, list[str]]]:
    """(title, lines of a shell command) of the services, SFT, SFT on both splits, and every arm and seed.

    Folders are named, not made: a step's own has twelve digits of its identity behind the name.
    """
    yield from _services(study)
    yield from _finetuning(study)
    yield from _training(study)


def _services(study: Study) -> Iterator[tuple[str, list[str]]]:
    for role in study_roles(study):
        service = study.services.of(role)
        if service.deployment:
            argv = service_arguments(service, service.deployment)
            published = service_arguments(service, PUBLISHED[role]) if role in PUBLISHED else []
            table = _TABLES.get(role, "study services")
            sources = dict.fromkeys((option[0].removeprefix("--") for option in _options(argv)), table) | _STUDY
            call = shlex.join(["vllm", "serve", service.deployment.checkpoint])
            whose = "started, watched and stopped by the run" if service.managed == "vllm" else f"for {service.url}"
            yield f"serve the {role.replace('_', ' ')}, {whose}", as_shell(call, argv, published, sources)


def _finetuning(study: Study) -> Iterator[tuple[str, list[str]]]:
    artifacts = Workspace(study).root / "artifacts"
    call = shlex.join(["python", "-m", *sft_launch(study.machine, "openrlhf.cli.train_sft")])
    for name, epochs in ((SFT, study.sft.epochs), (SFT_FULL, study.sft.full_epochs)):
        folder = artifacts / "finetune" / name
        run = {
            **{"model": artifacts / "policy" / study.name / "model", "dataset": folder / "messages.jsonl", "out": folder / "model"},
            **{"epochs": epochs, "cpu": isinstance(study.machine, CpuProfile)},
        }
        argv, published = (sft_arguments(sft, **run) for sft in (study.sft, SftConfig()))
        yield f"finetune {name}, from the policy with this project's chat format", as_shell(call, argv, published)


def _training(study: Study) -> Iterator[tuple[str, list[str]]]:
    artifacts = Workspace(study).root / "artifacts"
    for arm in study.arms:
        for seed in study.seeds:
            spec = TrainSpec(
                arm=arm,
                seed=seed,
                rl=study.rl_of(arm),
                services=study.services,
                machine=study.machine,
                initial_checkpoint=artifacts / "finetune" / SFT / "model",
                folder=artifacts / "train" / f"{arm.name}-seed{seed}",
                root=study.root,
            )
            title = f"train {arm.name}, seed {seed}: what python -m slca_core.trainer.run_rl {spec.folder}/spec.json runs"
            published = rl_arguments(spec.model_copy(update={"rl": RlConfig()}))
            yield title, as_shell("python -m openrlhf.cli.train_ppo_ray", rl_arguments(spec), published)
            if isinstance(study.machine.launcher, SlurmLauncher):
                yield _slurm(study, spec)


def _slurm(study: Study, spec: TrainSpec) -> tuple[str, list[str]]:
    """The batch script of a run, written beside the study's report."""
    log, path = spec.folder / "train.log", Workspace(study).reports / f"{spec.folder.name}.sbatch"
    argv = [str(spec.folder / "spec.json")]
    script = batch_script(spec, job_name(spec.folder), JOB_MODULE, argv, env=environment(study.root), log=log)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, script)
    return f"train {spec.arm.name}, seed {spec.seed}, as Slurm runs it: {path}", script.splitlines()


def as_shell(call: str, argv: Sequence[str], published: Sequence[str], sources: Mapping[str, str] = SOURCES) -> list[str]:
    """A bash array of the arguments, a comment to each whose source is known, and the call.

    Args:
        published: the arguments under the paper's values; where ours differ, the source is the study.
        sources: argument -> where its value comes from.
    """
    paper = _options(published)
    shown = [(shlex.join(option), _source(option, option in paper, sources)) for option in _options(argv)]
    width = max(len(text) for text, source in shown if source)
    lines = [f"  {text:<{width}}  # {source}" if source else f"  {text}" for text, source in shown]
    return ["args=(", *lines, ")", f'{call} "${{args[@]}}"']


def _options(argv: Sequence[str]) -> list[list[str]]:
    """An option with its values each."""
    options: list[list[str]] = []
    for word in argv:
        if word.startswith("--"):
            options.append([word])
        else:
            options[-1].append(word)
    return options


def _source(option: list[str], as_published: bool, sources: Mapping[str, str]) -> str:
    source = sources.get(option[0].removeprefix("--"), "")
    if not source.startswith(("Table", "App.")) or as_published:
        return source
    return f"the study's own; {source.partition(',')[0]} has another value"
