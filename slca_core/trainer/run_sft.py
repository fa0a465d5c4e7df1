"""Runs stock `openrlhf.cli.train_sft` with the arguments given; through the CPU adapter where there is no CUDA.

python -m slca_core.trainer.run_sft --model.model_name_or_path CHECKPOINT --data.dataset sft.jsonl ...
"""

from __future__ import annotations

import os
import runpy

import torch

from slca_core.processes.supervise import LOOPBACK, free_port
from slca_core.trainer import loopback


def main() -> None:
    if not torch.cuda.is_available():
        _adapt_to_cpu()
    loopback.keep_stores_on_loopback()
    os.environ.setdefault("MASTER_ADDR", LOOPBACK)
    os.environ.setdefault("MASTER_PORT", str(free_port()))
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0")):
        os.environ.setdefault(name, value)
    runpy.run_module("openrlhf.cli.train_sft", run_name="__main__", alter_sys=True)


def _adapt_to_cpu() -> None:
    from slca_core.trainer.cpu import device

    device.answer_cuda_calls()
    device.allow_float32()
    device.use_cpu_mesh()
    device.leave_out_shared_memory_op()
    import openrlhf.utils

    from slca_core.trainer.cpu.strategy import get_strategy

    openrlhf.utils.get_strategy = get_strategy


if __name__ == "__main__":
    main()
