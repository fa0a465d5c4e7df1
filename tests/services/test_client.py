"""The client of the frozen services: what it retries, what it gives up, what it counts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import httpx
import pytest

from slca_core.config import ServiceConfig
from slca_core.errors import ConfigError, ServiceError
from slca_core.services.client import ChatClient

URL = "http://judge.test/v1"
GOOD = {"choices": [{"message": {"content": "fine"}}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}


class Server:
    """Gives the planned answers in turn, the last one for ever; an exception is raised."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = answers
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        answer = self.answers[min(len(self.requests), len(self.answers) - 1)]
        self.requests.append(request)
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer.status_code, content=answer.content)


def good() -> httpx.Response:
    return httpx.Response(200, json=GOOD)


def client(handler: Callable, **settings) -> ChatClient:
    config = ServiceConfig(**{"model": "m", "temperature": 0.5, "max_tokens": 7, "retry_delay_s": 0.0, **settings})
    return ChatClient("judge", URL, config, transport=httpx.MockTransport(handler))


def ask(chat: ChatClient, prompt: str = "Hi") -> str:
    async def once() -> str:
        try:
            return await chat.ask(prompt)
        finally:
            await chat.close()

    return asyncio.run(once())


def test_a_request_is_one_user_message_with_the_configured_sampling():
    server = Server(good())
    assert ask(client(server)) == "fine"
    assert str(server.requests[0].url) == f"{URL}/chat/completions"
    assert json.loads(server.requests[0].content) == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "temperature": 0.5,
        "max_tokens": 7,
    }


@pytest.mark.parametrize(
    "fault",
    [
        httpx.Response(503),
        httpx.Response(429),
        httpx.Response(200, text="<html>"),
        httpx.Response(200, json={"choices": []}),
        httpx.Response(200, json=[]),
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
    ],
    ids=["503", "429", "no-json", "no-choice", "no-object", "refused", "timeout"],
)
def test_what_may_pass_is_tried_again(fault):
    server = Server(fault, good())
    assert ask(client(server)) == "fine"
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_a_refused_request_is_not_tried_again(status):
    server = Server(httpx.Response(status, text="no"), good())
    with pytest.raises(ServiceError, match=rf"after one try: HTTP {status}: no"):
        ask(client(server))
    assert len(server.requests) == 1


def test_after_the_retries_a_sentence_says_who_where_and_what():
    server = Server(httpx.Response(503, text="busy"))
    with pytest.raises(
        ServiceError, match=r"The judge at http://judge.test/v1 was expected to answer; after 3 tries: HTTP 503: busy"
    ):
        ask(client(server, retries=2))
    assert len(server.requests) == 3


def test_the_delay_grows_with_each_retry(monkeypatch):
    delays: list[float] = []

    async def sleep(seconds: float) -> None:
        delays.append(seconds)

    monkeypatch.setattr("slca_core.services.client.asyncio.sleep", sleep)
    with pytest.raises(ServiceError):
        ask(client(Server(httpx.Response(500)), retries=3, retry_delay_s=2.0))
    assert delays == [2.0, 4.0, 6.0]


def test_an_answer_without_content_is_an_empty_text():
    assert ask(client(Server(httpx.Response(200, json={"choices": [{"message": {"content": None}}]})))) == ""


def test_no_more_requests_run_at_once_than_configured():
    running = most = 0

    async def handler(_: httpx.Request) -> httpx.Response:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.005)
        running -= 1
        return good()

    async def many() -> list[str]:
        chat = client(handler, concurrency=3)
        return await asyncio.gather(*(chat.ask(str(number)) for number in range(12)))

    assert asyncio.run(many()) == ["fine"] * 12
    assert most == 3


def test_usage_counts_calls_tokens_and_failures():
    async def two() -> ChatClient:
        chat = client(Server(good(), httpx.Response(400)))
        await chat.ask("Hi")
        with pytest.raises(ServiceError):
            await chat.ask("Hi")
        return chat

    usage = asyncio.run(two()).usage
    assert (usage.calls, usage.failures, usage.prompt_tokens, usage.completion_tokens) == (2, 1, 3, 2)


def test_the_key_comes_from_the_named_variable(monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", "abc")
    server = Server(good())
    ask(client(server, api_key_env="JUDGE_KEY"))
    assert server.requests[0].headers["authorization"] == "Bearer abc"


def test_a_named_variable_that_is_not_set_is_an_error(monkeypatch):
    monkeypatch.delenv("JUDGE_KEY", raising=False)
    with pytest.raises(ConfigError, match="JUDGE_KEY, which is not set"):
        client(Server(good()), api_key_env="JUDGE_KEY")
