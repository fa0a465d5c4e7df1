"""OpenRLHF's own reading of a run's arguments: its entry point, stopped where it would start to work."""

from __future__ import annotations

import runpy
import sys
from typing import Any
from unittest.mock import patch

import torch

from slca_core.trainer.arguments import rl_arguments
from slca_core.trainer.spec import TrainSpec

# OpenRLHF cannot be imported without CUDA but through the CPU adapter.
if not torch.cuda.is_available():
    from slca_core.trainer.cpu import device

    device.answer_cuda_calls()


class _ParsedError(Exception):
    """Carries the arguments out of a stock entry point, before it does anything with them."""


def read_by(module: str, argv: list[str]) -> Any:
    """The parsed and validated arguments of `python -m module argv`; SystemExit if its parser refuses them."""

    def stop(args: Any) -> None:
        raise _ParsedError(args)

    with (
        patch("openrlhf.utils.get_strategy", stop),
        patch("ray.is_initialized", lambda: True),
        patch.object(sys, "argv", [module, *argv]),
    ):
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=False)
        except _ParsedError as parsed:
            return parsed.args[0]
    raise AssertionError(f"{module} ended without asking for its strategy")


def parsed_arguments(spec: TrainSpec) -> Any:
    return read_by("openrlhf.cli.train_ppo_ray", rl_arguments(spec))
