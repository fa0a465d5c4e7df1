"""Rollouts against services that fail in every way: each has its answer or a counted failure, and no score is silently 0."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys

import httpx
import pytest

from slca_core.config import REPOSITORY, JudgeConfig, MockerConfig, ServicesConfig
from slca_core.conversation import chat
from slca_core.errors import ServiceError
from slca_core.failures import BOUNDARIES, refuse_failures
from slca_core.policy import train_tokenizer
from slca_core.processes.supervise import free_port, serve
from slca_core.services.cache import AnswerCache
from slca_core.services.frozen import Clients
from slca_core.services.usage import FAULTS, total
from tests.support import played
from tests.support.endpoint import Endpoint, listening
from tests.support.waiting import wait_until

ROLLOUTS, TURNS = 60, 3
AT_ONCE = 16


@pytest.fixture(scope="module")
def tokenizer():
    one = played.sample(1, TURNS)
    return train_tokenizer([chat.render(one.prompt, one.tools)], 400)


def services(**settings) -> ServicesConfig:
    external = {"managed": "external", "url": "http://named.below/v1", "model": "m", "retry_delay_s": 0.0, **settings}
    return ServicesConfig(mocker=MockerConfig(**external), judge=JudgeConfig(**external))


def play_all(tokenizer, endpoint: Endpoint, cache: AnswerCache | None = None, **settings) -> list:
    async def run() -> list:
        async with listening(endpoint) as url:
            clients = Clients(services(**settings), {"mocker": url, "judge": url}, cache)
            try:
                samples = [played.sample(number, TURNS) for number in range(ROLLOUTS)]
                return await asyncio.gather(*(played.play(tokenizer, one, clients.lines(one.sample_id)) for one in samples))
            finally:
                await clients.close()

    return asyncio.run(run())


def usage_of(records, role: str | None = None):
    return total(usage for record in records for name, usage in record.services.items() if role in (None, name))


@pytest.mark.parametrize("retries", [0, 9])
def test_every_rollout_has_its_answers_or_a_failure_and_the_counts_are_the_endpoints(tokenizer, retries):
    endpoint = Endpoint(faults=0.3, seed=retries)
    records = play_all(tokenizer, endpoint, retries=retries, timeout_s=1.0, concurrency=AT_ONCE, breaker_calls=1000)
    used = usage_of(records)
    assert used.requests == endpoint.did.total()
    assert {fault: count for fault, count in used.faults.items() if count} == {
        deed: count for deed, count in endpoint.did.items() if deed in FAULTS
    }
    assert used.calls == used.failed + (used.requests - sum(used.faults.values()))
    failed = [record for record in records if record.error]
    assert used.failed == len(failed)
    assert bool(failed) == (retries == 0)
    assert all(record.error.partition(":")[0] in ("mocker", "judge") for record in failed)
    assert sum(record.broken_responses + record.unread for record in records) == endpoint.did["cut"]
    for record in records:
        assert record.r_sum > 0 or record.error or record.unread, "a score of 0 that nobody gave"
        assert len(record.observations) == TURNS or record.error


def test_no_more_questions_are_under_way_than_the_service_takes(tokenizer):
    endpoint = Endpoint(latency_s=0.1)
    play_all(tokenizer, endpoint, concurrency=AT_ONCE)
    # Mocker and judge are one endpoint here, with so many each.
    assert AT_ONCE // 2 <= endpoint.most_at_once <= 2 * AT_ONCE


def test_a_second_run_asks_nothing_and_scores_the_same(tokenizer, tmp_path):
    endpoint = Endpoint()
    first = play_all(tokenizer, endpoint, AnswerCache(tmp_path / "answers.sqlite"))
    asked = endpoint.asked.total()
    second = play_all(tokenizer, endpoint, AnswerCache(tmp_path / "answers.sqlite"))
    assert endpoint.asked.total() == asked
    assert usage_of(second).cached == usage_of(second).calls == ROLLOUTS * (TURNS + 1)
    assert [(record.r_tool, record.r_sum, record.observations) for record in first] == [
        (record.r_tool, record.r_sum, record.observations) for record in second
    ]


def test_a_dead_service_is_given_up_by_all_after_a_few_calls(tokenizer):
    endpoint = Endpoint(faults=1.0)
    endpoint.draw.choice = lambda _: "server_error"
    records = play_all(tokenizer, endpoint, retries=1, concurrency=4, breaker_calls=4)
    assert all("mocker: ServiceError" in record.error for record in records)
    # Those in flight when it opened may each have sent their last.
    assert endpoint.asked.total() <= 2 * 4 + 4
    assert any("has not answered" in record.error for record in records)
    with pytest.raises(ServiceError, match=r"Update 1: 60 of 60 rollouts failed \(mocker 60; the first says: mocker: ServiceError"):
        refuse_failures([record.to_json() for record in records], 0.02, "Update 1")


@pytest.mark.parametrize(
    ("failed", "unread", "limit", "stops"),
    [
        *((0, 0, 0.02, ""), (2, 0, 0.02, ""), (0, 2, 0.02, ""), (2, 2, 0.02, ""), (1, 99, None, "")),
        *((3, 0, None, "failure_limit"), (0, 3, 0.02, "unread_limit"), (3, 3, 0.02, "failure_limit")),
    ],
)
def test_a_step_stops_above_the_studys_limits_on_failures_and_on_unread_answers_each(failed, unread, limit, stops):
    good = {"error": None, "unread": 0}
    records = [good | {"error": "judge: gone"}] * failed + [good | {"unread": 1}] * unread + [good] * (100 - failed - unread)
    if stops:
        with pytest.raises(ServiceError, match=rf"over the study's limit of 2% \(services.{stops}\)"):
            refuse_failures(records, 0.02, "Update 1", unread_limit=limit)
    else:
        refuse_failures(records, 0.02, "Update 1", unread_limit=limit)


def test_every_boundary_has_a_name_of_its_own():
    assert len(set(BOUNDARIES)) == len(BOUNDARIES)


RUN = """
import asyncio, sys
from pathlib import Path
from slca_core.conversation import chat
from slca_core.policy import train_tokenizer
from slca_core.services.cache import AnswerCache
from slca_core.services.frozen import Clients
from tests.support import played
from tests.services.test_faults import AT_ONCE, ROLLOUTS, TURNS, services

