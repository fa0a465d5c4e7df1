"""A run's spec, and stock OpenRLHF's own reading of the arguments made from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from slca_core.config import Arm, CpuProfile, RlConfig, ServicesConfig
from slca_core.trainer.spec import TrainSpec
from tests.trainer.stock import read_by


@pytest.fixture
def make_spec(tmp_path):
    def make(estimator: str = "slca", machine=None, **rl) -> TrainSpec:
        return TrainSpec(
            arm=Arm(name=estimator, title=estimator, estimator=estimator),
            seed=1,
            rl=RlConfig(**rl),
            services=ServicesConfig(),
            urls={"mocker": "http://mocker.test/v1", "judge": "http://judge.test/v1"},
            machine=machine or CpuProfile(),
            initial_checkpoint=Path("/checkpoints/sft"),
            folder=tmp_path / "run",
            root=tmp_path / "state",
        )

    return make


@pytest.fixture
def parse():
    """(entry point, argv) -> its parsed and validated arguments; SystemExit if its parser refuses them."""
    return read_by
