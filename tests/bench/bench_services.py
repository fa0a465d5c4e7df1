"""The services' client: 512 rollouts of three tool turns and a rating, 128 at once, a second an answer; and a warm cache.

Beside it a bare aiohttp client that sends the same chains of requests, and the time that 128 lanes without any overhead take.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import tempfile
import time
from heapq import heapify, heapreplace
from pathlib import Path

import aiohttp
import psutil

from slca_core.config import JudgeConfig, MockerConfig, ServicesConfig
from slca_core.conversation import chat
from slca_core.judges.summary import judge_prompt
from slca_core.policy import train_tokenizer
from slca_core.processes.supervise import free_port, serve
from slca_core.services.cache import AnswerCache
from slca_core.services.client import Line
from slca_core.services.frozen import Clients
from tests.bench.measure import Row
from tests.support import played
from tests.support.endpoint import latency_of

ROLLOUTS, TURNS, IN_FLIGHT, LATENCY_S, REPEATS = 512, 3, 128, 1.0, 10_000


class Heard(Line):
    """A line that notes what was asked on it."""

    prompts: list[str]

    async def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        return await super().__call__(prompt)


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        argv = [sys.executable, "-m", "tests.support.endpoint", str(port), str(LATENCY_S)]
        with serve("endpoint", argv, port=port, log=Path(folder) / "endpoint.log", timeout_s=60) as url:
            return [*_load(f"{url}/v1", Path(folder)), *_warm(f"{url}/v1", Path(folder))]


def _services(**settings) -> ServicesConfig:
    external = {"managed": "external", "url": "http://named.below/v1", "model": "m", **settings}
    return ServicesConfig(mocker=MockerConfig(**external), judge=JudgeConfig(**external))


def _load(url: str, folder: Path) -> list[Row]:
    one = played.sample(1, TURNS)
    tokenizer = train_tokenizer([chat.render(one.prompt, one.tools)], 400)
    resident = psutil.Process().memory_info().rss
    ours_s, chains = asyncio.run(_play(url, tokenizer, folder))
    grown = (psutil.Process().memory_info().rss - resident) / 2**20
    bare_s = asyncio.run(_send(url, chains))
    ideal_s = _ideal(chains)
    name = f"{ROLLOUTS} rollouts of {TURNS} tool turns, {IN_FLIGHT} at once"
    return [
        Row(name, 1, "slca", ours_s, 1.0, note=f"cache on; resident memory grew by {grown:.0f} MiB"),
        Row(name, 1, "bare aiohttp", bare_s, bare_s / ours_s, note="the same requests, no rollouts, no cache"),
        Row(name, 1, "no overhead", ideal_s, ideal_s / ours_s, note=f"latencies alone; ours is {ours_s / ideal_s:.3f} times it"),
    ]


async def _play(url: str, tokenizer, folder: Path) -> tuple[float, list[list[str]]]:
    clients = Clients(_services(), {"mocker": url, "judge": url}, AnswerCache(folder / "answers.sqlite"))
    slots, chains = asyncio.Semaphore(IN_FLIGHT), []

    async def roll(number: int) -> None:
        async with slots:
            sample, prompts = played.sample(number, TURNS), []
            lines = clients.lines(sample.sample_id)
            for line in (lines.mocker, lines.judge):
                line.__class__, line.prompts = Heard, prompts
            chains.append(prompts)
            record = await played.play(tokenizer, sample, lines)
            assert record.error is None, record.error

    started = time.perf_counter()
    await asyncio.gather(*map(roll, range(ROLLOUTS)))
    seconds = time.perf_counter() - started
    await clients.close()
    return seconds, chains


async def _send(url: str, chains: list[list[str]]) -> float:
    slots = asyncio.Semaphore(IN_FLIGHT)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=IN_FLIGHT)) as session:

        async def send(chain: list[str]) -> None:
            async with slots:
                for prompt in chain:
                    body = {"model": "m", "messages": [{"role": "user", "content": prompt}]}
                    async with session.post(f"{url}/chat/completions", json=body) as response:
                        await response.json()

        started = time.perf_counter()
        await asyncio.gather(*map(send, chains))
        return time.perf_counter() - started


def _ideal(chains: list[list[str]]) -> float:
    """When the last of the lanes is done, each taking the next chain as soon as it is free."""
    lanes = [0.0] * IN_FLIGHT
    heapify(lanes)
    for chain in chains:
        heapreplace(lanes, lanes[0] + sum(latency_of(prompt, LATENCY_S) for prompt in chain))
    return max(lanes)


def _warm(url: str, folder: Path) -> list[Row]:
    path = folder / "warm.sqlite"
    prompt = judge_prompt("q", ['{"value": 1}'], "The value is 1.")

    async def ask() -> float:
        clients = Clients(_services(temperature=0.0), {"mocker": url, "judge": url}, AnswerCache(path))
        line = clients.lines("anybody").judge
        await line(prompt)
        started = time.perf_counter()
        for _ in range(REPEATS):
            await line(prompt)
        seconds = time.perf_counter() - started
        assert line.usage.requests == 1
        await clients.close()
        return seconds

    ours_s = asyncio.run(ask())
    connection = sqlite3.connect(path)
    (key,) = connection.execute("SELECT key FROM answers").fetchone()
    started = time.perf_counter()
    for _ in range(REPEATS):
        connection.execute("SELECT text FROM answers WHERE key = ?", (key,)).fetchone()
    bare_s = time.perf_counter() - started
    name = f"{REPEATS:,} ratings from the cache"
    return [
        Row(name, 1, "slca", ours_s, 1.0, note="one after the other, no request"),
        Row(name, 1, "sqlite3", bare_s, bare_s / ours_s, note="the same rows, no client, no event loop, key known"),
    ]
