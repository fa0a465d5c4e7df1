"""CUDA calls of OpenRLHF answered by the CPU, float32 as a parameter type, and process groups over gloo.

bf16 is 30 to 150 times slower than float32 on AVX2, so both trainer and vLLM compute in float32 here.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta

import torch

from slca_core.trainer.cpu.settings import SHIMS


class CpuDevice(str):
    """Acts as device "cpu" in `.to()` and as index 0 in OpenRLHF's f"cuda:{...}"."""

    def __format__(self, spec: str) -> str:
        return "0"


def answer_cuda_calls() -> None:
    """Installs the stand-ins for the torch.cuda functions OpenRLHF calls, and the flash_attn stand-in it imports."""
    if str(SHIMS) not in sys.path:
        sys.path.append(str(SHIMS))
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    torch.cuda.current_device = lambda: CpuDevice("cpu")
    torch.cuda.set_device = lambda *_: None
    torch.cuda.synchronize = lambda *_: None
    torch.cuda.empty_cache = lambda: None
    torch.cuda.current_stream = lambda *_: None


def allow_float32() -> None:
    """Teaches OpenRLHF's dtype table "fp32"; its own has bf16 and fp16."""
    import openrlhf.utils.utils as utils

    stock = utils.convert_to_torch_dtype
    if stock.__module__ == __name__:
        return

    def convert_to_torch_dtype(name: str) -> torch.dtype:
        return torch.float32 if name == "fp32" else stock(name)

    utils.convert_to_torch_dtype = convert_to_torch_dtype


def use_cpu_mesh() -> None:
    """DeepSpeed's strategy asks for a mesh of "cuda" devices."""
    import openrlhf.utils.deepspeed.deepspeed as strategy
    from torch.distributed.device_mesh import init_device_mesh

    strategy.init_device_mesh = lambda _device, *args, **kwargs: init_device_mesh("cpu", *args, **kwargs)


def leave_out_shared_memory_op() -> None:
    """DeepSpeed would compile its shared-memory all-reduce at the first start; one rank has no use for it, gloo serves several."""
    import deepspeed

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


class GlooBroadcaster:
    """`broadcast` as vLLM's PyNcclCommunicator has it, over a gloo group of its own."""

    def __init__(self, host: str, port: int, rank: int, world_size: int, timeout_s: int = 120) -> None:
        timeout = timedelta(seconds=timeout_s)
        self._store = torch.distributed.TCPStore(host, port, world_size, is_master=rank == 0, timeout=timeout)
        store = torch.distributed.PrefixStore("openrlhf", self._store)
        self._group = torch.distributed.ProcessGroupGloo(store, rank, world_size, timeout)

    def broadcast(self, tensor: torch.Tensor, src: int = 0, stream: None = None) -> None:
        options = torch.distributed.BroadcastOptions()
        options.rootRank, options.rootTensor = src, 0
        self._group.broadcast([tensor], options).wait()


def gloo_group(host: str, port: int, rank: int, world_size: int, device: object) -> GlooBroadcaster:
    """Stands for openrlhf.utils.distributed_util.stateless_init_process_group, which builds a NCCL group."""
    return GlooBroadcaster(host, port, rank, world_size)
