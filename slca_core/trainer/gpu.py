"""The rollout and policy actors on CUDA: stock but for the sample index and the seed of an update."""

from __future__ import annotations

from openrlhf.trainer.ray import ppo_actor, vllm_engine

from slca_core.trainer.loopback import keep_stores_on_loopback
from slca_core.trainer.sampling import IndexedRollouts
from slca_core.trainer.shuffling import SeededUpdates
from slca_core.trainer.trainer import plain

keep_stores_on_loopback()


class RolloutActor(IndexedRollouts, plain(vllm_engine.RolloutRayActor)):
    pass


class PolicyActor(SeededUpdates, plain(ppo_actor.PolicyModelActor)):
    pass