url, path = sys.argv[1:]
samples = [played.sample(number, TURNS) for number in range(ROLLOUTS)]
tokenizer = train_tokenizer([chat.render(samples[0].prompt, samples[0].tools)], 400)

async def run():
    clients = Clients(services(concurrency=AT_ONCE // 2), {"mocker": url, "judge": url}, AnswerCache(Path(path)))
    records = await asyncio.gather(*(played.play(tokenizer, one, clients.lines(one.sample_id)) for one in samples))
    print(sum(record.error is None for record in records))
    await clients.close()

asyncio.run(run())
"""


def test_killed_and_run_again_it_repeats_at_most_what_was_in_flight(tmp_path):
    port = free_port()
    argv = [sys.executable, "-m", "tests.support.endpoint", str(port), "0.05"]
    with serve("endpoint", argv, port=port, log=tmp_path / "endpoint.log", timeout_s=60) as url:

        def ledger() -> dict:
            return httpx.get(f"{url}/ledger", trust_env=False).json()

        command = [sys.executable, "-c", RUN, f"{url}/v1", str(tmp_path / "answers.sqlite")]
        killed = subprocess.Popen(command, cwd=REPOSITORY)
        assert wait_until(lambda: ledger()["requests"] >= ROLLOUTS, 120)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        again = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
        assert json.loads(again.stdout) == ROLLOUTS
        found = ledger()
        assert found["questions"] >= ROLLOUTS * TURNS
        assert found["requests"] - found["questions"] <= AT_ONCE
