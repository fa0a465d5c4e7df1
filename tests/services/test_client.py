"""The client of the frozen services: what it retries, what it gives up, what it counts."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import aiohttp
import httpx
import pytest

from slca_core.config import ServiceConfig
from slca_core.errors import AnswerCut, ConfigError, PromptTooLong, ServiceError
from slca_core.services.cache import AnswerCache
from slca_core.services.client import MAX_ANSWER_BYTES, ChatClient
from slca_core.services.usage import Usage

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
        return httpx.Response(answer.status_code, content=answer.content, headers=answer.headers)


def good() -> httpx.Response:
    return httpx.Response(200, json=GOOD)


def client(handler: Callable, **settings) -> ChatClient:
    config = ServiceConfig(**{"model": "m", "temperature": 0.5, "max_tokens": 7, "retry_delay_s": 0.0, **settings})
    return ChatClient("judge", URL, config, transport=httpx.MockTransport(handler))


def ask(chat: ChatClient, prompt: str = "Hi") -> str:
    async def once() -> str:
        try:
            return await chat.ask(prompt, Usage())
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
    assert [delay >= least for delay, least in zip(delays, (2.0, 4.0, 6.0), strict=True)] == [True] * 3
    assert [delay <= 1.25 * least for delay, least in zip(delays, (2.0, 4.0, 6.0), strict=True)] == [True] * 3


@pytest.mark.parametrize("header", ["7", lambda: format_datetime(datetime.now(UTC) + timedelta(seconds=7.9), usegmt=True)])
def test_a_server_that_says_when_to_come_back_is_heeded(monkeypatch, header):
    delays: list[float] = []

    async def sleep(seconds: float) -> None:
        delays.append(seconds)

    monkeypatch.setattr("slca_core.services.client.asyncio.sleep", sleep)
    value = header if isinstance(header, str) else header()
    assert ask(client(Server(httpx.Response(429, headers={"Retry-After": value}), good()))) == "fine"
    assert 6 < delays[0] < 8


@pytest.mark.parametrize("header", ["soon", "-3", "nan", "", "Wed, 99 Foo 2026"])
def test_a_retry_after_that_cannot_be_read_is_no_delay(monkeypatch, header):
    server = Server(httpx.Response(503, headers={"Retry-After": header}), good())
    assert ask(client(server)) == "fine"


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_asks_for_a_day_ends_the_call_at_once_with_a_sentence(monkeypatch, status):
    async def sleep(seconds: float) -> None:
        raise AssertionError(f"it waited for {seconds:.0f} s")

    monkeypatch.setattr("slca_core.services.client.asyncio.sleep", sleep)
    server = Server(httpx.Response(status, text="quota", headers={"Retry-After": "86400"}), good())
    with pytest.raises(ServiceError, match=rf"after one try: HTTP {status}: quota It asks to come back in 24\.0 h \(Retry-After\)"):
        ask(client(server))
    assert len(server.requests) == 1


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
        return await asyncio.gather(*(chat.ask(str(number), Usage()) for number in range(12)))

    assert asyncio.run(many()) == ["fine"] * 12
    assert most == 3


def test_usage_counts_calls_tokens_faults_and_failures():
    usage = Usage()

    async def two() -> None:
        chat = client(Server(good(), httpx.Response(429), httpx.Response(400)))
        await chat.ask("Hi", usage)
        with pytest.raises(ServiceError):
            await chat.ask("Hi", usage)

    asyncio.run(two())
    assert (usage.calls, usage.requests, usage.failed, usage.prompt_tokens, usage.completion_tokens) == (2, 3, 1, 3, 2)
    assert {fault: count for fault, count in usage.faults.items() if count} == {"rate_limited": 1, "refused": 1}


def test_the_key_comes_from_the_named_variable(monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", "abc")
    server = Server(good())
    ask(client(server, api_key_env="JUDGE_KEY"))
    assert server.requests[0].headers["authorization"] == "Bearer abc"


def test_a_named_variable_that_is_not_set_is_an_error(monkeypatch):
    monkeypatch.delenv("JUDGE_KEY", raising=False)
    with pytest.raises(ConfigError, match="JUDGE_KEY, which is not set"):
        client(Server(good()), api_key_env="JUDGE_KEY")


def test_a_request_that_hangs_is_given_up_in_time():
    async def hang(_: httpx.Request) -> httpx.Response:
        await asyncio.sleep(60)
        return good()

    with pytest.raises(ServiceError, match=r"after one try: no answer within 0\.05 s"):
        ask(client(hang, timeout_s=0.05, retries=0))


def test_a_request_that_somebody_cancelled_is_tried_again():
    answers = iter([asyncio.CancelledError(), None])

    async def handler(_: httpx.Request) -> httpx.Response:
        if error := next(answers):
            raise error
        return good()

    assert ask(client(handler)) == "fine"


def test_a_cancelled_task_asks_no_more():
    server = Server(asyncio.CancelledError())

    async def run() -> None:
        chat = client(server, retries=5)
        task = asyncio.create_task(chat.ask("Hi", Usage()))
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())
    assert len(server.requests) <= 1


def test_a_server_that_is_down_is_waited_for_as_long_as_the_study_says():
    server = Server(*[httpx.ConnectError("refused")] * 9, good())
    assert ask(client(server, retries=1, outage_s=60.0)) == "fine"
    with pytest.raises(ServiceError, match="after 2 tries: ConnectError refused"):
        ask(client(Server(httpx.ConnectError("refused")), retries=1))


@pytest.mark.parametrize(("settings", "patience_s"), [({}, 0), ({"outage_s": 5}, 5)])
def test_only_a_server_of_our_own_is_waited_for_unless_said(settings, patience_s):
    assert ServiceConfig(model="m", temperature=0, max_tokens=1, **settings).patience_s == patience_s
    deployment = {"checkpoint": "c", "max_model_len": 1, "max_num_seqs": 1, "gpu_memory": 0.5}
    managed = ServiceConfig(model="m", temperature=0, max_tokens=1, managed="vllm", deployment=deployment, **settings)
    assert managed.patience_s == settings.get("outage_s", 900)


def test_extra_fields_go_with_every_request():
    server = Server(good())
    ask(client(server, extra_body={"chat_template_kwargs": {"enable_thinking": False}}))
    assert json.loads(server.requests[0].content)["chat_template_kwargs"] == {"enable_thinking": False}


@pytest.fixture
def cached(tmp_path):
    """A client with a cache, for as many event loops as a test has."""

    def make(server: Callable, identity: dict | None = None, **settings) -> ChatClient:
        chat = client(server, **settings)
        chat.cache, chat.identity = AnswerCache(tmp_path / "answers.sqlite"), identity or {"model": "m"}
        return chat

    return make


def test_an_answer_is_asked_for_once(cached):
    server, usage = Server(good()), Usage()
    for _ in range(2):
        asyncio.run(cached(server).ask("Hi", usage))
    assert (len(server.requests), usage.calls, usage.requests, usage.cached) == (1, 2, 1, 1)


def test_who_asks_the_same_meanwhile_waits_for_the_answer(cached):
    async def slow(_: httpx.Request) -> httpx.Response:
        nonlocal requests
        requests += 1
        await asyncio.sleep(0.05)
        return good()

    async def many() -> list[Usage]:
        chat, usages = cached(slow), [Usage() for _ in range(5)]
        await asyncio.gather(*(chat.ask("Hi", usage) for usage in usages))
        return usages

    requests = 0
    usages = asyncio.run(many())
    assert requests == 1
    assert sorted(usage.cached for usage in usages) == [0, 1, 1, 1, 1]


def test_who_waited_for_one_that_failed_asks_himself(cached):
    server = Server(httpx.Response(400), good())

    async def two() -> list:
        chat = cached(server)
        return await asyncio.gather(chat.ask("Hi", Usage()), chat.ask("Hi", Usage()), return_exceptions=True)

    failed, answered = asyncio.run(two())
    assert isinstance(failed, ServiceError)
    assert answered == "fine"


def test_a_failure_is_not_kept(cached):
    server = Server(httpx.Response(400), good())
    with pytest.raises(ServiceError):
        ask(cached(server))
    assert ask(cached(server)) == "fine"


def test_samples_of_one_question_differ_by_who_asks_and_in_which_order(cached):
    server = Server(good())

    async def ask_as(*askers: str | None) -> None:
        chat = cached(server)
        for asker in askers:
            line = chat.line(asker)
            await line("Hi")
            await line("Hi")

    asyncio.run(ask_as("a", "b"))
    assert len(server.requests) == 4
    asyncio.run(ask_as("a", "b"))
    assert len(server.requests) == 4
    asyncio.run(ask_as(None, None))
    assert len(server.requests) == 5


def test_an_answer_of_another_model_or_decoding_is_another_answer(cached):
    server = Server(good())
    for temperature in (0.0, 0.6):
        asyncio.run(cached(server, {"model": "m", "temperature": temperature}).ask("Hi", Usage()))
    assert len(server.requests) == 2


def test_offline_nobody_is_asked(cached):
    server, usage = Server(good()), Usage()
    asyncio.run(cached(server).ask("Hi", usage))
    chat = cached(server)
    chat.offline = True
    asyncio.run(chat.ask("Hi", usage))
    with pytest.raises(ServiceError, match="An answer of the judge was expected in the cache, it has none"):
        asyncio.run(chat.ask("Ho", usage))
    assert len(server.requests) == 1


def test_a_key_is_in_no_answer_that_is_kept(cached, monkeypatch, tmp_path):
    monkeypatch.setenv("JUDGE_KEY", "sesame")
    assert ask(cached(Server(good()), api_key_env="JUDGE_KEY")) == "fine"
    assert all(b"sesame" not in path.read_bytes() for path in tmp_path.iterdir())


@pytest.mark.parametrize("status", [401, 200, 429])
def test_a_key_that_a_server_repeats_is_in_no_message(monkeypatch, status):
    monkeypatch.setenv("JUDGE_KEY", "sk-sesame")
    server = Server(httpx.Response(status, text="bad key: Bearer sk-sesame"))
    with pytest.raises(ServiceError, match=r"bad key: Bearer \*\*\*") as raised:
        ask(client(server, api_key_env="JUDGE_KEY"))
    assert "sesame" not in str(raised.value)


@pytest.mark.parametrize("retries", [0, 1])
def test_patience_begins_when_a_call_has_its_slot_and_the_message_counts_every_try(retries):
    server = Server(*[httpx.ConnectError("refused")] * 5, httpx.Response(400, text="no"))
    with pytest.raises(ServiceError, match="after 6 tries: HTTP 400: no"):
        ask(client(server, retries=retries, outage_s=60.0))


def test_an_answer_that_cannot_be_read_is_given_and_not_kept(cached):
    server = Server(good())
    for _ in range(2):
        chat = cached(server)
        chat.reads = lambda answer: answer != "fine"
        assert asyncio.run(chat.ask("Hi", Usage())) == "fine"
    assert len(server.requests) == 2


def test_an_answer_that_its_limit_of_tokens_cut_is_no_answer_that_is_kept(cached):
    choice = {"message": {"content": "The calls are 1"}, "finish_reason": "length"}
    server, usage = Server(httpx.Response(200, json={"choices": [choice]})), Usage()
    for _ in range(2):
        with pytest.raises(AnswerCut, match=r"The judge at http://judge.test/v1 reached its 7 tokens \(max_tokens\)") as raised:
            asyncio.run(cached(server).ask("Hi", usage))
        assert raised.value.text == "The calls are 1"
    assert (len(server.requests), usage.cut, usage.failed, usage.requests, sum(usage.faults.values())) == (2, 2, 0, 2, 0)


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "This model's maximum context length is 16384 tokens. However, you requested 20000 tokens"),
        (400, '{"error": {"code": "context_length_exceeded"}}'),
        (422, "the prompt exceeds the context window"),
        (413, "prompt is too long: 210000 tokens > 200000 maximum"),
    ],
)
def test_a_prompt_that_the_context_cannot_hold_is_told_apart_and_closes_no_breaker(status, text):
    usage = Usage()
    chat = client(Server(httpx.Response(status, text=text)), breaker_calls=1)

    async def twice() -> None:
        for _ in range(2):
            with pytest.raises(PromptTooLong):
                await chat.ask("Hi", usage)

    asyncio.run(twice())
    assert (usage.overflow, usage.failed, usage.requests, usage.refused) == (2, 2, 2, 0)


GOOD_BYTES = json.dumps(GOOD).encode()
DEEP = b'{"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"


def over_http(body: bytes, head: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n%s" % (len(body), head, body)


@pytest.mark.parametrize(
    ("sent", "fault"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "connection"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}", "connection"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}", "connection"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "connection"),
        (over_http(GOOD_BYTES, b"X-Long: " + b"x" * 100_000 + b"\r\n"), "connection"),
        (over_http(GOOD_BYTES, b"Content-Encoding: gzip\r\n"), "connection"),
        (over_http(b"{}" * 2)[:-2], "connection"),
        (over_http(DEEP), "unreadable"),
        (over_http(b" " * (MAX_ANSWER_BYTES + 1)), "unreadable"),
        (over_http(b"\xff\xfe{"), "unreadable"),
        (over_http(b"{}", b"Content-Type: text/html; charset=none-such\r\n"), "unreadable"),
    ],
    ids=["no-http", "length", "lengths", "chunks", "header", "gzip", "half", "deep", "endless", "bytes", "charset"],
)
def test_whatever_comes_over_the_wire_is_retried_counted_and_seen_by_the_breaker(sent, fault):
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await reader.readuntil(b"}]")
        with contextlib.suppress(OSError):
            writer.write(sent)
            await writer.drain()
            writer.close()

    async def ask_it() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        settings = {"retries": 1, "retry_delay_s": 0.0, "breaker_calls": 1, "timeout_s": 20.0}
        chat = ChatClient("judge", url, ServiceConfig(model="m", temperature=0, max_tokens=7, **settings))
        async with server:
            with pytest.raises(ServiceError, match="after 2 tries"):
                await chat.ask("Hi", usage)
            with pytest.raises(ServiceError, match="has not answered 1 calls in a row"):
                await chat.ask("Hi", usage)
            await chat.close()

    asked, usage = 0, Usage()
    asyncio.run(ask_it())
    assert (asked, usage.requests, usage.failed) == (2, 2, 2)
    assert {name: count for name, count in usage.faults.items() if count} == {fault: 2}


@pytest.mark.parametrize(
    "error", [httpx.InvalidURL("no host"), aiohttp.ClientPayloadError("half"), OSError("gone"), UnicodeError("idna")]
)
def test_whatever_the_transport_raises_is_tried_again(error):
    assert ask(client(Server(error, good()))) == "fine"


def test_a_rate_limit_of_a_minute_is_waited_for_whatever_a_request_may_take(monkeypatch):
    delays: list[float] = []

    async def sleep(seconds: float) -> None:
        delays.append(seconds)

    monkeypatch.setattr("slca_core.services.client.asyncio.sleep", sleep)
    assert ask(client(Server(httpx.Response(429, headers={"Retry-After": "60"}), good()), timeout_s=5.0)) == "fine"
    assert delays == [60.0]


def test_half_a_character_is_no_answer():
    broken = httpx.Response(200, content=b'{"choices": [{"message": {"content": "a\\ud800"}}]}')
    assert ask(client(Server(broken, good()))) == "fine"
