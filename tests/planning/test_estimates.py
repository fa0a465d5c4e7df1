"""What a plan says a study costs, and what it says that rests on."""

from __future__ import annotations

import json

import pytest
import yaml

from flows.cli.costs import cost_lines
from slca_core.config import Study, load_study
from slca_core.parameters import parameter_count
from tasks.orchestration.workspace import Workspace
from tasks.planning.estimates import Estimate, require_room_for
from tasks.planning.plan import make_plan
from tests.planning.test_plan import SETTINGS, finish

ASSUMED = {
    **{"curated_samples": 1000, "prompt_tokens": 60, "response_tokens": 40, "mocker_calls": 2},
    **{"rl_tokens_per_gpu_s": 10, "sft_tokens_per_gpu_s": 20, "served_tokens_per_gpu_s": 5},
}
GPU = {"kind": "gpu", "actor_nodes": 2, "actor_gpus_per_node": 2, "sft_gpus": 2, "vllm_tensor_parallel": 2}


@pytest.fixture
def study_of(tmp_path):
    """A tiny study in a root of its own, with the given settings in place of the usual."""

    def make(**settings) -> Study:
        path = tmp_path / "study.yaml"
        path.write_text(yaml.safe_dump({**SETTINGS, "arms": ["slca"], "root": str(tmp_path / "state"), **settings}))
        return load_study(path)

    return make


def estimates(study: Study) -> dict[str, Estimate]:
    return {one.name: one.estimate for one in make_plan(study).steps}


def set_seconds(study: Study, kind: str, seconds: float) -> None:
    for record in Workspace(study).store.records(kind):
        path = record.folder / "record.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"seconds": seconds, "seal": None}))


def test_times_go_by_the_rate_of_what_ran_here(study_of):
    study = study_of()
    finish(study)
    set_seconds(study, "train", 32.0)  # of 16 rollouts
    set_seconds(study, "finetune", 25.0)  # of 50 samples, once or twice
    found = estimates(study_of(rl={**SETTINGS["rl"], "updates": 4}, sft={"epochs": 4, "full_epochs": 1}))
    assert found["train slca, seed 1"].seconds == pytest.approx(64.0)
    assert found["finetune sft"].timed == "measured"
    # 50 samples four times, at the median of 25 s for 100 and 25 s for 50 samples.
    assert found["finetune sft"].seconds == pytest.approx(200 * (0.25 + 0.5) / 2)


def test_calls_and_tokens_go_by_the_rollouts_that_were_made(study_of):
    finish(study_of())
    found = estimates(study_of(seeds=[2]))["train slca, seed 2"]
    assert (found.rollouts, found.judge_calls, found.mocker_calls, found.tokens, found.counted) == (16, 16, 48, 1600, "measured")


@pytest.mark.parametrize(
    "other",
    [
        {"policy": {"scratch": {"layers": 4}}},
        {"machine": {"kind": "cpu", "threads": 4}},
        {"machine": GPU},
    ],
    ids=["policy of another size", "more threads", "other machine"],
)
def test_what_was_placed_otherwise_says_nothing(study_of, other):
    finish(study_of())
    found = estimates(study_of(seeds=[2], **other))["train slca, seed 2"]
    assert (found.seconds, found.counted) == (None, "at most")


def test_without_records_calls_and_tokens_are_what_the_limits_leave(study_of):
    found = estimates(study_of(rl={**SETTINGS["rl"], "max_turns": 5, "max_length": 9000}))["train slca, seed 1"]
    assert (found.mocker_calls, found.tokens, found.counted, found.seconds) == (16 * 4, 16 * 9000, "at most", None)


def test_a_studys_assumptions_stand_in_for_records_and_are_named_so(study_of):
    study = study_of(machine=GPU, assumptions=ASSUMED, data={"test_size": 10, "sft_fraction": 0.6})
    found = estimates(study)
    # 16 rollouts of 100 tokens, 10 tokens a second on each of four GPUs.
    assert found["train slca, seed 1"].seconds == pytest.approx(16 * 100 / 10 / 4)
    # 600 of 1,000 samples, twice, on two GPUs.
    assert found["finetune sft"].seconds == pytest.approx(600 * 2 * 100 / 20 / 2)
    assert found["evaluate slca, seed 1"].seconds == pytest.approx(20 * 100 / 5 / 2)
    assert {found[name].timed for name in ("train slca, seed 1", "finetune sft")} == {"assumed"}
    text = "\n".join(cost_lines(make_plan(study)))
    assert "(assumed) one after another" in text
    assert "rl_tokens_per_gpu_s = 10.0" in text


def test_records_go_before_assumptions(study_of):
    study = study_of(machine=GPU, assumptions=ASSUMED)
    finish(study)
    set_seconds(study, "train", 1.0)
    found = estimates(study_of(machine=GPU, assumptions=ASSUMED, seeds=[2]))["train slca, seed 2"]
    assert (found.seconds, found.timed, found.mocker_calls) == (pytest.approx(1.0), "measured", 48)


