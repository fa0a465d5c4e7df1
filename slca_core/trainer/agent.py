"""OpenRLHF's agent (`--train.agent_func_path`): plays and scores rollouts inside the vLLM actor.

Numbers and the rollout's identity travel on through `extra_logs`; the record itself is spooled for the trainer, which adds the
advantages.
"""

from __future__ import annotations

import asyncio
import json
from copy import copy
from typing import Any

from openrlhf.utils.agent import AgentExecutorBase

from slca_core.conversation.dialogue import Sample
from slca_core.conversation.tokens import Tokenizer
from slca_core.rollout import Generate, Generated, roll, rollout_seed
from slca_core.services.frozen import Clients, open_cache, read_keys
from slca_core.trainer import ledger
from slca_core.trainer.labels import sample_from_label
from slca_core.trainer.spec import load_spec

# What of a record the trainer needs at once, as numbers.
LOGGED = ("r_tool", "r_sum", "outcome", "action", "cut_calling")
_REPLAYS = 2


class AgentExecutor(AgentExecutorBase):
    """One a vLLM actor. The label carries the sample, the update and the prompt's position as JSON."""

    def __init__(self) -> None:
        self.spec = load_spec()
        services = self.spec.services
        read_keys(self.spec.key_files)
        machine = self.spec.machine
        cache = open_cache(services, self.spec.root, machine)
        self.clients = Clients(services, self.spec.urls, cache, shares=getattr(machine, "vllm_engines", 1))
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

        rollout_id = f"{update:05d}-{task['position']:04d}-{sample_index:03d}"
        spooled = ledger.read_spooled(self.spec.spool, rollout_id)
        if spooled is None:
            spooled = await self._roll(sample, hf_tokenizer, generate, rollout_id, update, sample_index)
            await asyncio.to_thread(ledger.spool, self.spec.spool, spooled)
        record = spooled.record
        reward = record["r_tool"] + record["r_sum"]
        return {
            "prompt": prompt,
            "label": label,
            "images": images,
            "mm_train_inputs": None,
            "reward": reward,
            "scores": reward,
            "observation_tokens": list(record["token_ids"]),
            "action_ranges": [tuple(pair) for pair in record["action_ranges"]],
            "rollout_log_probs": spooled.logprobs,
            "truncated": record["truncated"],
            "extra_logs": {
                **{name: float(record[name]) for name in LOGGED},
                "failed": float(record["error"] is not None),
                "position": float(task["position"]),
                "sample_index": float(sample_index),
            },
        }

    async def _roll(
        self, sample: Sample, tokenizer: Tokenizer, generate: Generate, rollout_id: str, update: int, sample_index: int
    ) -> ledger.Spooled:
        """One rollout; played again if it fails and the study says so. The services' answers it had are in the cache."""
        spec, asker = self.spec, self.spec.asker(update, sample.sample_id, sample_index)
        tries: list[dict[str, Any]] = []
        for _ in range(1 + (_REPLAYS if spec.rl.incomplete_groups == "retry" else 0)):
            trajectory, record = await roll(
                sample,
                tokenizer,
                generate,
                self.clients.lines(asker, mocker=spec.arm.mocker),
                spec.limits(),
                spec.arm.simulator,
                spec.scoring(),
                rollout_id=rollout_id,
                update=update,
                sample_index=sample_index,
            )
            tries.append(record.to_json())
            if record.error is None:
                break
        services = {role: usage.to_json() for role, usage in ledger.usage_by_role(tries).items()}
        return ledger.Spooled(tries[-1] | {"services": services}, trajectory.logprobs)
