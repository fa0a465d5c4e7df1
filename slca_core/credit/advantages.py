"""From named rewards to one advantage a token, by whichever estimator (Eq. 3, App. A.2, Table 21)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from slca_core.credit.estimators import Estimator
from slca_core.credit.segments import Segments
from slca_core.errors import DataError


@dataclass(frozen=True, slots=True)
class Advantages:
    """What `compute_advantages` returns: statistics and scalars in float64, the value of each token in float32.

    Attributes:
        advantages_BT: exactly 0 outside the two segments, shape (B, T).
        tool_B: the value each token of the Tool segment carries; 0 where that segment is absent.
        summary_B: likewise for the Summary.
        z_BR: the standardised columns before routing and lambda, in the estimator's order.
    """

    advantages_BT: Tensor
    tool_B: Tensor
    summary_B: Tensor
    z_BR: Tensor

    def teaching_B(self, group_B: Tensor) -> Tensor:
        """Whether a rollout's group has any advantage; bool, shape (B,). A group whose rewards are all equal has none."""
        _, group = torch.unique(group_B, return_inverse=True)
        return torch.bincount(group, weights=self.advantages_BT.abs().sum(dim=1))[group] > 0


def without_groups(advantages_BT: Tensor, kept_B: Tensor, policy_BT: Tensor) -> Tensor:
    """Advantages under which a token-mean loss over all policy tokens equals the mean over those of the kept groups alone.

    The clipped loss is proportional to the advantage: the other groups get none, and count in the denominator only.

    Args:
        kept_B: which rollouts stay, whole groups of them, bool, shape (B,).
        policy_BT: what the policy wrote, bool, shape (B, T).
    """
    tokens_B = policy_BT.sum(dim=1)
    kept = tokens_B[kept_B].sum()
    return torch.where(kept_B[:, None], advantages_BT, 0.0) * (tokens_B.sum() / kept if kept else 0.0)


def compute_advantages(
    estimator: Estimator,
    rewards: Mapping[str, Tensor],
    segments: Segments,
    group_B: Tensor,
    *,
    lambda_tool: float = 1.0,
    lambda_sum: float = 1.0,
    eps: float = 1e-6,
    kept_B: Tensor | None = None,
) -> Advantages:
    """Advantages of every token under one estimator (Eq. 3).

    Args:
        rewards: by name, one scalar a rollout, shape (B,); omission already applied (`rewards.omission`).
        group_B: any integer a rollout, equal within a prompt's group; groups may be ragged and interleaved.
        eps: added to the standard deviation; numerical only.
        kept_B: rollouts that count, whole groups of them, bool, shape (B,); the others enter no statistics and get no advantage.

    Raises:
        ValueError: a reward the estimator needs is not given, or has another shape than (B,).
        DataError: a reward is NaN or infinite; the message names the reward and the rollout.
    """
    reward_BR = _stack_rewards(estimator, rewards, segments)
    present_BS = torch.stack((segments.tool_present_B, segments.summary_present_B), dim=1)
    kept_B = torch.ones_like(present_BS[:, 0]) if kept_B is None else kept_B.to(present_BS.device)
    present_BS &= kept_B[:, None]
    presence_columns = {"all": kept_B, "tool": present_BS[:, 0], "summary": present_BS[:, 1]}
    present_BR = torch.stack([presence_columns[rule] for rule in estimator.presence], dim=1)
    index_B = torch.unique(group_B.to(reward_BR.device), return_inverse=True)[1]

    z_BR = _standardise(estimator, reward_BR, present_BR, kept_B, index_B, eps)
    weight_S = z_BR.new_tensor((lambda_tool, lambda_sum) if estimator.weighted else (1.0, 1.0))
    credit_BS = weight_S * (z_BR @ z_BR.new_tensor(estimator.routing).T)
    if estimator.routing_alone is not None:
        alone_B = weight_S[1] * (z_BR @ z_BR.new_tensor(estimator.routing_alone))
        credit_BS[:, 1] = torch.where(segments.tool_present_B, credit_BS[:, 1], alone_B)
    credit_BS = torch.where(present_BS, credit_BS, 0.0)
    tool_B, summary_B = credit_BS.unbind(dim=1)
    row_N = segments.row_N
    advantages_BT = segments.paint(torch.where(segments.is_summary_N, summary_B[row_N], tool_B[row_N]).float())
    return Advantages(advantages_BT=advantages_BT, tool_B=tool_B, summary_B=summary_B, z_BR=z_BR)


