"""Toucan-Test against a scripted policy server and the stand-ins' own answers, without a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace

import aiohttp
import httpx
import pytest

from slca_core.benchmarks import toucan
from slca_core.config import RlConfig, ServicesConfig, ToucanTestConfig
from slca_core.conversation import chat
from slca_core.conversation.calls import render_call
from slca_core.conversation.dialogue import Message, Sample, ToolCall
from slca_core.conversation.tokens import decode, encode
from slca_core.policy import train_tokenizer
from slca_core.results import COLUMNS, TOUCAN_METRICS, as_table, results_digest
from slca_core.rollout import Limits, Scoring
from slca_core.services.cache import AnswerCache
from slca_core.services.frozen import Clients
from slca_core.services.policy_server import PolicyServer
from slca_core.standins.server import answer_as_judge, answer_as_mocker

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city. Returns temp (integer).",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def sample(city: str, number: int) -> Sample:
    question = Message("user", f"How is the weather in {city}?")
    call = ToolCall("weather", {"city": city})
    return Sample(f"d#{number}", "d", "single-turn", 1, (TOOL,), (question,), (), ((call,),))


SAMPLES = [sample("Rome", 2), sample("Oslo", 1)]
LIMITS = Limits(max_turns=4, turn_tokens=400, response_tokens=1500, max_length=4000, observation_tokens=100)
SCORING = Scoring.of(RlConfig())
URLS = {"mocker": "http://mocker.test/v1", "judge": "http://judge.test/v1"}
POLICY = PolicyServer(url="http://policy.test", model="sft-1234")


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer([chat.render(SAMPLES[0].prompt, SAMPLES[0].tools)], 400)


class Servers:
    """Policy, mocker and judge. `write` makes the policy's turn from the text so far; `policy` may answer in its place, or None."""

    def __init__(self, tokenizer, write: Callable[[str], str], policy: Callable[[], httpx.Response | None] | None = None) -> None:
        self.tokenizer, self.write, self.policy = tokenizer, write, policy
        self.requests: list[dict] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        if request.url.host == "policy.test":
            self.requests.append(body)
            return (self.policy and self.policy()) or self._complete(body)
        answer = {"mocker.test": answer_as_mocker, "judge.test": answer_as_judge}[request.url.host]
        content = answer(body["messages"][0]["content"])
        return httpx.Response(200, json={"choices": [{"message": {"content": content}}]})

    def _complete(self, body: dict) -> httpx.Response:
        ids = encode(self.tokenizer, self.write(decode(self.tokenizer, body["prompt"])) + chat.END)
        return httpx.Response(200, json={"choices": [{"token_ids": ids, "finish_reason": "stop"}]})


def solve(text: str) -> str:
    """Calls as asked, then quotes the response."""
    city = next(city for city in ("Oslo", "Rome") if city in text)
    if "<tool_response>\n" not in text:
        return render_call(ToolCall("weather", {"city": city}))
    value = json.loads(text.rpartition("<tool_response>\n")[2].partition("\n</tool_response>")[0])["temp"]
    return f"The weather in {city}: {value}."


def evaluate(servers: Servers, samples: int = 0, cache: AnswerCache | None = None, **given) -> list[tuple[int, dict]]:
    settings = ToucanTestConfig(samples=samples, temperature=0.7, concurrency=2)
    protocol = toucan.Protocol(settings=settings, limits=LIMITS, scoring=SCORING, seed=1)
    transport = httpx.MockTransport(servers)

    async def run() -> list[tuple[int, dict]]:
        clients = Clients(ServicesConfig(), URLS, cache, transport=transport)
        return await toucan.evaluate(SAMPLES, servers.tokenizer, POLICY, clients, protocol, transport=transport, **given)

    return asyncio.run(run())


def untimed(results: list[tuple[int, dict]]) -> list[tuple[int, dict]]:
    for _, record in results:
        for timed in (record, *record["services"].values()):
            timed["seconds"] = 0.0
    return results


def test_a_policy_that_calls_and_quotes_scores_full_marks(tokenizer):
    for _, record in evaluate(Servers(tokenizer, solve)):
        metrics = toucan.metrics(record)
        assert (metrics["process"], metrics["exact"], metrics["judge"], metrics["success_process"]) == (1.0, 1.0, 1.0, 1.0)


def test_a_policy_that_never_calls_is_wrong_and_no_error(tokenizer):
    for _, record in evaluate(Servers(tokenizer, lambda text: "I do not know the weather.")):
        metrics = toucan.metrics(record)
        assert (metrics["no_call"], metrics["process"], metrics["success_weighted"], record["error"]) == (1.0, 0.0, 0.0, None)


def test_the_first_trial_is_greedy_and_the_others_are_sampled_under_their_own_seeds(tokenizer):
    servers = Servers(tokenizer, lambda text: "No.")
    assert sorted(trial for trial, _ in evaluate(servers, samples=2)) == [0, 0, 1, 1, 2, 2]
    assert sorted(request["temperature"] for request in servers.requests) == [0.0, 0.0, 0.7, 0.7, 0.7, 0.7]
    assert len({request["seed"] for request in servers.requests}) == 6


