"""One client for every frozen model: OpenAI-compatible chat completions under a bound, with retries, a breaker and a cache."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
from httpx_aiohttp import HttpxAiohttpClient

from slca_core.config import ServiceConfig
from slca_core.errors import ConfigError, ServiceError
from slca_core.services.breaker import Breaker
from slca_core.services.cache import AnswerCache, Question
from slca_core.services.usage import Fault, Usage

_PASSING = frozenset({408, 409, *range(500, 600)})
# Not of this prompt: a wrong key, no leave, a wrong address or model.
_OF_EVERY_CALL = frozenset({401, 403, 404})
_JITTER = 0.25


@dataclass(frozen=True)
class _Failure:
    """One request without an answer."""

    fault: Fault
    problem: str
    again: bool = True
    of_every_call: bool = True
    retry_after_s: float = 0.0

    def is_outage(self, ends: float) -> bool:
        """Whether nobody listens, at a time when one still waits for that to change."""
        return self.fault == "connection" and time.monotonic() < ends


def find_key(variable: str | None, name: str) -> str | None:
    """The key of what is called `name` in an environment variable, if it has one; ConfigError if the environment lacks it."""
    if variable is None:
        return None
    if not (key := os.environ.get(variable)):
        raise ConfigError(f"The key of the {name} was expected in the environment variable {variable}, which is not set.")
    return key


@dataclass
class ChatClient:
    """Puts single-message questions to one service. Make one per event loop; `close` it at the end.

    Args:
        role: as in a study's `services`.
        url: of the /v1 root.
        cache: where answers are kept and found; None asks for each.
        identity: what of the service bears on its answers (`frozen.identity`), for the cache.
        reads: whether an answer is one that can be read; others are given, and not kept.
        offline: what the cache does not have is an error, nobody is asked.
    """

    role: str
    url: str
    config: ServiceConfig
    cache: AnswerCache | None = None
    identity: Mapping[str, Any] = field(default_factory=dict)
    reads: Callable[[str], bool] = lambda _: True
    offline: bool = False
    transport: httpx.AsyncBaseTransport | None = None

    def __post_init__(self) -> None:
        self.name = self.role.replace("_", " ")
        self._key = None if self.offline else find_key(self.config.api_key_env, self.name)
        self._http = HttpxAiohttpClient(
            base_url=self.url,
            # A request as a whole is timed below.
            timeout=None,
            limits=httpx.Limits(max_connections=self.config.concurrency, max_keepalive_connections=self.config.concurrency),
            headers={"Authorization": f"Bearer {self._key or 'EMPTY'}"},
            trust_env=False,
            transport=self.transport,
        )
        self._slots = asyncio.Semaphore(self.config.concurrency)
        self._breaker = Breaker(f"The {self.name} at {self.url}", self.config.breaker_calls, self.config.breaker_probe_s)
        self._asking: dict[str, asyncio.Event] = {}

    def line(self, asker: str | None = None) -> Line:
        """For one rollout. `asker` is who it is: without one, the same question has the same answer whoever asks."""
        return Line(self, asker)

    async def ask(self, prompt: str, usage: Usage, asker: str | None = None) -> str:
        """The answer to one user message, from the cache or the service; what it cost goes on `usage`.

        Raises:
            ServiceError: the retries are used up, the request is refused, or nobody has been answered for long.
        """
        usage.calls += 1
        if self.cache is None:
            return await self._fetch(prompt, usage)
        question = Question(dict(self.identity), prompt, asker)
        while (answer := await self.cache.get(question)) is None:
            if (asked := self._asking.get(question.key)) is None:
                return await self._fetch_and_keep(question, usage)
            await asked.wait()
        usage.cached += 1
        return answer

    async def close(self) -> None:
        await self._http.aclose()

    async def _fetch_and_keep(self, question: Question, usage: Usage) -> str:
        """Whoever asks the same meanwhile waits for this answer."""
        assert self.cache is not None
        event = self._asking[question.key] = asyncio.Event()
        try:
            answer = await self._fetch(question.prompt, usage)
            return await self.cache.put(question, answer) if self.reads(answer) else answer
        finally:
            del self._asking[question.key]
            event.set()

    async def _fetch(self, prompt: str, usage: Usage) -> str:
        if self.offline:
            usage.failed += 1
            raise ServiceError(f"An answer of the {self.name} was expected in the cache, it has none to this question.")
        body = {
            "model": self.config.model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": self.config.temperature,
            "max_tokens": self.config.max_tokens,
            **self.config.extra_body,
        }
        started = time.monotonic()
        try:
            # Kept between the tries: a service in trouble is not asked by more at once, and is found dead before all have asked.
            async with self._slots:
                text = await self._post_with_retries(body, usage)
        except ServiceError:
            usage.failed += 1
            raise
        usage.seconds += time.monotonic() - started
        return text

    async def _post_with_retries(self, body: dict[str, Any], usage: Usage) -> str:
        failure, tries = None, 0
        outage_ends = time.monotonic() + self.config.patience_s
        while failure is None or (failure.again and (tries <= self.config.retries or failure.is_outage(outage_ends))):
            if failure:
                # The paper's back-off, 1 s or 2 s times the attempt, and up to a quarter more, so that not all come back at once.
                attempt = min(tries, self.config.retries + 1)
                back_off_s = self.config.retry_delay_s * attempt * (1 + random.uniform(0, _JITTER))
                await asyncio.sleep(max(back_off_s, min(failure.retry_after_s, self.config.timeout_s)))
            self._breaker.let_through()
            answer = await self._post(body, usage)
            tries += 1
            if isinstance(answer, str):
                self._breaker.answered()
                return answer
            failure = answer
            usage.count(failure.fault)
        if failure.of_every_call:
            self._breaker.unanswered(failure.problem)
        after = "one try" if tries == 1 else f"{tries} tries"
        raise ServiceError(f"The {self.name} at {self.url} was expected to answer; after {after}: {failure.problem}")

    async def _post(self, body: dict[str, Any], usage: Usage) -> str | _Failure:
        """One request: the text of its answer, or why there is none."""
        usage.requests += 1
        try:
            async with asyncio.timeout(self.config.timeout_s):
                response = await self._http.post("/chat/completions", json=body)
        except TimeoutError:
            return _Failure("timeout", f"no answer within {self.config.timeout_s:g} s")
        except httpx.HTTPError as error:
            # The transport, which has no time limit of its own, calls a connection that was lost a ConnectTimeout.
            timed_out = isinstance(error, httpx.TimeoutException) and error.__cause__ is None
            return _Failure("timeout" if timed_out else "connection", _explain(error.__cause__ or error))
        except asyncio.CancelledError as error:
            if _is_being_cancelled():
                raise
            return _Failure("cancelled", _explain(error))
        if response.status_code == 200:
            text = _text_of(response, usage)
            if text is None:
                return _Failure("unreadable", f"its answer is no chat completion: {self._start_of(response)}")
            return text
        problem = f"HTTP {response.status_code}: {self._start_of(response)}"
        if response.status_code == 429:
            return _Failure("rate_limited", problem, retry_after_s=_retry_after_s(response))
        if response.status_code in _PASSING:
            return _Failure("server_error", problem, retry_after_s=_retry_after_s(response))
        return _Failure("refused", problem, again=False, of_every_call=response.status_code in _OF_EVERY_CALL)

    def _start_of(self, response: httpx.Response) -> str:
        """What a message shows of a response; a server may repeat the key it was sent."""
        return (response.text.replace(self._key, "***") if self._key else response.text)[:200]


@dataclass
class Line:
    """One rollout's line to a service, with its own account. Its questions are told apart by their order."""

    client: ChatClient
    asker: str | None = None
    usage: Usage = field(default_factory=Usage)
    _asked: int = field(default=0, init=False)

    async def __call__(self, prompt: str) -> str:
        number, self._asked = self._asked, self._asked + 1
        return await self.client.ask(prompt, self.usage, None if self.asker is None else f"{self.asker}/{number}")


@dataclass(frozen=True, slots=True)
class Lines:
    """One rollout's lines to the frozen services."""

    mocker: Line
    judge: Line
    checker: Line | None = None

    def usage(self) -> dict[str, dict[str, float]]:
        lines = [line for line in (self.mocker, self.judge, self.checker) if line]
        return {line.client.role: line.usage.to_json() for line in lines}


def _text_of(response: httpx.Response, usage: Usage) -> str | None:
    try:
        answer = response.json()
        text = answer["choices"][0]["message"]["content"] or ""
        text.encode()  # JSON can spell half a character, which no file and no tokenizer takes.
        tokens = answer.get("usage") or {}
        usage.prompt_tokens += tokens.get("prompt_tokens") or 0
        usage.completion_tokens += tokens.get("completion_tokens") or 0
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    return str(text)


def _retry_after_s(response: httpx.Response) -> float:
    """What the header asks for, in seconds or as a date; 0 without one that can be read."""
    value = response.headers.get("Retry-After", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return 0.0


def _is_being_cancelled() -> bool:
    """Whether the running task itself is; else somebody cancelled only what it waits for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _explain(error: BaseException) -> str:
    return f"{type(error).__name__} {error}".strip()
