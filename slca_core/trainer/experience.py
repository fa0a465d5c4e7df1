"""The seam for routed advantages (Eq. 3): stock experience making, then each token's advantage by the arm's estimator."""

from __future__ import annotations

import torch
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
from torch.nn.functional import pad

from slca_core.credit.advantages import Advantages, compute_advantages, without_groups
from slca_core.credit.segments import split_segments
from slca_core.trainer.spec import TrainSpec

# For sorting, grouping and splitting; no metrics, so they are dropped before the policy actor averages `info`.
_IDENTITIES = ("position", "sample_index", "cut_calling", "failed")


class RoutedExperienceMaker(RemoteExperienceMaker):
    """Set `spec` after construction. Of the last batch, rollouts in the order they were given: `routed`, their advantages;
    `teaching_B` and `complete_B`, whether their groups teach something and have no failed rollout.
    """

    spec: TrainSpec
    routed: Advantages
    teaching_B: torch.Tensor
    complete_B: torch.Tensor

    @torch.no_grad()
    def compute_advantages_and_returns(self, experiences):
        experiences = super().compute_advantages_and_returns(experiences)
        group_B = torch.cat([experience.info["position"] for experience in experiences]).long()
        length = max(experience.action_mask.shape[1] for experience in experiences)
        mask_BT = torch.cat([_padded(experience.action_mask, length) for experience in experiences])
        cut_B = torch.cat([experience.info["cut_calling"] for experience in experiences]).bool()
        segments = split_segments(mask_BT, cut_B if self.spec.rl.strict_summary else None)
        rewards = {
            name: torch.cat([experience.info[key] for experience in experiences])
            for name, key in (("tool", "r_tool"), ("summary", "r_sum"), ("outcome", "outcome"), ("action", "action"))
        }
        failed_B = torch.cat([experience.info["failed"] for experience in experiences]).bool()
        self.complete_B = ~torch.isin(group_B, group_B[failed_B])
        arm = self.spec.arm
        self.routed = compute_advantages(
            arm.estimator,
            rewards,
            segments,
            group_B,
            lambda_tool=arm.lambda_tool,
            lambda_sum=arm.lambda_sum,
            eps=self.spec.rl.eps,
            kept_B=self.complete_B,
        )
        self.teaching_B = self.routed.teaching_B(group_B)
        kept_B = self.complete_B & (self.teaching_B if self.spec.rl.rollout_filter == "zero_spread" else True)
        advantages_BT = without_groups(self.routed.advantages_BT, kept_B, mask_BT.bool())
        start = 0
        for experience in experiences:
            rows, width = experience.action_mask.shape
            experience.advantages = advantages_BT[start : start + rows, :width].float()
            for key in _IDENTITIES:
                del experience.info[key]
            start += rows
        return experiences


def _padded(mask_BT: torch.Tensor, length: int) -> torch.Tensor:
    return pad(mask_BT, (0, length - mask_BT.shape[1]))