def test_two_evaluations_ask_for_the_same_things(tokenizer):
    first, second = Servers(tokenizer, solve), Servers(tokenizer, solve)
    assert untimed(evaluate(first, samples=1)) == untimed(evaluate(second, samples=1))
    assert sorted(map(json.dumps, first.requests)) == sorted(map(json.dumps, second.requests))


def test_progress_is_told_once_an_item(tokenizer):
    done = []
    evaluate(Servers(tokenizer, solve), samples=1, on_done=lambda: done.append(1))
    assert len(done) == 4


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda: httpx.Response(500, text="out of memory"), "HTTP 500: out of memory"),
        (lambda: httpx.Response(200, json={"choices": [{"text": "no ids", "finish_reason": "stop"}]}), "token ids"),
        (lambda: httpx.Response(200, text="<html>"), "token ids"),
    ],
    ids=["status", "no token ids", "no json"],
)
def test_a_policy_server_that_fails_is_an_error_of_the_item_not_a_wrong_answer(tokenizer, answer, said):
    for _, record in evaluate(Servers(tokenizer, solve, policy=answer)):
        assert record["error"].startswith("policy: ")
        assert said in record["error"]
        (row,) = as_table(toucan.as_trials([(0, record)]), toucan.NAME, checkpoint="c", seed=1).to_dict("records")
        assert (row["metric"], row["value"], row["error"]) == ("error", 1.0, record["error"])


def test_a_connection_that_breaks_once_costs_nothing(tokenizer):
    broken = iter([httpx.ReadError(""), httpx.RemoteProtocolError("server disconnected")])

    def policy() -> httpx.Response | None:
        if error := next(broken, None):
            raise error

    assert all(record["error"] is None for _, record in evaluate(Servers(tokenizer, solve, policy=policy)))


def lost() -> Exception:
    """As the transport tells of a connection that was closed."""
    error = httpx.ConnectTimeout("Server disconnected")
    error.__cause__ = aiohttp.ServerDisconnectedError()
    return error


@pytest.mark.parametrize("error", [lost(), aiohttp.ClientPayloadError("half")], ids=["closed", "no-http"])
def test_a_connection_that_was_lost_is_made_again_whatever_the_transport_calls_it(tokenizer, error):
    broken = iter([error])

    def policy() -> httpx.Response | None:
        if one := next(broken, None):
            raise one

    assert all(record["error"] is None for _, record in evaluate(Servers(tokenizer, solve, policy=policy)))


@pytest.mark.parametrize("content", [b"[" * 100_000 + b"]" * 100_000, b'{"choices": [{}]}'], ids=["deep", "no-tokens"])
def test_an_answer_without_token_ids_is_an_error_of_the_item(tokenizer, content):
    for _, record in evaluate(Servers(tokenizer, solve, policy=lambda: httpx.Response(200, content=content))):
        assert record["error"].startswith(
            "policy: ServiceError: The policy server at http://policy.test was expected to answer with"
        )


def test_a_policy_server_that_went_away_is_an_error_of_the_item(tokenizer):
    def gone() -> httpx.Response:
        raise httpx.ConnectError("refused")

    for _, record in evaluate(Servers(tokenizer, solve, policy=gone)):
        assert "went away during the evaluation: ConnectError refused" in record["error"]


def test_every_metric_of_a_rollout_is_one_the_tables_know(tokenizer):
    (_, record), *_ = evaluate(Servers(tokenizer, solve))
    assert {*toucan.metrics(record), "error"} == set(TOUCAN_METRICS)


def test_the_item_table_is_long_sorted_and_typed(tokenizer):
    results = evaluate(Servers(tokenizer, solve), samples=1)
    trial, record = results[0]
    results[0] = trial, record | {"error": "judge: gone"}
    items = as_table(toucan.as_trials(reversed(results)), toucan.NAME, checkpoint="c", seed=3)
    assert tuple(items.columns) == COLUMNS
    assert items.equals(items.sort_values(["subset", "item", "trial", "metric"], ignore_index=True))
    assert (items.value.dtype.kind, items.seed.dtype.kind, items.trial.dtype.kind) == ("f", "i", "i")
    assert set(items.sampling[items.trial == 0]) == {"greedy"}
    assert set(items.sampling[items.trial > 0]) == {"sampled"}
    failed = items[(items["item"] == record["sample_id"]) & (items.trial == trial)]
    assert (failed.metric.tolist(), failed.error.tolist()) == (["error"], ["judge: gone"])
    written = sum(end - start for start, end in record["action_ranges"])
    assert set(failed.tokens) == {written} != {0}
    assert (items.seconds > 0).all()


def test_the_digest_of_results_is_of_what_was_found_and_not_of_how_long_it_took(tokenizer):
    trials = toucan.as_trials(evaluate(Servers(tokenizer, solve)))
    slower, other = ([replace(one, **{name: value}) for one in trials] for name, value in (("seconds", 9.0), ("tokens", 1)))
    digests = [results_digest(as_table(found, toucan.NAME, checkpoint="c", seed=1)) for found in (trials, slower, other)]
    assert digests[0] == digests[1] != digests[2]
