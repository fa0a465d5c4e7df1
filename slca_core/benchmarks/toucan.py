"""Toucan-Test: the training's agent loop over the held-out prompts, against a served checkpoint, greedy and sampled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import httpx
from httpx_aiohttp import HttpxAiohttpClient

from slca_core.benchmarks.journal import Journal
from slca_core.config import ToucanTestConfig
from slca_core.conversation.dialogue import Sample
from slca_core.conversation.tokens import Tokenizer
from slca_core.errors import ServiceError
from slca_core.results import Trial
from slca_core.rewards.omission import success_weighted
from slca_core.rollout import Generated, Limits, Scoring, roll, rollout_seed
from slca_core.services.client import TRANSPORT_ERRORS, is_broken_connection
from slca_core.services.frozen import Clients
from slca_core.services.policy_server import PolicyServer

NAME = "toucan_test"
SUCCESS_AT = 0.9
_TRIES = 3


@dataclass(frozen=True)
class Protocol:
    """How an evaluation is done: sampling and concurrency, limits of the rollouts, scoring."""

    settings: ToucanTestConfig
    limits: Limits
    scoring: Scoring
    seed: int


async def evaluate(
    samples: Sequence[Sample],
    tokenizer: Tokenizer,
    server: PolicyServer,
    clients: Clients,
    protocol: Protocol,
    *,
    finished: Journal | None = None,
    on_done: Callable[[], None] = lambda: None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> list[tuple[int, dict[str, Any]]]:
    """(trial, record as JSON) of every item: trial 0 greedy, the others sampled. The simulator is SGLS for every checkpoint.

    Args:
        finished: rollouts of an earlier attempt, which are not played again, and where new ones go.
        transport: answers the policy server's requests in place of the network.
    """
    settings, finished = protocol.settings, finished or Journal(None)
    slots = asyncio.Semaphore(settings.concurrency)
    limit = httpx.Limits(max_connections=settings.concurrency)
    policy = HttpxAiohttpClient(base_url=server.url, timeout=600, limits=limit, trust_env=False, transport=transport)
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(policy)
        stack.push_async_callback(clients.close)

        async def one(sample: Sample, trial: int) -> tuple[int, dict[str, Any]]:
            temperature, identity = settings.temperature if trial else 0.0, f"{sample.sample_id}-{trial}"
            record = finished.get(identity)
            if record is None:

                async def generate(token_ids: list[int], budget: int, turn: int) -> Generated:
                    turn_seed = rollout_seed(protocol.seed, 0, sample.sample_id, trial, turn)
                    return await _complete(http, server.model, token_ids, budget, temperature, turn_seed)

                async with slots:
                    started = time.monotonic()
                    _, played = await roll(
                        sample,
                        tokenizer,
                        generate,
                        clients.lines(identity, one_world=True),
                        protocol.limits,
                        "sgls",
                        protocol.scoring,
                        rollout_id=identity,
                        update=0,
                        sample_index=trial,
                    )
                record = finished.add({**played.to_json(), "seconds": time.monotonic() - started})
            on_done()
            return trial, record

        return await asyncio.gather(*(one(sample, trial) for trial in range(settings.samples + 1) for sample in samples))


async def _complete(
    http: httpx.AsyncClient, model: str, token_ids: list[int], budget: int, temperature: float, seed: int
) -> Generated:
    body = {
        "model": model,
        "prompt": token_ids,
        "max_tokens": budget,
        "temperature": temperature,
        "seed": seed,
        "skip_special_tokens": False,
        "return_token_ids": True,
    }
    response = await _post(http, body)
    if response.status_code != 200:
        raise ServiceError(f"The policy server at {http.base_url} answered HTTP {response.status_code}: {response.text[:300]}")
    try:
        choice = response.json()["choices"][0]
        return Generated(choice["token_ids"], choice["finish_reason"] == "length")
    except (ValueError, LookupError, TypeError, RecursionError):
        raise ServiceError(
            f"The policy server at {http.base_url} was expected to answer with token ids (vLLM's return_token_ids), "
            f"found: {response.text[:300]}"
        ) from None


async def _post(http: httpx.AsyncClient, body: dict[str, Any]) -> httpx.Response:
    """Tries again where the connection broke: a server may close an idle one just as it is used. Requests are seeded."""
    for attempt in range(_TRIES):
        try:
            return await http.post("/v1/completions", json=body)
        except TRANSPORT_ERRORS as error:
            problem = f"{type(error).__name__} {error}".strip()
            if not is_broken_connection(error):
                break
            await asyncio.sleep(0.2 * attempt)
    raise ServiceError(f"The policy server at {http.base_url} went away during the evaluation: {problem}")


def metrics(record: Mapping[str, Any]) -> dict[str, float]:
    """The Toucan-Test metrics of one rollout's record."""
    return {
        "success_process": float(record["process"] >= SUCCESS_AT),
        "success_weighted": float(success_weighted(record["r_tool"], record["r_sum"]) >= SUCCESS_AT),
        "process": record["process"],
        "name_f1": record["name"],
        "argument_match": (record["key"] + record["val"]) / 2,
        "exact": record["exact"],
        "format_valid": record["fmt"],
        "judge": record["summary_score"],
        "no_call": float(record["omitted"]),
        "tool_turns": float(record["tool_turns"]),
        "truncated": float(record["truncated"]),
    }


def as_trials(results: Iterable[tuple[int, Mapping[str, Any]]]) -> list[Trial]:
    """The rollouts as `slca_core.results` has them."""
    return [
        Trial(
            subset=record["subset"],
            item=record["sample_id"],
            trial=trial,
            sampling="sampled" if trial else "greedy",
            metrics=metrics(record),
            error=record["error"],
            tokens=sum(end - start for start, end in record["action_ranges"]),
            seconds=record["seconds"],
        )
        for trial, record in results
    ]
