"""The paper's propositions as checks on numbers: decoupling (Prop. A.1), variance (Theorem A.3), conflict (Theorem A.4).

Each function takes plain tensors, so that it serves a toy policy in a test and stored rollouts alike. Axis letters: B rollouts,
Y tool segments, P parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from slca_core.credit.advantages import compute_advantages
from slca_core.credit.estimators import Estimator
from slca_core.credit.segments import Segments

# A standardised reward this small stands at its mean but for rounding.
AT_MEAN = 1e-9


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Largest absolute derivative of any rollout's advantage with respect to any rollout's reward of one name."""

    tool: float
    summary: float


def sensitivity(
    estimator: Estimator, rewards: Mapping[str, Tensor], segments: Segments, group_B: Tensor, *, eps: float = 1e-6
) -> dict[str, Sensitivity]:
    """How far each reward reaches into each segment's advantages, by autograd (Prop. A.1).

    Under slca the summary's reward has sensitivity exactly 0 in tool tokens, for every pair of rollouts: then the gradient of the
    tool tokens, a sum of scores times these advantages, does not depend on it either. Costs a derivative a rollout.

    Args:
        rewards: by name, shape (B,).

    Returns:
        Reward name -> sensitivity of the tool and of the summary advantage.
    """
    leaves: dict[str, Tensor] = {
        str(name): reward.detach().double().requires_grad_() for name, reward in rewards.items() if name in estimator.rewards
    }
    routed = compute_advantages(estimator, leaves, segments, group_B, eps=eps)
    reach = {}
    for name, leaf in leaves.items():
        largest = [_largest_derivative(credit_B, leaf) for credit_B in (routed.tool_B, routed.summary_B)]
        reach[name] = Sensitivity(tool=largest[0], summary=largest[1])
    return reach


def _largest_derivative(credit_B: Tensor, leaf: Tensor) -> float:
    largest = 0.0
    for credit in credit_B:
        if credit.requires_grad:
            (gradient,) = torch.autograd.grad(credit, leaf, retain_graph=True, allow_unused=True)
            if gradient is not None:
                largest = max(largest, float(gradient.abs().max()))
    return largest


@dataclass(frozen=True, slots=True)
class ToolOutcomes:
    """A finite distribution over tool segments y, with Assumption A.2's model R_sum = mean(y) + noise, E[noise | y] = 0.

    Attributes:
        probability_Y: sums to 1.
        weight_Y: w, the importance or length weight; a function of y alone.
        score_YP: U_tool, the accumulated score of the tool tokens.
        r_tool_Y: R_tool.
        mean_r_sum_Y: the systematic part of R_sum.
        noise_variance_Y: the variance of the noise given y.
    """

    probability_Y: Tensor
    weight_Y: Tensor
    score_YP: Tensor
    r_tool_Y: Tensor
    mean_r_sum_Y: Tensor
    noise_variance_Y: Tensor


@dataclass(frozen=True, slots=True)
class Variance:
    """Traces of covariances of the tool tokens' gradient, for rewards that are not normalised (Theorem A.3).

    Attributes:
        unified: of w U (R_tool + R_sum).
        routed: of w U R_tool.
        nuisance: E[w^2 sigma^2 |U|^2], never negative: what routing takes away.
        systematic: the rest of the difference, of either sign; below -nuisance, routing has the larger variance.
        unified_given_Y: given the tool segment, w^2 sigma^2 |U|^2; that of routed is 0.
    """

    unified: float
    routed: float
    nuisance: float
    systematic: float
    unified_given_Y: Tensor


def variance(outcomes: ToolOutcomes) -> Variance:
    """Theorem A.3 in exact moments: `unified - routed == nuisance + systematic`, each side computed by itself."""
    probability_Y, r_tool_Y, mean_Y = outcomes.probability_Y, outcomes.r_tool_Y, outcomes.mean_r_sum_Y
    step_YP = outcomes.weight_Y[:, None] * outcomes.score_YP
    length_Y = step_YP.square().sum(dim=1)
    given_Y = outcomes.noise_variance_Y * length_Y

    # E|g|^2 - |E g|^2, the noise inside the second moment.
    total_Y = r_tool_Y + mean_Y
    second = (probability_Y * length_Y * (total_Y.square() + outcomes.noise_variance_Y)).sum()
    first_P = (probability_Y[:, None] * step_YP * total_Y[:, None]).sum(dim=0)
    routed = _trace_of_covariance(probability_Y, step_YP * r_tool_Y[:, None])
    return Variance(
        unified=float(second - first_P.square().sum()),
        routed=routed,
        nuisance=float((probability_Y * given_Y).sum()),
        systematic=_trace_of_covariance(probability_Y, step_YP * total_Y[:, None]) - routed,
        unified_given_Y=given_Y,
    )


def _trace_of_covariance(probability_Y: Tensor, value_YP: Tensor) -> float:
    mean_P = (probability_Y[:, None] * value_YP).sum(dim=0)
    return float((probability_Y * (value_YP - mean_P).square().sum(dim=1)).sum())


def in_conflict(tool_B: Tensor, summary_B: Tensor) -> Tensor:
    """The conflict regime (Theorem A.4): a tool segment below its group's mean, a summary above its own; bool, shape (B,).

    Args:
        tool_B, summary_B: each segment's own standardised reward, 0 where the segment is absent.
    """
    return (tool_B < -AT_MEAN) & (summary_B > AT_MEAN)


def flipped(advantage_B: Tensor, own_B: Tensor) -> Tensor:
    """Where a segment's tokens are pushed against their own reward: opposite signs, none of them 0; bool, shape (B,).

    Under grpo, in the conflict regime, exactly one segment is flipped unless the total stands exactly at its mean: the tool's if
    R_sum - mean(R_sum) > mean(R_tool) - R_tool, else the summary's (Theorem A.4).
    """
    return (advantage_B.sign() * own_B.sign() < 0) & (advantage_B.abs() > AT_MEAN) & (own_B.abs() > AT_MEAN)
