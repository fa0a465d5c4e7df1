"""One client for every frozen model: OpenAI-compatible chat completions under a bound, with retries, a breaker and a cache."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import httpx
from httpx_aiohttp import HttpxAiohttpClient

from slca_core import secrets
from slca_core.config import ServiceConfig, api_url
from slca_core.errors import AnswerCut, ConfigError, PromptTooLong, ServiceError
from slca_core.services.breaker import Breaker
from slca_core.services.cache import AnswerCache, Question
from slca_core.services.usage import Fault, Usage

_PASSING = frozenset({408, 409, *range(500, 600)})
# Not of this prompt: a wrong key, no leave, a wrong address or model.
_OF_EVERY_CALL = frozenset({401, 403, 404})
_JITTER = 0.25
# A rate limit of a minute is waited for; a quota of a day is none that a run gets over.
_LONGEST_WAIT_S = 300.0
# Hundreds of times the longest answer that any service is asked for; a server that sends more would fill the memory.
MAX_ANSWER_BYTES = 16 * 2**20
# What servers say of a prompt that does not fit.
_OVERFLOW = (
    "context length",
    "maximum model length",
    "context_length_exceeded",
    "context window",
    "context size",
    "prompt is too long",
)
# What the transport raises beside httpx's own: what is no HTTP, a header too long, an address that is none.
TRANSPORT_ERRORS = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, aiohttp.ClientError, OSError, ValueError)


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


@dataclass(frozen=True)
class _Reply:
    """What came over the wire, whole."""

    status: int
    headers: Mapping[str, str]
    content: bytes


@dataclass(frozen=True)
class _Answer:
    """The text of an answer, and whether the service's limit of tokens cut it."""

    text: str
    cut: bool


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

    Raises:
        ConfigError: something that its settings refer to is not there.
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
        kept: list[Any] = [self.url, self.config.key, self.config.extra_body]
        self.url = secrets.public_url(self.url)
        url, key, self._extra = kept if self.offline else secrets.resolve(kept, self.name)
        # A server may repeat what it was sent.
        self._secrets = secrets.values_of(kept) | set(self.config.private.values())
        self._http = HttpxAiohttpClient(
            base_url=_require_url(url, self.name),
            # A request as a whole is timed below.
            timeout=None,
            limits=httpx.Limits(max_connections=self.config.concurrency, max_keepalive_connections=self.config.concurrency),
            headers={} if secrets.credentials(url) else {"Authorization": f"Bearer {key or 'EMPTY'}"},
            auth=secrets.credentials(url),
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
            PromptTooLong: the service's context cannot hold the prompt.
            AnswerCut: its limit of tokens cut the answer.
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
            **self._extra,
        }
        started = time.monotonic()
        try:
            # Kept between the tries: a service in trouble is not asked by more at once, and is found dead before all have asked.
            async with self._slots:
                answer = await self._post_with_retries(body, usage)
        except ServiceError:
            usage.failed += 1
            raise
        usage.seconds += time.monotonic() - started
        if answer.cut:
            usage.cut += 1
            raise AnswerCut(f"The {self.name} at {self.url} reached its {self.config.max_tokens} tokens (max_tokens).", answer.text)
        return answer.text

    async def _post_with_retries(self, body: dict[str, Any], usage: Usage) -> _Answer:
        failure, tries = None, 0
        outage_ends = time.monotonic() + self.config.patience_s
        while failure is None or (failure.again and (tries <= self.config.retries or failure.is_outage(outage_ends))):
            if failure:
                # The paper's back-off, 1 s or 2 s times the attempt, and up to a quarter more, so that not all come back at once.
                attempt = min(tries, self.config.retries + 1)
                back_off_s = self.config.retry_delay_s * attempt * (1 + random.uniform(0, _JITTER))
                await asyncio.sleep(max(back_off_s, failure.retry_after_s))
            self._breaker.let_through()
            answer = await self._post(body, usage)
            tries += 1
            if isinstance(answer, _Answer):
                self._breaker.answered()
                return answer
            failure = answer
            usage.count(failure.fault)
        if failure.of_every_call:
            self._breaker.unanswered(failure.problem)
        after = "one try" if tries == 1 else f"{tries} tries"
        kind = PromptTooLong if failure.fault == "overflow" else ServiceError
        raise kind(f"The {self.name} at {self.url} was expected to answer; after {after}: {failure.problem}")

    async def _post(self, body: dict[str, Any], usage: Usage) -> _Answer | _Failure:
        """One request: its answer, or why there is none."""
        usage.requests += 1
        try:
            async with asyncio.timeout(self.config.timeout_s):
                reply = await self._send(body)
        except TimeoutError:
            return _Failure("timeout", f"no answer within {self.config.timeout_s:g} s")
        except TRANSPORT_ERRORS as error:
            # The transport, which has no time limit of its own, calls a connection that was lost a ConnectTimeout.
            timed_out = isinstance(error, httpx.TimeoutException) and error.__cause__ is None
            return _Failure("timeout" if timed_out else "connection", self._hide(_explain(error.__cause__ or error)))
        except asyncio.CancelledError as error:
            if _is_being_cancelled():
                raise
            return _Failure("cancelled", _explain(error))
        if reply is None:
            return _Failure("unreadable", f"its answer has more than {MAX_ANSWER_BYTES / 2**20:.0f} MiB")
        if reply.status == 200:
            answer = _answer_in(reply.content, usage)
            return answer or _Failure("unreadable", f"its answer is no chat completion: {self._start_of(reply)}")
        return self._refusal(reply)

    async def _send(self, body: dict[str, Any]) -> _Reply | None:
        """What the server sends; None if there is no end of it."""
        async with self._http.stream("POST", "/chat/completions", json=body) as response:
            content = bytearray()
            async for chunk in response.aiter_bytes():
                content += chunk
                if len(content) > MAX_ANSWER_BYTES:
                    return None
            return _Reply(response.status_code, response.headers, bytes(content))

    def _refusal(self, reply: _Reply) -> _Failure:
        problem = f"HTTP {reply.status}: {self._start_of(reply)}"
        if reply.status == 429 or reply.status in _PASSING:
            fault: Fault = "rate_limited" if reply.status == 429 else "server_error"
            wait_s = _retry_after_s(reply)
            if wait_s > max(self.config.timeout_s, _LONGEST_WAIT_S):
                return _Failure(fault, f"{problem} It asks to come back in {_as_time(wait_s)} (Retry-After).", again=False)
            return _Failure(fault, problem, retry_after_s=wait_s)
        if reply.status in (400, 413, 422) and any(mark in reply.content.decode(errors="replace").lower() for mark in _OVERFLOW):
            return _Failure("overflow", problem, again=False, of_every_call=False)
        return _Failure("refused", problem, again=False, of_every_call=reply.status in _OF_EVERY_CALL)

    def _start_of(self, reply: _Reply) -> str:
        """What a message shows of an answer."""
        return self._hide(reply.content.decode(errors="replace"))[:200]

    def _hide(self, text: str) -> str:
        return secrets.hide(text, self._secrets)


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


