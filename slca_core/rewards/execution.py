"""The execution reward of the exec-reward controls (App. D): whether calls run, whatever they should have been.

Only the controls' figures are public; the formula is our reading of their name.
"""

from __future__ import annotations


def execution_reward(answered: int, attempts: int) -> float:
    """Share of the calls attempted that the simulator took, in [0, 1]; 0 for a rollout without a call.

    Args:
        answered: calls that passed the checks and got a response.
        attempts: calls of readable blocks, blocks that cannot be read, and opening tags without a block.
    """
    return answered / attempts if attempts else 0.0
