"""Starts a training driver as a child process, watches it, and turns its end into a value or a sentence."""

from __future__ import annotations

import atexit
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from slca_core import errors
from slca_core.config import CpuProfile, GpuProfile
from slca_core.processes import leftovers
from slca_core.processes.disk import FULL_WORDS, no_room
from slca_core.processes.forkserver import ForkServer
from slca_core.processes.supervise import start, stop, tail, why_stopped
from slca_core.trainer.cpu.settings import ENVIRONMENT

_OUR_ERROR = re.compile(r"slca_core\.errors\.(\w+): (.*)")
# What the processes of a training or an evaluation import, but for Ray and what imports it: ten seconds of a core for each of them.
PRELOADED = (
    "datasets",
    "deepspeed",
    "peft",
    "slca_core.rollout",
    "torchdata.stateful_dataloader",
    "transformers.models.qwen3.modeling_qwen3",
    "transformers.trainer",
    "vllm.entrypoints.openai.api_server",
    "vllm.model_executor.models.qwen3",
    "vllm.v1.engine.async_llm",
    "vllm.v1.engine.core",
    "vllm.v1.worker.cpu_worker",
)
# What a Ray of the CPU profile is told it has, for placement.
DECLARED = {"num_cpus": 8, "num_gpus": 4}
_KILLED = (-9, 128 + 9)
_OUT_OF_MEMORY = ("OutOfMemoryError", "running low on memory", "Cannot allocate memory", "can't allocate memory", "std::bad_alloc")
_OUT_OF_GPU_MEMORY = ("CUDA out of memory", "torch.OutOfMemoryError: CUDA")
_LESS = "Fewer runs side by side take less: --set machine.parallel=1; so do a smaller micro_batch_size and max_length."
_LESS_ON_GPU = "A smaller micro_batch_size, max_length or machine.gpu_memory takes less."
_servers: dict[Path, ForkServer] = {}
_starting = threading.Lock()
MAX_VLLM_PATH = 70  # A Unix socket's path ends at 107, and vLLM's sockets bear names of 36.
MAX_RAY_PATH = 36  # Ray's sockets lie some 70 characters below its folder, and a Unix socket's path ends at 107.


def environment(root: Path) -> dict[str, str]:
    """Caches, temporary state and telemetry switches of the training stack: all below the study's root, nothing calls home."""
    cache = root.resolve() / "cache"
    ray = root.resolve() / "ray"
    variables = {
        "HF_HOME": str(cache / "huggingface"),
        "VLLM_CACHE_ROOT": str(cache / "vllm"),
        "VLLM_CONFIG_ROOT": str(cache / "vllm-config"),
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
        "TRITON_CACHE_DIR": str(cache / "triton"),
        "TORCH_EXTENSIONS_DIR": str(cache / "torch-extensions"),
        "XDG_CACHE_HOME": str(cache),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "DO_NOT_TRACK": "1",
        "WANDB_MODE": "disabled",
        "PYTHONUNBUFFERED": "1",
        # Threads that wait by spinning make a training step many times slower as soon as anything else runs beside it.
        "OMP_WAIT_POLICY": "PASSIVE",
        "PYTHONWARNINGS": "ignore::FutureWarning",
    }
    if len(str(ray)) <= MAX_RAY_PATH:
        variables["RAY_TMPDIR"] = str(ray)
    sockets = _own_folder(root)
    if len(str(sockets)) <= MAX_VLLM_PATH:
        variables["VLLM_RPC_BASE_PATH"] = str(sockets)
    return variables


def python_for(machine: CpuProfile | GpuProfile, root: Path) -> str:
    """The interpreter that runs the stack: on the CPU one that has its imports behind it, as long as this process lives."""
    root, folder = root.resolve(), _own_folder(root)
    with _starting:
        if not folder.exists():
            leftovers.sweep(folder.parent)
            folder.mkdir(parents=True)  # vLLM's sockets lie there.
            atexit.register(leftovers.remove, folder)
    if not isinstance(machine, CpuProfile) or sys.platform != "linux":
        return sys.executable
    with _starting:
        if root not in _servers:
            _servers[root] = ForkServer(PRELOADED, folder, environment(root) | ENVIRONMENT)
            atexit.register(_servers[root].close)
    return str(_servers[root].python)


def _own_folder(root: Path) -> Path:
    """Where this process keeps, below a study's root, what goes with it: sockets, the fork server's command and log."""
    return leftovers.own_folder(root.resolve() / "run")


def run_module(
    module: str,
    argv: Sequence[str],
    *,
    python: str = sys.executable,
    log: Path,
    env: Mapping[str, str],
    on_poll: Callable[[], None] = lambda: None,
    poll_s: float = 1.0,
) -> None:
    """Runs `python -m module argv` to its end, calling `on_poll` every `poll_s`.

    Raises:
        SlcaError: the module failed; its own sentence if it left one, else the end of its log.
    """
    process = start([python, "-m", module, *argv], log, env)
    try:
        while process.poll() is None:
            on_poll()
            time.sleep(poll_s)
    finally:
        stop(process)
    on_poll()
    if process.returncode:
        raise failure(module, process.returncode, log, why_stopped(process))


def failure(module: str, code: int | None, log: Path, because: str = "") -> errors.SlcaError:
    """Why a module ended with `code`: `because` if whoever ended it said so, else its own sentence if it left one, else the fault
    that its log shows, else the end of its log.
    """
    if because:
        return errors.ServiceError(f"{because} (log: {log})")
    written = log.read_text(errors="replace")
    if found := _OUR_ERROR.findall(written):
        name, message = found[-1]
        return getattr(errors, name, errors.ServiceError)(f"{message} (log: {log})")
    if any(words in written for words in FULL_WORDS):
        return errors.DataError(f"{no_room(log.parent)} (log: {log})")
    if any(words in written for words in _OUT_OF_GPU_MEMORY):
        return errors.ServiceError(f"{module} ran out of the GPU's memory. {_LESS_ON_GPU} (log: {log})")
    if code in _KILLED or any(words in written for words in _OUT_OF_MEMORY):
        return errors.ServiceError(f"{module} was killed, as the system and Ray do when memory runs out. {_LESS} (log: {log})")
    return errors.ServiceError(f"{module} ended with code {code}. The end of {log}:\n{tail(log)}")
