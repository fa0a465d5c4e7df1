"""The rollout actor on CUDA: stock but for the sample index."""

from __future__ import annotations

from openrlhf.trainer.ray import vllm_engine

from slca_core.trainer.sampling import IndexedRollouts
from slca_core.trainer.trainer import plain


class RolloutActor(IndexedRollouts, plain(vllm_engine.RolloutRayActor)):
    pass
