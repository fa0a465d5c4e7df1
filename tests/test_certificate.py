"""Arms are compared field by field; what is not declared may not differ unless the study says so."""

from __future__ import annotations

import json

import pytest

from slca_core.certificate import Spent, certify, find_mismatches, require_matched
from slca_core.config import Study, load_study
from slca_core.errors import ConfigError
from slca_core.records.store import Record
from tasks.matching import spent_by

FAST = {"name": "slca_fast", "title": "SLCA, fast", "estimator": "slca", "rl": {"learning_rate": 1e-3}}


def study(**changes) -> Study:
    return Study.model_validate({"name": "tiny", "policy": {"scratch": {}}, "arms": ["grpo", "slca", FAST], **changes})


def test_the_shipped_arms_are_matched():
    assert find_mismatches(study(arms=["grpo", "slca", "wo_slca", "wo_sgls", "wo_hierr"])) == ()


def test_an_arm_with_a_learning_rate_of_its_own_is_refused_with_field_values_and_the_way_out():
    with pytest.raises(ConfigError) as caught:
        require_matched(study())
    text = str(caught.value)
    assert "rl.learning_rate: grpo 1e-06, slca 1e-06, slca_fast 0.001" in text
    assert "allow_unmatched: true" in text


def test_a_study_that_allows_it_trains_each_arm_with_its_own_setting():
    allowed = study(allow_unmatched=True)
    (mismatch,) = require_matched(allowed)
    assert mismatch.field == "rl.learning_rate"
    assert [allowed.rl_of(arm).learning_rate for arm in allowed.arms] == [1e-6, 1e-6, 1e-3]
    certificate = certify(allowed, services={})
    assert not certificate.matched
    assert "rl.learning_rate" not in certificate.same


@pytest.mark.parametrize(
    ("rl", "sentence"),
    [
        ({"learning_rat": 1}, "did you mean 'learning_rate'?"),
        ({"clip": "wide"}, "clip"),
        ({"prompts_per_update": 33}, "multiple of minibatch_prompts"),
    ],
)
def test_an_arms_setting_that_is_none_is_explained(tmp_path, rl, sentence):
    path = tmp_path / "study.yaml"
    path.write_text(json.dumps({"name": "tiny", "policy": {"scratch": {}}, "arms": [{**FAST, "rl": rl}]}))
    with pytest.raises(ConfigError) as caught:
        load_study(path)
    assert "arm slca_fast, rl" in str(caught.value)
    assert sentence in str(caught.value)


def test_the_certificate_names_what_was_shared_and_what_each_run_used():
    matched = study(arms=["grpo", "slca"], seeds=[1, 2])
    spent = {"grpo, seed 1": Spent(updates=2, rollouts=16, tokens=100, judge_calls=16, mocker_calls=9)}
    found = certify(
        matched, services={"judge": "j"}, inputs={"rl split": "ab"}, prompt_orders={1: ["x", "x"], 2: ["y", "y"]}, spent=spent
    )
    assert found.matched
    assert found.prompt_order == {1: "x", 2: "y"}
    assert found.same["rl.learning_rate"] == matched.rl.learning_rate
    assert (found.same["seeds"], found.same["services"]) == ([1, 2], {"judge": "j"})
    assert found.conditions["slca"]["estimator_name"] == "slca"
    assert type(found).model_validate_json(found.model_dump_json()) == found


def test_runs_that_saw_the_prompts_in_different_orders_are_refused():
    with pytest.raises(ConfigError, match="one order; their runs recorded 2"):
        certify(study(arms=["grpo", "slca"]), services={}, prompt_orders={1: ["x", "y"]})


def test_what_was_spent_is_summed_over_the_updates(tmp_path):
    line = {"rollouts": 4, "prompt_tokens": 10.0, "response_tokens": 5.5, "judge/calls": 3.0, "mocker/calls": 6.0}
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps({"update": update, **line}) + "\n" for update in (1, 2)))
    nothing = {key: {} for key in ("config", "inputs", "facts", "versions")}
    run = Record(
        **nothing, step="train", name="a", identity="i", output_digest="o", folder=tmp_path, seconds=1, commit="c", argv=()
    )
    assert spent_by(run) == Spent(updates=2, rollouts=8, tokens=124, judge_calls=6, mocker_calls=12)
