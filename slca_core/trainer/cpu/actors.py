"""OpenRLHF's Ray actors on the CPU. They live here so that every Ray worker that unpickles one imports the adapter."""

from __future__ import annotations

import torch

from slca_core.trainer.cpu import device
from slca_core.trainer.cpu.settings import WHOLE_PREFILL
from slca_core.trainer.loopback import keep_stores_on_loopback

device.answer_cuda_calls()
keep_stores_on_loopback()

from openrlhf.trainer.ray import launcher, ppo_actor, vllm_engine  # noqa: E402
from openrlhf.trainer.ray.vllm_worker_wrap import WorkerWrap  # noqa: E402
from vllm import _custom_ops  # noqa: E402

from slca_core.trainer.sampling import IndexedRollouts  # noqa: E402
from slca_core.trainer.shuffling import SeededUpdates  # noqa: E402
from slca_core.trainer.trainer import plain  # noqa: E402

# In float32 vLLM's CPU linear layers repack their weights for oneDNN and drop the originals, so that a later update_weight fails.
_custom_ops._supports_onednn = False


class CpuWorkerWrap(WorkerWrap):
    """vLLM's worker extension: receives the trainer's weights over gloo into CPU memory."""

    def init_process_group(self, *args, **kwargs):
        import openrlhf.utils.distributed_util as distributed

        distributed.stateless_init_process_group = device.gloo_group
        return super().init_process_group(*args, **kwargs)

    def update_weight(self, name, dtype, shape, empty_cache=False):
        if dtype != self.model_config.dtype:
            raise TypeError(f"weight {name}: {self.model_config.dtype} was expected, the trainer sent {dtype}")
        weight = torch.empty(shape, dtype=dtype)
        self._model_update_group.broadcast(weight, src=0)
        self.model_runner.model.load_weights(weights=[(name, weight)])


class CpuRolloutActor(IndexedRollouts, plain(vllm_engine.RolloutRayActor)):
    async def __init__(self, *args, **kwargs):
        kwargs["worker_extension_cls"] = f"{__name__}.{CpuWorkerWrap.__name__}"
        kwargs |= {"dtype": "float32", **WHOLE_PREFILL}
        await super().__init__(*args, **kwargs)


def _prepare_worker() -> None:
    device.allow_float32()
    device.use_cpu_mesh()
    device.leave_out_shared_memory_op()
    ppo_actor.stateless_init_process_group = device.gloo_group


class CpuPolicyActor(SeededUpdates, plain(ppo_actor.PolicyModelActor)):
    def init_model_from_pretrained(self, *args, **kwargs):
        _prepare_worker()
        return super().init_model_from_pretrained(*args, **kwargs)


class CpuReferenceActor(plain(launcher.ReferenceModelActor)):
    def init_model_from_pretrained(self, *args, **kwargs):
        _prepare_worker()
        return super().init_model_from_pretrained(*args, **kwargs)
