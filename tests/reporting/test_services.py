"""What the report says of the frozen services, from metrics lines and evaluations' facts."""

from __future__ import annotations

import pytest

from slca_core.failures import BOUNDARIES
from slca_core.reporting.services import HEAD, Asked, in_evaluation, in_training, rows, sentence
from slca_core.services.usage import Usage

JUDGE = Usage(calls=10, cached=4, failed=1, requests=8, timeout=3, prompt_tokens=1200, completion_tokens=50, seconds=2.5)


def line(**changes) -> dict[str, float]:
    asked = {f"judge/{name}": value for name, value in JUDGE.to_json().items() if value}
    return {"rollouts": 8, "errors/judge": 1.0, "unread_answers": 0.25, "incomplete_groups": 0.5, **asked, **changes}


def test_updates_are_summed_over_runs():
    found = in_training([line(), line(rollouts=24, incomplete_groups=0.0)])
    assert (found.rollouts, found.failures["judge"], found.failures["mocker"], found.unread) == (32, 2, 0, 8)
    assert found.left_out == pytest.approx(4 / 32)
    judge = found.usage["judge"]
    assert (judge.calls, judge.timeout, judge.rate_limited, judge.seconds) == (20, 6, 0, 5.0)


def test_services_come_in_one_order_whatever_order_they_were_logged_in():
    assert list(in_training([{"rollouts": 1, "checker/calls": 3, "mocker/calls": 1, "judge/calls": 1}]).usage) == [
        "mocker",
        "judge",
        "checker",
    ]


def test_evaluations_are_summed():
    facts = {"rollouts": 5, "failures": dict.fromkeys(BOUNDARIES, 1), "unread": 2, "services": {"judge": JUDGE.to_json()}}
    found = in_evaluation([facts, facts])
    assert (found.rollouts, found.failures["policy"], found.unread, found.usage["judge"].calls) == (10, 2, 4, 20)


def test_a_row_names_the_faults_and_times_only_what_the_service_answered():
    (row,) = rows([Asked("training", {"judge": JUDGE})])
    assert dict(zip(HEAD, row, strict=True)) == {
        "Service": "judge, training",
        "Calls": "10",
        "From cache": "4",
        "Requests": "8",
        "Faults": "3 timeout",
        "Unanswered": "1",
        "Tokens in": "1,200",
        "Tokens out": "50",
        "Seconds a call": "0.500",
    }
    (row,) = rows([Asked("evaluation", {"alternate_mocker": Usage()})])
    assert (row[0], row[4], row[-1]) == ("alternate mocker, evaluation", "none", "–")


def test_failures_are_said_beside_the_limit():
    asked = Asked("training", {}, rollouts=100, failures={"mocker": 2, "judge": 0}, unread=1, left_out=0.08)
    said = (
        "Training: 2 of 100 rollouts failed (mocker 2); 1 had an answer of judge or checker that could not be read and counted 0; "
        "8.0% were in a group that left the policy loss for one that failed. A step stops above 2% failed"
    )
    assert sentence(asked, 0.02, 0.1) == f"{said} or 10% unread."
    assert sentence(asked, 0.02, None) == f"{said}, at no share of unread answers."


def test_prompts_that_no_judge_can_hold_and_answers_that_were_cut_are_said_under_their_own_names():
    metrics = line(overflowed_prompts=0.5, **{"judge/overflow": 4, "judge/cut": 2})
    facts = {"rollouts": 5, "failures": dict.fromkeys(BOUNDARIES, 0), "unread": 0, "overflowed": 3, "services": {}}
    training, evaluation = in_training([metrics]), in_evaluation([facts])
    assert (training.overflowed, evaluation.overflowed) == (4, 3)
    assert "4 had a prompt that does not fit the context of judge or checker and counted 0" in sentence(training, 0.02, None)
    (row,) = rows([training])
    assert dict(zip(HEAD, row, strict=True))["Faults"] == "3 timeout, 4 overflow, 2 cut answer"