def normalise_within_groups(
    reward_B: Tensor, present_B: Tensor, index_B: Tensor, *, scale_B: Tensor | None = None, by_std: bool = True, eps: float = 1e-6
) -> Tensor:
    """z-score each rollout's reward inside its group, over the rollouts whose segment exists (App. A.2).

    Args:
        reward_B: one finite scalar a rollout, shape (B,).
        present_B: which rollouts enter the statistics, bool, shape (B,).
        index_B: group of each rollout as 0..G-1, int64, shape (B,).
        scale_B: divisor to use instead of the reward's own standard deviation.
        by_std: False subtracts the mean only.

    Returns:
        Shape (B,), float64: 0 where the segment is absent, and for a group with fewer than two present rollouts, whose raw score
        would otherwise stand in for an advantage.
    """
    centred_B, count_B = _centre(reward_B, present_B, index_B)
    if by_std:
        scale_B = _deviation(centred_B, count_B, index_B) if scale_B is None else scale_B
        centred_B = centred_B / (scale_B + eps)
    return torch.where(count_B >= 2, centred_B, 0.0)


def _standardise(
    estimator: Estimator, reward_BR: Tensor, present_BR: Tensor, kept_B: Tensor, index_B: Tensor, eps: float
) -> Tensor:
    scale_B = None
    if estimator.signals is not None:
        reward_BR = reward_BR @ reward_BR.new_tensor(estimator.signals).T
    if estimator.normaliser == "joint":
        reward_BR = reward_BR.sum(dim=1, keepdim=True)
    elif estimator.normaliser == "joint_scale":
        total_B = reward_BR.sum(dim=1)
        scale_B = _deviation(*_centre(total_B, torch.ones_like(total_B, dtype=torch.bool), index_B), index_B)
    columns = [
        normalise_within_groups(reward_B, present_B, index_B, scale_B=scale_B, by_std=estimator.by_std, eps=eps)
        for reward_B, present_B in zip(reward_BR.unbind(dim=1), present_BR.unbind(dim=1), strict=True)
    ]
    if estimator.normaliser == "batch":
        total_B, one_batch_B = torch.stack(columns).sum(dim=0), torch.zeros_like(index_B)
        columns = [normalise_within_groups(total_B, kept_B, one_batch_B, by_std=estimator.by_std, eps=eps)]
    return torch.stack(columns, dim=1)


def _centre(reward_B: Tensor, present_B: Tensor, index_B: Tensor) -> tuple[Tensor, Tensor]:
    """Deviation from the group's mean over the present rollouts (0 for absent ones), and the number of those, per rollout.

    The group's smallest reward is subtracted first: the mean of equal numbers need not be that number in floating point, the mean
    of zeros is 0, so a group without spread comes out as exactly 0.
    """
    reward_B = reward_B.double()
    floor_B = torch.where(present_B, reward_B, torch.inf)
    floor_B = torch.full_like(reward_B, torch.inf).scatter_reduce(0, index_B, floor_B, "amin")[index_B]
    above_B = torch.where(present_B, reward_B - floor_B, 0.0)
    count_B = _sum_by_group(present_B.double(), index_B)
    mean_B = _sum_by_group(above_B, index_B) / count_B.clamp(min=1)
    return torch.where(present_B, above_B - mean_B, 0.0), count_B


def _deviation(centred_B: Tensor, count_B: Tensor, index_B: Tensor) -> Tensor:
    """Sample standard deviation (ddof 1) of each rollout's group, shape (B,)."""
    variance_B = _sum_by_group(centred_B.square(), index_B) / (count_B - 1).clamp(min=1)
    # The floor is the smallest normal number: it alters no value, and keeps the root's derivative finite.
    return variance_B.clamp(min=torch.finfo(variance_B.dtype).tiny).sqrt()


def _sum_by_group(value_B: Tensor, index_B: Tensor) -> Tensor:
    """The sum over each rollout's group, shape (B,); there are at most B groups."""
    return torch.zeros_like(value_B).index_add(0, index_B, value_B)[index_B]


def _stack_rewards(estimator: Estimator, rewards: Mapping[str, Tensor], segments: Segments) -> Tensor:
    expected = segments.turns_B.shape
    for name in estimator.rewards:
        if name not in rewards:
            needed = ", ".join(estimator.rewards)
            raise ValueError(f"estimator '{estimator.name}' needs the rewards {needed}; '{name}' was not given.")
        if rewards[name].shape != expected:
            raise ValueError(f"reward '{name}': shape {tuple(expected)} was expected, found {tuple(rewards[name].shape)}.")
        bad_B = ~torch.isfinite(rewards[name])
        if bad_B.any():
            rollout = int(bad_B.nonzero()[0])
            raise DataError(
                f"rollout {rollout}: its reward '{name}' is {rewards[name][rollout].item()}, a finite number was expected. It "
                "would turn the advantages of its whole group into NaN; give a failed rollout the reward its failure deserves."
            )
    return torch.stack([rewards[name].double().to(segments.turns_B.device) for name in estimator.rewards], dim=1)
