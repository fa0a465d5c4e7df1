"""OpenRLHF's agent (`--train.agent_func_path`): plays and scores rollouts inside the vLLM actor.

Numbers and the rollout's identity travel on through `extra_logs`; the record itself is spooled for the trainer, which adds the
advantages.
"""

from __future__ import annotations

import asyncio
import json
import os
from copy import copy
from typing import Any

from openrlhf.utils.agent import AgentExecutorBase

from slca_core.rollout import Generated, RolloutRecord, play, rollout_seed, score
from slca_core.services.client import ChatClient
from slca_core.trainer.labels import sample_from_label
from slca_core.trainer.spec import load_spec

# What of a record the trainer needs at once, as numbers.
LOGGED = ("r_tool", "r_sum", "outcome", "action", "cut_calling")


class AgentExecutor(AgentExecutorBase):
    """One a vLLM actor. The label carries the sample, the update and the prompt's position as JSON."""

    def __init__(self) -> None:
        self.spec = load_spec()
        services = self.spec.services
        self.mocker = ChatClient("mocker", self.spec.mocker_url, services.mocker)
        self.judge = ChatClient("judge", self.spec.judge_url, services.judge)
        self.spec.spool.mkdir(parents=True, exist_ok=True)

    async def execute(
        self, prompt, label, sampling_params, max_length, hf_tokenizer, llm_engine, images=None, sample_index: int = 0
    ) -> dict[str, Any]:
        """One rollout, in the form stock `MultiTurnAgentExecutor.execute` returns."""
        task = json.loads(label)
        sample, update = sample_from_label(task), task["update"]

        async def generate(token_ids: list[int], budget: int, turn: int) -> Generated:
            params = copy(sampling_params)
            params.max_tokens = budget
            params.seed = rollout_seed(self.spec.sampling_seed, update, sample.sample_id, sample_index, turn)
            output = (await llm_engine.generate(token_ids, params)).outputs[0]
            logprobs = None
            if output.logprobs is not None:
                logprobs = [chosen[token].logprob for token, chosen in zip(output.token_ids, output.logprobs, strict=True)]
            return Generated(list(output.token_ids), output.finish_reason == "length", logprobs)

        trajectory = await play(sample, hf_tokenizer, generate, self.mocker.ask, self.spec.limits(), self.spec.arm.simulator)
        record = await score(
            sample,
            trajectory,
            self.judge.ask,
            self.spec.scoring(),
            rollout_id=f"{update:05d}-{task['position']:04d}-{sample_index:03d}",
            update=update,
            sample_index=sample_index,
        )
        await asyncio.to_thread(self._spool, record)
        reward = record.r_tool + record.r_sum
        return {
            "prompt": prompt,
            "label": label,
            "images": images,
            "mm_train_inputs": None,
            "reward": reward,
            "scores": reward,
            "observation_tokens": trajectory.token_ids,
            "action_ranges": trajectory.action_ranges,
            "rollout_log_probs": trajectory.logprobs,
            "truncated": trajectory.truncated,
            "extra_logs": {
                **{name: float(getattr(record, name)) for name in LOGGED},
                "position": float(task["position"]),
                "sample_index": float(sample_index),
            },
        }

    def _spool(self, record: RolloutRecord) -> None:
        final = self.spec.spool / f"{record.rollout_id}.json"
        unfinished = final.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps(record.to_json(), ensure_ascii=False))
        unfinished.replace(final)
