"""Many rollouts at once: as many under way as asked for, nothing held on to, no request where the cache is warm."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc

import pytest

from slca_core.conversation import chat
from slca_core.judges.summary import judge_prompt, parse_rating
from slca_core.policy import train_tokenizer
from slca_core.services.cache import AnswerCache
from slca_core.services.frozen import Clients
from slca_core.services.usage import Usage
from tests.services.test_faults import services
from tests.support import played
from tests.support.endpoint import Endpoint, listening

TURNS, IN_FLIGHT, REPEATS = 3, 64, 10_000


@pytest.fixture(scope="module")
def tokenizer():
    one = played.sample(1, TURNS)
    return train_tokenizer([chat.render(one.prompt, one.tools)], 400)


async def play_all(tokenizer, clients: Clients, numbers: range) -> int:
    """How many rollouts had no failure."""
    slots, good = asyncio.Semaphore(IN_FLIGHT), 0

    async def one(number: int) -> None:
        nonlocal good
        async with slots:
            sample = played.sample(number, TURNS)
            record = await played.play(tokenizer, sample, clients.lines(sample.sample_id))
            good += record.error is None

    await asyncio.gather(*map(one, numbers))
    return good


def test_as_many_are_in_flight_as_there_are_rollouts_at_once(tokenizer):
    endpoint = Endpoint(latency_s=0.3)

    async def run() -> int:
        async with listening(endpoint) as url:
            clients = Clients(services(), {"mocker": url, "judge": url}, None)
            good = await play_all(tokenizer, clients, range(4 * IN_FLIGHT))
            await clients.close()
            return good

    assert asyncio.run(run()) == 4 * IN_FLIGHT
    assert endpoint.asked.total() == 4 * IN_FLIGHT * (TURNS + 1)
    assert 0.8 * IN_FLIGHT <= endpoint.most_at_once <= IN_FLIGHT


def test_rollouts_that_are_over_leave_nothing_in_memory(tokenizer, tmp_path):
    batch = 2 * IN_FLIGHT

    async def run() -> list[int]:
        async with listening(Endpoint()) as url:
            clients = Clients(services(), {"mocker": url, "judge": url}, AnswerCache(tmp_path / "answers.sqlite"))
            held = []
            for start in range(0, 5 * batch, batch):
                assert await play_all(tokenizer, clients, range(start, start + batch)) == batch
                gc.collect()
                # The endpoint of this test, in the same process, keeps every prompt it saw.
                found = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*slca_core*")])
                held.append(sum(trace.size for trace in found.traces))
            await clients.close()
            return held

    tracemalloc.start()
    try:
        held = asyncio.run(run())
    finally:
        tracemalloc.stop()
    # A rollout's own record is some 20 kB.
    assert held[-1] - held[1] < batch * 1_000, f"bytes after each {batch} rollouts: {held}"


def test_a_warm_cache_answers_without_a_request(tmp_path):
    endpoint, usage = Endpoint(), Usage()
    prompt = judge_prompt("q", ['{"value": 1}'], "The value is 1.")

    async def run() -> set[str | None]:
        async with listening(endpoint) as url:
            clients = Clients(services(temperature=0.0), {"judge": url, "mocker": url}, AnswerCache(tmp_path / "answers.sqlite"))
            line = clients.lines("anybody").judge
            line.usage = usage
            answers = [parse_rating(await line(prompt)) for _ in range(REPEATS)]
            await clients.close()
            return set(answers)

    assert asyncio.run(run()) == {"good"}
    assert (endpoint.asked.total(), usage.calls, usage.cached) == (1, REPEATS, REPEATS - 1)
