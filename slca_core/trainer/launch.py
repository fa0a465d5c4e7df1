"""Starts a training driver as a child process, watches it, and turns its end into a value or a sentence."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from slca_core import errors
from slca_core.services.process import start, stop, tail

_OUR_ERROR = re.compile(r"slca_core\.errors\.(\w+): (.*)")
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
    return variables


def run_module(
    module: str,
    argv: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str],
    on_poll: Callable[[], None] = lambda: None,
    poll_s: float = 1.0,
) -> None:
    """Runs `python -m module argv` to its end, calling `on_poll` every `poll_s`.

    Raises:
        SlcaError: the module failed; its own sentence if it left one, else the end of its log.
    """
    process = start([sys.executable, "-m", module, *argv], log, env)
    try:
        while process.poll() is None:
            on_poll()
            time.sleep(poll_s)
    finally:
        stop(process)
    on_poll()
    if process.returncode:
        raise failure(module, process.returncode, log)


def failure(module: str, code: int | None, log: Path) -> errors.SlcaError:
    """Why a module ended with `code`: its own sentence if it left one, else the end of its log."""
    found = _OUR_ERROR.findall(log.read_text(errors="replace"))
    if found:
        name, message = found[-1]
        return getattr(errors, name, errors.ServiceError)(f"{message} (log: {log})")
    return errors.ServiceError(f"{module} ended with code {code}. The end of {log}:\n{tail(log)}")
