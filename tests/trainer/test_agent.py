"""The agent inside the rollout actor, with a scripted engine and stand-ins that answer without a network."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from types import SimpleNamespace

import httpx
import pytest

from slca_core.conversation import chat
from slca_core.conversation.calls import render_call
from slca_core.conversation.tokens import encode
from slca_core.policy import train_tokenizer
from slca_core.services.frozen import Clients
from slca_core.standins import server
from slca_core.trainer import agent, ledger
from slca_core.trainer.labels import label_of
from slca_core.trainer.sampling import IndexedRollouts
from slca_core.trainer.spec import SPEC_VARIABLE
from tests.support import played

SAMPLE = played.sample(1, turns=1)
TURNS = [render_call(SAMPLE.gold[0][0]), played.SUMMARY]
LIMITS = {"response_tokens": 3000, "max_length": 6000, "turn_tokens": 400}
SAMPLES = 3


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer([chat.render(SAMPLE.prompt, SAMPLE.tools)], 400)


class Engine(IndexedRollouts):
    """Writes the scripted turns whoever asks; `executor` is the agent's, as in the rollout actor."""

    def __init__(self, tokenizer, executor) -> None:
        self.tokenizer, self.executor, self.turns = tokenizer, executor, 0

    async def generate(self, token_ids: list[int], params) -> SimpleNamespace:
        self.turns += 1
        answered = len(encode(self.tokenizer, chat.render(SAMPLE.prompt, SAMPLE.tools, generate=True))) < len(token_ids)
        written = encode(self.tokenizer, TURNS[answered] + chat.END)
        return SimpleNamespace(outputs=[SimpleNamespace(token_ids=written, finish_reason="stop", logprobs=None)])


class Services:
    """The stand-ins' answers; `spoil` may raise, or answer, in place of the request of that number."""

    def __init__(self, spoil=lambda number, model: None) -> None:
        self.spoil, self.requests = spoil, 0

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        body, self.requests = json.loads(request.content), self.requests + 1
        if (answer := self.spoil(self.requests, body["model"])) is not None:
            return answer
        text = server.MODELS[body["model"]](body)["content"]
        return httpx.Response(200, json={"choices": [{"message": {"content": text}}]})


@pytest.fixture
def roll(make_spec, monkeypatch, tokenizer):
    """(services, settings) -> what the rollout actor returns for one prompt, in the order of its samples, and the engine."""

    def run(services: Services, **rl) -> tuple[list[dict], Engine]:
        monkeypatch.setattr(agent, "Clients", partial(Clients, transport=httpx.MockTransport(services)))
        monkeypatch.setenv(SPEC_VARIABLE, str(make_spec(**{**LIMITS, **rl}).write()))
        label = json.dumps(label_of(SAMPLE) | {"update": 1, "position": 0})

        async def all_samples() -> tuple[list[dict], Engine]:
            engine = Engine(tokenizer, agent.AgentExecutor())
            return await engine.generate_responses("prompt", label, SimpleNamespace(), 6000, tokenizer, SAMPLES), engine

        return asyncio.run(all_samples())

    return run


@pytest.fixture
def spooled(tmp_path):
    def read() -> list[dict]:
        return ledger.collect_spool(tmp_path / "run" / "spool", 1, SAMPLES)

    return read


def cancelled(number: int, model: str) -> None:
    if number == 2:
        raise asyncio.CancelledError


def refused(number: int, model: str) -> httpx.Response | None:
    return httpx.Response(400) if number == 2 else None


def test_rollouts_come_back_scored_and_spooled(roll, spooled):
    results, _ = roll(Services())
    assert [result["extra_logs"]["sample_index"] for result in results] == [0, 1, 2]
    assert [record["rollout_id"] for record in spooled()] == [f"00001-0000-{index:03d}" for index in range(SAMPLES)]
    for result, record in zip(results, spooled(), strict=True):
        assert result["reward"] == record["r_tool"] + record["r_sum"]
        assert result["observation_tokens"] == record["token_ids"]
        assert record["services"]["mocker"]["calls"] == record["services"]["judge"]["calls"] == 1


def test_one_that_fails_leaves_the_others_alive_and_is_counted_where_it_failed(roll, spooled):
    results, _ = roll(Services(refused))
    assert [result["extra_logs"]["failed"] for result in results] == [0.0, 1.0, 0.0]
    assert [bool(record["error"]) for record in spooled()] == [False, True, False]
    assert ledger.errors_by_boundary(spooled())["mocker"] == 1


def test_a_request_that_was_cancelled_costs_one_try(roll, spooled):
    results, _ = roll(Services(cancelled))
    assert [result["extra_logs"]["failed"] for result in results] == [0.0] * SAMPLES
    assert sum(record["services"]["mocker"]["cancelled"] for record in spooled()) == 1


def test_a_bug_in_scoring_one_leaves_the_others_alive(roll, spooled, monkeypatch):
    from slca_core import rollout

    scored = iter([ZeroDivisionError("by zero")])
    process = rollout.score_prediction

    def sometimes(*args, **kwargs):
        if error := next(scored, None):
            raise error
        return process(*args, **kwargs)

    monkeypatch.setattr(rollout, "score_prediction", sometimes)
    results, _ = roll(Services())
    assert sum(result["extra_logs"]["failed"] for result in results) == 1
    assert ledger.errors_by_boundary(spooled())["scoring"] == 1


def test_a_failed_rollout_is_played_again_if_the_study_says_so(roll, spooled):
    results, engine = roll(Services(refused), incomplete_groups="retry")
    assert [result["extra_logs"]["failed"] for result in results] == [0.0] * SAMPLES
    assert engine.turns == 2 * SAMPLES + 1, "one first turn was written twice"


def test_what_the_discarded_tries_cost_is_on_the_account(roll, spooled):
    roll(Services(refused), incomplete_groups="retry")
    asked = [record["services"]["mocker"] for record in spooled()]
    assert sorted(one["requests"] for one in asked) == [1, 1, 2]
    assert sum(one["refused"] for one in asked) == sum(one["failed"] for one in asked) == 1


def test_an_unreadable_rating_is_asked_for_again_by_the_next_attempt(roll, spooled):
    def mumble(number: int, model: str) -> httpx.Response | None:
        said = httpx.Response(200, json={"choices": [{"message": {"content": "Quite good."}}]})
        return said if model == "standin-judge" else None

    roll(Services(mumble))
    assert [record["unread"] for record in spooled()] == [1] * SAMPLES
    roll(Services())
    assert [(record["unread"], record["rating"]) for record in spooled()] == [(0, "poor")] * SAMPLES


def test_one_that_fails_again_and_again_is_given_up(roll):
    results, _ = roll(Services(lambda number, model: httpx.Response(400)), incomplete_groups="retry")
    assert [result["extra_logs"]["failed"] for result in results] == [1.0] * SAMPLES


def test_an_update_that_is_rolled_out_again_plays_only_what_failed_and_asks_only_what_was_not_answered(roll, spooled):
    roll(Services(refused))
    before, again = spooled(), Services()
    results, engine = roll(again)
    assert engine.turns == len(TURNS)
    assert again.requests == 1, "a response; its rating is the one the other samples had"
    assert [result["extra_logs"]["failed"] for result in results] == [0.0] * SAMPLES
    assert [before[0], before[2]] == [spooled()[0], spooled()[2]]
    assert [result["observation_tokens"] for result in results] == [record["token_ids"] for record in spooled()]
