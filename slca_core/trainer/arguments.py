"""From a study's values to the arguments of stock OpenRLHF 0.11.2 (`train_ppo_ray`, `train_sft`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from slca_core.config import CpuProfile, Deployment, GpuProfile, ServiceConfig, SftConfig

if TYPE_CHECKING:
    from slca_core.trainer.spec import TrainSpec

AGENT = Path(__file__).with_name("agent.py")
Arguments = dict[str, str | int | float | bool | Path | tuple[float, ...]]


def rl_arguments(spec: TrainSpec) -> list[str]:
    """Arguments of `openrlhf.cli.train_ppo_ray` for one run. Table 6 gives the values, spec 3.8 the loss."""
    rl = spec.rl
    arguments: Arguments = {
        "actor.model_name_or_path": spec.initial_checkpoint,
        "train.agent_func_path": AGENT,
        "data.prompt_dataset": spec.prompts,
        "data.input_key": "input",
        "data.label_key": "label",
        "data.input_template": "{}",
        "data.max_samples": rl.updates * rl.prompts_per_update,
        "data.max_len": rl.max_length,
        "rollout.batch_size": rl.prompts_per_update,
        "rollout.n_samples_per_prompt": rl.group_size,
        "rollout.micro_batch_size": rl.micro_batch_size,
        "rollout.max_new_tokens": rl.turn_tokens,
        "rollout.temperature": rl.temperature,
        "train.batch_size": rl.minibatch_prompts * rl.group_size,
        "train.micro_batch_size": rl.micro_batch_size,
        "train.num_episodes": 1,
        "train.max_epochs": 1,
        "train.seed": spec.seed,
        "actor.adam.lr": rl.learning_rate,
        "actor.adam.betas": rl.betas,
        "actor.lr_scheduler": rl.scheduler,
        "actor.lr_warmup_ratio": rl.warmup_ratio,
        "actor.eps_clip": rl.clip,
        "actor.dual_clip": rl.dual_clip,
        "actor.loss_agg_mode": "token-mean",
        # Stock statistics stay in the logs; the routed advantages replace the stock ones at the seam (experience.py).
        "algo.advantage.estimator": "group_norm",
        "algo.kl.use_loss": True,
        "algo.kl.estimator": "k3",
        "algo.kl.init_coef": rl.kl_coef,
        "ds.zero_stage": 2,
        "ckpt.path": spec.checkpoints,
        "ckpt.output_dir": spec.model,
        "ckpt.save_steps": rl.checkpoint_every,
        "ckpt.max_num": 2,
        "ckpt.load_enable": True,
    }
    return as_argv(arguments | _machine_arguments(spec))


def _machine_arguments(spec: TrainSpec) -> Arguments:
    machine = spec.machine
    if isinstance(machine, CpuProfile):
        return {
            "actor.num_nodes": 1,
            "actor.num_gpus_per_node": 1,
            "ref.num_nodes": 1,
            "ref.num_gpus_per_node": 1,
            "vllm.num_engines": 1,
            "vllm.tensor_parallel_size": 1,
            "vllm.enforce_eager": True,
            "vllm.sync_backend": "gloo",
            "ds.attn_implementation": "sdpa",
        }
    return {
        "actor.num_nodes": machine.actor_nodes,
        "actor.num_gpus_per_node": machine.actor_gpus_per_node,
        "ref.num_nodes": machine.actor_nodes,
        "ref.num_gpus_per_node": machine.actor_gpus_per_node,
        "vllm.num_engines": machine.vllm_engines,
        "vllm.tensor_parallel_size": machine.vllm_tensor_parallel,
        "vllm.gpu_memory_utilization": machine.gpu_memory,
        "vllm.sync_backend": "nccl",
        "vllm.enable_sleep": machine.colocate,
        "ds.enable_sleep": machine.colocate,
        "train.colocate_all": machine.colocate,
        "actor.gradient_checkpointing_enable": True,
    }


def sft_arguments(sft: SftConfig, *, model: Path, dataset: Path, out: Path, epochs: int, cpu: bool) -> list[str]:
    """Arguments of `openrlhf.cli.train_sft`: the loss on the tokens of every assistant turn."""
    arguments: Arguments = {
        "model.model_name_or_path": model,
        "data.dataset": dataset,
        "data.input_key": "messages",
        "data.apply_chat_template": True,
        "data.multiturn": True,
        "data.max_len": sft.max_length,
        "train.batch_size": sft.batch_size,
        "train.micro_batch_size": sft.micro_batch_size,
        "train.max_epochs": epochs,
        "train.seed": sft.seed,
        "adam.lr": sft.learning_rate,
        "adam.betas": sft.betas,
        "lr_scheduler": sft.scheduler,
        "lr_warmup_ratio": sft.warmup_ratio,
        "min_lr_ratio": sft.min_lr_ratio,
        "ds.zero_stage": 2,
        "ckpt.path": out.with_name(out.name + "-deepspeed"),
        "ckpt.output_dir": out,
    }
    arguments |= {"ds.attn_implementation": "sdpa"} if cpu else {"model.gradient_checkpointing_enable": True}
    return as_argv(arguments)


def sft_launch(machine: CpuProfile | GpuProfile, module: str) -> list[str]:
    """What `python -m` runs `module` by: one process on the CPU, one a GPU of the node else."""
    if isinstance(machine, CpuProfile):
        return [module]
    return ["torch.distributed.run", "--standalone", "--nproc-per-node", str(machine.sft_gpus), "-m", module]


def service_arguments(
    service: ServiceConfig, deployment: Deployment, *, host: str = "0.0.0.0", port: int | None = None
) -> list[str]:
    """Arguments of `vllm serve` behind the checkpoint, for a frozen model. Tables 3 and 7 give the values."""
    arguments: Arguments = {
        "served-model-name": service.model,
        "host": host,
        "port": port or urlsplit(service.url or "").port or 8000,
        "dtype": deployment.dtype,
        "tensor-parallel-size": deployment.tensor_parallel,
        "enable-expert-parallel": deployment.expert_parallel,
        "max-model-len": deployment.max_model_len,
        "max-num-seqs": deployment.max_num_seqs,
        "gpu-memory-utilization": deployment.gpu_memory,
        "enable-prefix-caching": True,
        "disable-custom-all-reduce": not deployment.custom_all_reduce,
        "enable-chunked-prefill": deployment.chunked_prefill,
        "async-scheduling": deployment.async_scheduling,
    }
    return as_argv(arguments)


def as_argv(arguments: Arguments) -> list[str]:
    """`--key value`; a true flag stands alone, a false one is left out, a tuple gives several values."""
    argv: list[str] = []
    for key, value in arguments.items():
        if value is False:
            continue
        argv.append(f"--{key}")
        if value is not True:
            argv += [str(item) for item in value] if isinstance(value, tuple) else [str(value)]
    return argv
