"""The places of OpenRLHF 0.11.2 this project hangs on, each a check with a name: an upgrade that moves one fails with that name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import metadata

EXPECTED_VERSION = "0.11.2"


def check_seams() -> dict[str, str | None]:
    """Seam -> what is wrong with it, None where it is as expected. Without CUDA, OpenRLHF is imported through the CPU adapter."""
    import torch

    if not torch.cuda.is_available():
        from slca_core.trainer.cpu import device

        device.answer_cuda_calls()
    return {name: _problem(check) for name, check in _CHECKS.items()}


def _problem(check: Callable[[], None]) -> str | None:
    try:
        check()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def _version() -> None:
    found = metadata.version("openrlhf")
    assert found == EXPECTED_VERSION, f"{EXPECTED_VERSION} was expected, {found} is installed"


def _parameters(function, *expected: str) -> None:
    found = list(inspect.signature(function).parameters)
    missing = [name for name in expected if name not in found]
    assert not missing, f"parameters {', '.join(missing)} are gone; it has {', '.join(found)}"


def _trainer() -> None:
    from openrlhf.trainer import ppo_trainer

    from slca_core.trainer.trainer import plain

    trainer = plain(ppo_trainer.PPOTrainer)
    _parameters(trainer.train_step, "rollout_samples", "global_step")
    _parameters(trainer.save_logs_and_checkpoints, "global_step", "logs_dict", "client_states")
    assert callable(trainer.init_checkpoint_states)


def _experience() -> None:
    from openrlhf.trainer.ppo_utils.experience import Experience
    from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker

    _parameters(RemoteExperienceMaker.compute_advantages_and_returns, "experiences")
    for name in ("action_mask", "advantages", "info", "index"):
        assert name in Experience.__dataclass_fields__, f"Experience.{name} is gone"


def _sampling() -> None:
    from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator

    _parameters(SamplesGenerator._dispatch_prompts_to_vllm, "prompts", "labels", "images")
    assert callable(SamplesGenerator._generate_vllm)


def _rollout_actor() -> None:
    from openrlhf.trainer.ray import vllm_engine

    from slca_core.trainer.trainer import plain

    actor = plain(vllm_engine.RolloutRayActor)
    _parameters(
        actor.generate_responses, "prompt", "label", "sampling_params", "max_length", "hf_tokenizer", "num_samples", "images"
    )
    _parameters(actor.generate, "prompt_token_ids", "sampling_params")


def _executor() -> None:
    from openrlhf.utils.agent import AgentExecutorBase

    _parameters(
        AgentExecutorBase.execute, "prompt", "label", "sampling_params", "max_length", "hf_tokenizer", "llm_engine", "images"
    )


def _weight_sync() -> None:
    from openrlhf.trainer.ray import ppo_actor
    from openrlhf.trainer.ray.vllm_worker_wrap import WorkerWrap
    from openrlhf.utils import distributed_util

    _parameters(WorkerWrap.update_weight, "name", "dtype", "shape")
    _parameters(distributed_util.stateless_init_process_group, "master_address", "master_port", "rank", "world_size", "device")
    assert ppo_actor.stateless_init_process_group


def _policy_actor() -> None:
    from openrlhf.trainer.ray import ppo_actor

    from slca_core.trainer.trainer import plain

    _parameters(plain(ppo_actor.PolicyModelActor).fit, "kl_ctl")


def _strategy() -> None:
    from openrlhf.utils import deepspeed, get_strategy, utils

    _parameters(deepspeed.DeepspeedStrategy.get_ds_train_config, "optim_dict")
    _parameters(get_strategy, "args")
    assert callable(utils.convert_to_torch_dtype)


def _onednn_switch() -> None:
    from vllm import _custom_ops

    assert isinstance(_custom_ops._supports_onednn, bool)


def _shared_memory_op() -> None:
    import deepspeed

    assert "deepspeed_shm_comm" in deepspeed.ops.__compatible_ops__, "no deepspeed_shm_comm to switch off"


_CHECKS: dict[str, Callable[[], None]] = {
    "openrlhf version": _version,
    "PPOTrainer: train_step, save_logs_and_checkpoints, init_checkpoint_states": _trainer,
    "RemoteExperienceMaker.compute_advantages_and_returns": _experience,
    "SamplesGenerator._dispatch_prompts_to_vllm": _sampling,
    "RolloutRayActor.generate_responses": _rollout_actor,
    "AgentExecutorBase.execute": _executor,
    "WorkerWrap.update_weight and the weight-sync group": _weight_sync,
    "PolicyModelActor.fit": _policy_actor,
    "DeepspeedStrategy and get_strategy": _strategy,
    "vLLM's oneDNN switch": _onednn_switch,
    "DeepSpeed's shared-memory op": _shared_memory_op,
}
