"""The order in which an update goes through its rollouts, fixed by the seed and the update alone.

Stock shuffles by the process's generator, which a resumed run starts anew: its mini-batches would be others than those of a run
that nobody interrupted.
"""

from __future__ import annotations

import torch


class SeededUpdates:
    """Mixed into the policy actor, CPU and GPU alike."""

    def fit(self, kl_ctl: float = 0):
        # DeepSpeed's count of optimizer steps, which its checkpoints hold.
        torch.manual_seed(self.strategy.args.train.seed * 1_000_003 + self.actor.model.global_steps)
        return super().fit(kl_ctl)
