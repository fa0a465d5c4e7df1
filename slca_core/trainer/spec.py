"""What one training run needs to know, written beside its outputs; read by the driver, the trainer and the rollout actors."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import Field

from slca_core.config import Arm, CpuProfile, Frozen, GpuProfile, RlConfig, ServicesConfig
from slca_core.records.store import write_atomically
from slca_core.rollout import Limits, Scoring

SPEC_VARIABLE = "SLCA_TRAIN_SPEC"
REPLICATE_APART = 1_000_003


class TrainSpec(Frozen):
    """One RL run: an arm, a seed, a start, its services and its outputs' place. All nodes of the cluster must share `folder`."""

    arm: Arm
    seed: int
    replicate: int = 0
    rl: RlConfig
    services: ServicesConfig
    urls: dict[str, str] = Field(default_factory=dict, description="of the services' /v1 roots, by role")
    key_files: dict[str, Path] = Field(
        default_factory=dict, description="variable -> file, of keys that this run made for services"
    )
    machine: CpuProfile | GpuProfile
    initial_checkpoint: Path
    folder: Path
    root: Path = Field(description="the study's, below which the services' answers are kept")

    @property
    def sampling_seed(self) -> int:
        """Of the policy's tokens: a replicate sees the prompts in the same order and draws other tokens."""
        return self.seed + REPLICATE_APART * self.replicate

    def asker(self, update: int, sample_id: str, sample_index: int) -> str:
        """A rollout's identity, for the services: matched arms ask as one, so that they meet the same world until they part."""
        return f"{self.sampling_seed}/{update}/{sample_id}/{sample_index}"

    @property
    def prompts(self) -> Path:
        return self.folder / "prompts.jsonl"

    @property
    def metrics(self) -> Path:
        return self.folder / "metrics.jsonl"

    @property
    def rollouts(self) -> Path:
        return self.folder / "rollouts"

    @property
    def spool(self) -> Path:
        return self.folder / "spool"

    @property
    def checkpoints(self) -> Path:
        return self.folder / "deepspeed"

    @property
    def model(self) -> Path:
        return self.folder / "model"

    def limits(self) -> Limits:
        return Limits.of(self.rl)

    def scoring(self) -> Scoring:
        return Scoring.of(self.rl, self.arm, self.services.checker.votes)

    def write(self, name: str = "spec.json") -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / name
        write_atomically(path, self.model_dump_json(indent=2))
        path.chmod(0o600)
        return path


def load_spec(path: Path | None = None) -> TrainSpec:
    """The spec at `path`, or the one the process environment names."""
    return TrainSpec.model_validate_json((path or Path(os.environ[SPEC_VARIABLE])).read_text())