def test_gpu_hours_count_each_step_by_the_gpus_it_holds(study_of):
    study = study_of(machine=GPU, assumptions={**ASSUMED, "rl_tokens_per_gpu_s": 0.01})
    hours = sum(cost.seconds * cost.gpus for cost in estimates(study).values() if cost.seconds) / 3600
    assert f"{hours:,.0f} GPU-hours" in "\n".join(cost_lines(make_plan(study)))
    assert {name.split()[0]: cost.gpus for name, cost in estimates(study).items()} == {
        **{"curate": 0, "policy": 0, "finetune": 2, "train": 4, "evaluate": 2}
    }


def test_disk_is_what_such_steps_left_or_the_weights_and_checkpoints(study_of, tmp_path):
    config = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 1000}
    base = tmp_path / "base"
    base.mkdir()
    (base / "config.json").write_text(json.dumps(config))
    (base / "tokenizer.json").write_text("{}")
    parameters = parameter_count(config)
    found = estimates(study_of(machine=GPU, policy={"checkpoint": str(base)}))
    assert found["finetune sft"].disk == 2 * parameters
    assert found["train slca, seed 1"].disk == (2 + 2 * 14) * parameters

    study = study_of()
    finish(study)
    needed = [record.disk for record in Workspace(study).store.records("train")]
    assert estimates(study_of(seeds=[2]))["train slca, seed 2"].disk == pytest.approx(sum(needed) / len(needed), rel=0.05)


@pytest.mark.parametrize(
    ("name", "published", "config"),
    [
        (
            "Qwen2.5-7B",
            7.62e9,
            {"hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28}
            | {"num_key_value_heads": 4, "vocab_size": 152064, "tie_word_embeddings": False},
        ),
        (
            "Qwen2.5-3B",
            3.09e9,
            {"hidden_size": 2048, "intermediate_size": 11008, "num_hidden_layers": 36, "num_attention_heads": 16}
            | {"num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": True},
        ),
        (
            "Qwen3-8B",
            8.19e9,
            {"hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36, "num_attention_heads": 32, "head_dim": 128}
            | {"num_key_value_heads": 8, "vocab_size": 151936, "tie_word_embeddings": False},
        ),
    ],
)
def test_parameters_are_counted_from_a_config(name, published, config):
    assert parameter_count(config) == pytest.approx(published, rel=0.005)


BENCHMARKS = {"evaluation": {"bfcl": {"categories": ["simple", "irrelevance"], "limit": 3}, "tau2": {"limit": 2, "trials": 4}}}


def test_an_evaluation_costs_its_rollouts_and_the_trials_of_the_other_benchmarks(study_of):
    study = study_of(**BENCHMARKS)
    found = estimates(study)
    # Six items of BFCL; two tasks of each of three domains, four times.
    assert (found["evaluate slca, seed 1"].rollouts, found["evaluate slca, seed 1"].trials) == (10, 6 + 24)
    assert found["floor of tau2"].trials == 6
    text = "\n".join(cost_lines(make_plan(study)))
    assert "BFCL V3  18 items, answers of at most 8,192 tokens" in text
    assert "tau2     at most 72 trials of at most 200 steps" in text


def test_times_of_evaluations_go_by_rollouts_and_trials_together(study_of):
    finish(study_of(**BENCHMARKS))
    set_seconds(study_of(**BENCHMARKS), "evaluate", 20.0)  # of 10 rollouts, 6 items and 24 trials
    other = study_of(evaluation={"toucan_test": {"samples": 1}, "tau2": {"limit": 2}}, seeds=[2])
    assert estimates(other)["evaluate slca, seed 2"].seconds == pytest.approx((20 + 6) * 20.0 / 40)


@pytest.mark.parametrize("file", ["record.json", "metrics.jsonl"])
def test_a_damaged_file_of_another_study_stops_neither_plan_nor_training(study_of, file, capsys):
    finish(study_of())
    (record,) = Workspace(study_of()).store.records("train")
    path = record.folder / file
    path.write_text(path.read_text()[:20])
    other = study_of(seeds=[2])
    plan = make_plan(other)
    (training,) = [one for one in plan.steps if one.name == "train slca, seed 2"]
    assert (training.state, training.estimate.counted) == ("to run", "at most")
    require_room_for(other, training.step, record.folder.parent)
    assert " ".join(capsys.readouterr().err.split()).count("Estimates do without one record") >= 1


def test_a_record_that_lacks_what_estimates_ask_is_done_without(study_of):
    study = study_of()
    finish(study)
    for record in Workspace(study).store.records("evaluate"):
        path = record.folder / "record.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"facts": {}, "seal": None}))
    assert estimates(study_of(seeds=[2]))["evaluate slca, seed 2"].seconds is None
