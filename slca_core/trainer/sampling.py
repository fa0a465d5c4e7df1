"""Matched rollouts: each knows its update, prompt and sample index, and a batch comes back in that order.

Stock `generate_responses` calls the executor n times with one shared set of parameters and no index, and batches arrive in
completion order.
"""

from __future__ import annotations

import asyncio
import json

from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator


class IndexedRollouts:
    """Mixed into the rollout actor, CPU and GPU alike: passes the sample index to the executor."""

    async def generate_responses(self, prompt, label, sampling_params, max_length, hf_tokenizer, num_samples=1, images=None):
        rollouts = [
            self.executor.execute(prompt, label, sampling_params, max_length, hf_tokenizer, self, images, sample_index=index)
            for index in range(num_samples)
        ]
        return await asyncio.gather(*rollouts)


class MatchedSamplesGenerator(SamplesGenerator):
    """Writes update and position into each prompt's label and sorts what comes back by (position, sample index)."""

    update = 0

    def generate_samples(self, **kwargs):
        self.update += 1
        return super().generate_samples(**kwargs)

    def _dispatch_prompts_to_vllm(self, prompts, labels, *, images=None, **kwargs):
        labels = [json.dumps({**json.loads(label), "update": self.update, "position": at}) for at, label in enumerate(labels)]
        return super()._dispatch_prompts_to_vllm(prompts, labels, images=images, **kwargs)

    def _generate_vllm(self, *args, **kwargs):
        experiences, consumed, exhausted = super()._generate_vllm(*args, **kwargs)
        return sorted(experiences, key=_identity), consumed, exhausted


def _identity(experience) -> tuple[int, int]:
    return int(experience.info["position"].item()), int(experience.info["sample_index"].item())
