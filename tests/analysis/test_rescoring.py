"""Stored rollouts scored again: the same values, other settings, and answers that are not on disk."""

from __future__ import annotations

import asyncio
import dataclasses

import pandas as pd
import pytest

from slca_core.analysis.rescoring import SCORED, Rescored, rescore
from slca_core.config import ServicesConfig
from slca_core.conversation import chat
from slca_core.policy import train_tokenizer
from slca_core.rollout import RolloutRecord
from slca_core.services.cache import AnswerCache
from slca_core.services.frozen import Clients
from tests.support import played
from tests.support.endpoint import Endpoint, listening

SAMPLES = {f"d{number}#1": played.sample(number, turns=2) for number in range(4)}


@pytest.fixture
def answers(tmp_path):
    return tmp_path / "answers.sqlite"


@pytest.fixture
def stored(answers, tmp_path) -> pd.DataFrame:
    """Rollouts as a training leaves them, their answers in the cache, the endpoint gone."""
    one = SAMPLES["d1#1"]
    tokenizer = train_tokenizer([chat.render(one.prompt, one.tools)], 400)

    async def play() -> list[RolloutRecord]:
        async with listening(Endpoint()) as url:
            clients = Clients(ServicesConfig(), {"mocker": url, "judge": url}, AnswerCache(answers))
            records = [await played.play(tokenizer, sample, clients.lines(sample.sample_id)) for sample in SAMPLES.values()]
            await clients.close()
            return records

    path = tmp_path / "rollouts.parquet"
    pd.DataFrame([record.to_json() for record in asyncio.run(play())]).to_parquet(path)
    return pd.read_parquet(path)


def again(stored: pd.DataFrame, answers, scoring=played.SCORING) -> Rescored:
    async def run() -> Rescored:
        clients = Clients(
            ServicesConfig(), dict.fromkeys(("mocker", "judge"), "http://nobody/v1"), AnswerCache(answers), offline=True
        )
        try:
            return await rescore(stored.to_dict("records"), SAMPLES, scoring, lambda row: clients.lines(row["sample_id"]))
        finally:
            await clients.close()

    return asyncio.run(run())


def test_the_rewards_come_out_bit_for_bit(stored, answers):
    found = again(stored, answers)
    assert (len(found.after), found.failed, found.unanswered, found.differing) == (4, 0, [], [])
    assert {row["rating"] for row in found.after} == {"good"}


def test_a_value_that_is_off_in_the_last_bit_is_found(stored, answers):
    stored.loc[2, "r_tool"] = stored.loc[2, "r_tool"] * (1 + 2**-52)
    assert again(stored, answers).differing == ["d2#1-0"]


def test_other_settings_give_other_rewards(stored, answers):
    found = again(stored, answers, dataclasses.replace(played.SCORING, hierr_weights="uniform"))
    assert [row["process"] for row in found.before] == list(stored.process)
    assert {row["summary_score"] for row in found.after} == {0.75}


def test_what_is_not_on_disk_is_said_and_not_scored(stored, tmp_path):
    found = again(stored, tmp_path / "empty.sqlite")
    assert found.after == []
    assert [rollout for rollout, _ in found.unanswered] == list(stored.rollout_id)
    assert "An answer of the judge was expected in the cache" in found.unanswered[0][1]


def test_a_prompt_that_did_not_fit_the_judges_context_scores_zero_again(stored, tmp_path):
    stored = stored.assign(overflowed=1, rating=None, r_sum=0.0, summary_score=0.0)
    found = again(stored, tmp_path / "empty.sqlite")
    assert (found.unanswered, found.differing) == ([], [])


def test_rollouts_that_failed_are_left_out_and_counted(stored, answers):
    stored["error"] = stored["error"].astype(object)
    stored.loc[0, "error"] = "judge: gone"
    found = again(stored, answers)
    assert (found.failed, len(found.after)) == (1, 3)


def test_every_value_that_scoring_makes_is_compared():
    assert set(SCORED) <= {field.name for field in dataclasses.fields(RolloutRecord)}
