"""The execution reward of the exec-reward controls (App. D): whether calls run, whatever they should have been.

Only the controls' figures are public; the formula is our reading of their name.
"""

from __future__ import annotations

from collections.abc import Sequence


def execution_reward(answered: Sequence[bool], n_open: int) -> float:
    """Share of the calls that the simulator took, in [0, 1]; 0 for a rollout without a call.

    Args:
        answered: per observation, whether the call passed the checks.
        n_open: opening tags of the rollout; those that no observation answers count as failed.
    """
    attempts = max(len(answered), n_open)
    return sum(answered) / attempts if attempts else 0.0
