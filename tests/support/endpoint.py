"""A frozen service that takes its time and misbehaves as it is told, and keeps a ledger of what it was asked and what it did.

python -m tests.support.endpoint PORT [LATENCY_S [FAULTS [SEED]]]       the ledger is at /ledger
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256

from aiohttp import web

from slca_core.processes.supervise import LOOPBACK, free_port

# What one request in so many meets, each as often as the others.
MISDEEDS = ("rate_limited", "server_error", "unreadable", "cut", "timeout", "connection")
RATING = "<response><response_quality><reasoning>r</reasoning><rating>good</rating></response_quality></response>"


def answer_to(prompt: str) -> str:
    """As the role asks: a rating, or a tool's response that follows from the prompt."""
    if "<final_response>" in prompt:
        return RATING
    return f'<tool_response>\n{{"value": "{sha256(prompt.encode()).hexdigest()[:8]}"}}\n</tool_response>'


def latency_of(prompt: str, mean_s: float) -> float:
    """Half to three halves of the mean, the same for the same prompt."""
    return mean_s * (0.5 + int.from_bytes(sha256(prompt.encode()).digest()[:8]) / 2**64)


class Endpoint:
    """Chat completions after `latency_of` the prompt, a share of `faults` of the requests misdone.

    Attributes:
        did: what became of how many requests; "answered" is among it.
        asked: prompt -> how often.
        most_at_once: requests under way together, at the most.
    """

    def __init__(self, latency_s: float = 0.0, faults: float = 0.0, seed: int = 0) -> None:
        self.latency_s, self.faults, self.draw = latency_s, faults, random.Random(seed)
        self.did: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.at_once = self.most_at_once = 0
        self.closing = asyncio.Event()

    async def complete(self, request: web.Request) -> web.StreamResponse:
        prompt = (await request.json())["messages"][0]["content"]
        self.asked[prompt] += 1
        deed = self.draw.choice(MISDEEDS) if self.draw.random() < self.faults else "answered"
        self.did[deed] += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await (self.closing.wait() if deed == "timeout" else asyncio.sleep(latency_of(prompt, self.latency_s)))
            return self._do(deed, request, prompt)
        finally:
            self.at_once -= 1

    def _do(self, deed: str, request: web.Request, prompt: str) -> web.StreamResponse:
        if deed == "rate_limited":
            return web.Response(status=429, headers={"Retry-After": "0"})
        if deed == "server_error":
            return web.Response(status=500)
        if deed == "unreadable":
            return web.Response(text="<html>busy</html>")
        if deed == "connection":
            assert request.transport is not None
            request.transport.abort()
        text = answer_to(prompt)
        text = text[: len(text) // 2] if deed == "cut" else text
        return web.json_response(
            {"choices": [{"message": {"content": text}}], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
        )

    async def ledger(self, _: web.Request) -> web.Response:
        counts = {"did": self.did, "requests": self.asked.total(), "questions": len(self.asked), "most_at_once": self.most_at_once}
        return web.json_response(counts)

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self.complete)
        app.router.add_get("/ledger", self.ledger)
        app.router.add_get("/health", self.ledger)
        return app


@asynccontextmanager
async def listening(endpoint: Endpoint) -> AsyncIterator[str]:
    """The URL of its /v1 root while the block runs."""
    runner = web.AppRunner(endpoint.app(), shutdown_timeout=0)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, LOOPBACK, port).start()
    try:
        yield f"http://{LOOPBACK}:{port}/v1"
    finally:
        endpoint.closing.set()
        await runner.cleanup()


if __name__ == "__main__":
    port, *settings = map(json.loads, sys.argv[1:])
    web.run_app(Endpoint(*settings).app(), host=LOOPBACK, port=port, print=None)
