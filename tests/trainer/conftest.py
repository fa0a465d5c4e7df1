"""A run's spec, and stock OpenRLHF's own reading of the arguments made from it."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
import torch

from slca_core.config import Arm, CpuProfile, RlConfig, ServicesConfig
from slca_core.trainer.spec import TrainSpec

# OpenRLHF cannot be imported without CUDA but through the CPU adapter.
if not torch.cuda.is_available():
    from slca_core.trainer.cpu import device

    device.answer_cuda_calls()


@pytest.fixture
def make_spec(tmp_path):
    def make(estimator: str = "slca", machine=None, **rl) -> TrainSpec:
        return TrainSpec(
            arm=Arm(name=estimator, title=estimator, estimator=estimator),
            seed=1,
            rl=RlConfig(**rl),
            services=ServicesConfig(),
            mocker_url="http://mocker.test/v1",
            judge_url="http://judge.test/v1",
            machine=machine or CpuProfile(),
            initial_checkpoint=Path("/checkpoints/sft"),
            folder=tmp_path / "run",
        )

    return make


class _ParsedError(Exception):
    """Carries the arguments out of a stock entry point, before it does anything with them."""


@pytest.fixture
def parse(monkeypatch):
    """(entry point, argv) -> its parsed and validated arguments; SystemExit if its parser refuses them."""
    import openrlhf.utils
    import ray

    def stop(args):
        raise _ParsedError(args)

    def run(module: str, argv: list[str]):
        monkeypatch.setattr(openrlhf.utils, "get_strategy", stop)
        monkeypatch.setattr(ray, "is_initialized", lambda: True)
        monkeypatch.setattr(sys, "argv", [module, *argv])
        with pytest.raises(_ParsedError) as caught:
            runpy.run_module(module, run_name="__main__", alter_sys=False)
        return caught.value.args[0]

    return run