def is_broken_connection(error: BaseException) -> bool:
    """Whether a connection broke, or spoke no HTTP; a lost one the transport calls a ConnectTimeout."""
    cause = error.__cause__ or error
    return isinstance(error, (httpx.NetworkError, httpx.RemoteProtocolError)) or (
        isinstance(cause, aiohttp.ClientError) and not isinstance(cause, TimeoutError)
    )


def _require_url(url: str, name: str) -> str:
    """A URL that references were filled into; without user and password, which go another way."""
    try:
        return api_url(secrets.public_url(url))
    except ValueError as error:
        raise ConfigError(f"The url of the {name} was expected to be a server's address: {error}.") from None


def _answer_in(content: bytes, usage: Usage) -> _Answer | None:
    """The answer in a chat completion; None if it is none, nested however deeply."""
    try:
        completion = json.loads(content)
        choice = completion["choices"][0]
        text = choice["message"]["content"] or ""
        text.encode()  # JSON can spell half a character, which no file and no tokenizer takes.
        tokens = completion.get("usage") or {}
        usage.prompt_tokens += tokens.get("prompt_tokens") or 0
        usage.completion_tokens += tokens.get("completion_tokens") or 0
        return _Answer(str(text), choice.get("finish_reason") == "length")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _retry_after_s(reply: _Reply) -> float:
    """What the header asks for, in seconds or as a date; 0 without one that can be read."""
    value = reply.headers.get("Retry-After", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return 0.0


def _as_time(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"


def _is_being_cancelled() -> bool:
    """Whether the running task itself is; else somebody cancelled only what it waits for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _explain(error: BaseException) -> str:
    return f"{type(error).__name__} {error}".strip()
