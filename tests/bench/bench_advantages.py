"""From masks and rewards to token advantages, against verl (loop and vectorised), OpenRLHF's stock path and TRL's arithmetic.

1,024 rollouts of 2,048 tokens, in groups of 16. Ours labels segments and routes two rewards (slca); the peers standardise one
reward and send it to every policy token. The difference is of our grpo from the peer's result on the joint reward; where a group
has no spread, single precision and a small eps let a peer amplify rounding, ours is exactly 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor

from slca_core.credit.advantages import compute_advantages
from slca_core.credit.estimators import ESTIMATORS
from slca_core.credit.segments import split_segments
from tests.bench.measure import Peer, Row, compare

ROLLOUTS, TOKENS, GROUP = 1024, 2048, 16
MICRO_BATCH = 32


@dataclass(frozen=True)
class Workload:
    """The same tensors for everyone: mask_BT int64 as trainers hold it, rewards float32."""

    name: str
    mask_BT: Tensor
    tool_B: Tensor
    summary_B: Tensor
    group_B: Tensor
    contiguous: bool

    @property
    def joint_B(self) -> Tensor:
        return self.tool_B + self.summary_B


def workloads() -> Iterator[Workload]:
    generator = torch.Generator().manual_seed(0)
    mask_BT = _mask(generator)
    tool_B, summary_B = torch.rand(ROLLOUTS, generator=generator), torch.randint(0, 5, (ROLLOUTS,), generator=generator) / 4
    even_B = torch.arange(ROLLOUTS) // GROUP
    shuffled_B = even_B[torch.randperm(ROLLOUTS, generator=generator)]
    ragged_B = torch.repeat_interleave(torch.arange(64), torch.tensor([4, 28] * 32))
    alone_B = torch.arange(ROLLOUTS)
    yield Workload("groups of 16, contiguous", mask_BT, tool_B, summary_B, even_B, True)
    yield Workload("groups of 16, shuffled", mask_BT, tool_B, summary_B, shuffled_B, False)
    yield Workload("ragged groups of 4 and 28", mask_BT, tool_B, summary_B, ragged_B, False)
    yield Workload("groups of one", mask_BT, tool_B, summary_B, alone_B, False)
    yield Workload("zero spread", mask_BT, torch.full_like(tool_B, 0.7), torch.full_like(summary_B, 0.25), even_B, True)


def _mask(generator: torch.Generator) -> Tensor:
    """Two to five turns of 60 to 300 tokens, observations between, the rest padding."""
    mask_BT = torch.zeros(ROLLOUTS, TOKENS, dtype=torch.int64)
    for row in mask_BT:
        lengths = torch.randint(60, 300, (2 * int(torch.randint(2, 6, (1,), generator=generator)) - 1,), generator=generator)
        end = 0
        for number, length in enumerate(lengths.tolist()):
            if number % 2 == 0:
                row[end : end + length] = 1
            end += length
    return mask_BT


def run() -> list[Row]:
    rows = []
    for work in workloads():
        for threads in (1, 2):
            rows += compare(f"advantages: {work.name}", lambda work=work: _ours(work, "slca"), _peers(work), threads=threads)
    return rows


def _ours(work: Workload, estimator: str) -> Tensor:
    rewards = {"tool": work.tool_B, "summary": work.summary_B}
    return compute_advantages(ESTIMATORS[estimator], rewards, split_segments(work.mask_BT), work.group_B).advantages_BT


def _peers(work: Workload) -> dict[str, Peer]:
    from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage, compute_grpo_vectorized_outcome_advantage

    reward_BT = torch.zeros(ROLLOUTS, TOKENS)
    reward_BT[:, -1] = work.joint_B
    index = np.array([f"prompt-{group:04d}" for group in work.group_B.tolist()], dtype=object)

    def verl(function):
        def run_once() -> Tensor:
            return function(reward_BT, work.mask_BT, index)[0]

        return run_once

    def against(run_once):
        # On policy tokens: what a peer leaves on the others, its loss masks away.
        return lambda: float(((_ours(work, "grpo") - run_once()) * work.mask_BT).abs().max())

    loop, vectorised = verl(compute_grpo_outcome_advantage), verl(compute_grpo_vectorized_outcome_advantage)
    singletons = "a group of one keeps its raw reward; ours is 0" if work.name == "groups of one" else ""
    peers = {
        "verl, loop": Peer(loop, against(loop), singletons),
        "verl, vectorised": Peer(vectorised, against(vectorised), singletons),
    }
    if work.contiguous:
        trl, openrlhf = partial(_trl, work), _openrlhf(work)
        peers["TRL's arithmetic"] = Peer(trl, against(trl), "equal contiguous groups only, eps 1e-4")
        peers["OpenRLHF, stock path"] = Peer(
            openrlhf, against(openrlhf), f"equal contiguous groups only, micro-batches of {MICRO_BATCH}"
        )
    return peers


def _trl(work: Workload) -> Tensor:
    """The formula of TRL's GRPOTrainer (scale_rewards="group"), and the multiplication by the mask its loss does."""
    grouped = work.joint_B.view(-1, GROUP)
    mean_B = grouped.mean(dim=1).repeat_interleave(GROUP)
    std_B = grouped.std(dim=1).repeat_interleave(GROUP)
    return ((work.joint_B - mean_B) / (std_B + 1e-4))[:, None] * work.mask_BT


def _openrlhf(work: Workload):
    """OpenRLHF's RemoteExperienceMaker as it is, on experiences of micro-batches."""
    from slca_core.config import Arm, CpuProfile, RlConfig, ServicesConfig
    from slca_core.trainer.spec import TrainSpec
    from tests.trainer.stock import parsed_arguments

    spec = TrainSpec(
        arm=Arm(name="grpo", title="GRPO", estimator="grpo"),
        seed=1,
        rl=RlConfig(prompts_per_update=ROLLOUTS // GROUP, minibatch_prompts=ROLLOUTS // GROUP, group_size=GROUP),
        services=ServicesConfig(),
        machine=CpuProfile(),
        initial_checkpoint="/checkpoints/sft",
        folder="/tmp/bench",
        root="/tmp/bench",
    )
    strategy = SimpleNamespace(args=parsed_arguments(spec))

    # Only now: on a machine without CUDA, the import above makes these possible.
    from openrlhf.trainer.ppo_utils.experience import Experience
    from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker

    maker = RemoteExperienceMaker(None, None, None, None, SimpleNamespace(value=0.0), strategy, None)

    def run_once() -> Tensor:
        experiences = []
        for start in range(0, ROLLOUTS, MICRO_BATCH):
            rows = slice(start, start + MICRO_BATCH)
            mask = work.mask_BT[rows]
            experiences.append(
                Experience(
                    action_mask=mask,
                    kl=torch.zeros(mask.shape),
                    rewards=work.joint_B[rows].clone(),
                    response_length=mask.sum(dim=1),
                    truncated=torch.zeros(len(mask), dtype=torch.bool),
                    index=list(range(start, start + len(mask))),
                    info={},
                )
            )
        made = maker.compute_advantages_and_returns(experiences)
        return torch.cat([experience.advantages for experience in made])

    return run_once
