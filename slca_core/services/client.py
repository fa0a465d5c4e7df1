"""One client for every frozen model: OpenAI-compatible chat completions, bounded concurrency, retries with growing delay."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, field
from typing import Any

import httpx
from httpx_aiohttp import HttpxAiohttpClient

from slca_core.config import ServiceConfig
from slca_core.errors import ConfigError, ServiceError

_RETRIED = frozenset({408, 409, 429, *range(500, 600)})


@dataclass
class Usage:
    """What a service cost so far."""

    calls: int = 0
    failures: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0


@dataclass
class ChatClient:
    """Sends single-message chats to one service. Make one per event loop; `close` it at the end."""

    name: str
    url: str
    config: ServiceConfig
    usage: Usage = field(default_factory=Usage)
    transport: httpx.AsyncBaseTransport | None = None

    def __post_init__(self) -> None:
        self._http = HttpxAiohttpClient(
            base_url=self.url,
            timeout=self.config.timeout_s,
            limits=httpx.Limits(max_connections=self.config.concurrency),
            headers={"Authorization": f"Bearer {self._key()}"},
            trust_env=False,
            transport=self.transport,
        )
        self._slots = asyncio.Semaphore(self.config.concurrency)

    async def ask(self, prompt: str) -> str:
        """The answer to one user message; ServiceError once the retries are used up or the request is refused."""
        body = {
            "model": self.config.model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": self.config.temperature,
            "max_tokens": self.config.max_tokens,
        }
        self.usage.calls += 1
        started = time.monotonic()
        try:
            async with self._slots:
                answer, text = await self._post_with_retries(body)
        except ServiceError:
            self.usage.failures += 1
            raise
        finally:
            self.usage.seconds += time.monotonic() - started
        tokens = answer.get("usage") or {}
        self.usage.prompt_tokens += tokens.get("prompt_tokens") or 0
        self.usage.completion_tokens += tokens.get("completion_tokens") or 0
        return text

    def _key(self) -> str:
        variable = self.config.api_key_env
        if variable is None:
            return "EMPTY"
        if not (key := os.environ.get(variable)):
            raise ConfigError(f"The key of the {self.name} was expected in the environment variable {variable}, which is not set.")
        return key

    async def _post_with_retries(self, body: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """The service's JSON answer and the text in it."""
        problem = ""
        for attempt in range(self.config.retries + 1):
            if attempt:
                await asyncio.sleep(self.config.retry_delay_s * attempt)
            try:
                response = await self._http.post("/chat/completions", json=body)
            except httpx.HTTPError as error:
                problem = f"{type(error).__name__} {error}".strip()
                continue
            if response.status_code == 200:
                try:
                    answer = response.json()
                    return answer, answer["choices"][0]["message"]["content"] or ""
                except (ValueError, LookupError, TypeError):
                    problem = f"its answer is no chat completion: {response.text[:200]}"
                    continue
            problem = f"HTTP {response.status_code}: {response.text[:200]}"
            if response.status_code not in _RETRIED:
                break
        tries = "one try" if attempt == 0 else f"{attempt + 1} tries"
        raise ServiceError(f"The {self.name} at {self.url} was expected to answer; after {tries}: {problem}")

    async def close(self) -> None:
        await self._http.aclose()
