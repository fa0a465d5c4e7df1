"""The real flow at its smallest size: Prefect, Ray, OpenRLHF, DeepSpeed, vLLM and MLflow, on generated records and on real ones.

A policy of this size learns nothing in two updates; the tests are about what the run leaves behind.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
import torch
import yaml

from slca_core.config import REPOSITORY, Study, load_study
from slca_core.credit.segments import split_segments
from tasks.planning.plan import make_plan
from tasks.rescore import rescore_study
from tests.chaos import kills, outcome
from tests.support.network import AGENT, INTRUDED, Watch
from tests.support.smallest import SMALLEST
from tests.support.waiting import wait_until

pytestmark = pytest.mark.e2e

REAL = REPOSITORY.parent / "shared" / "data"
# All three benchmarks, a few items each; their prompts are far longer than what the policy was trained on.
ALL = {
    **SMALLEST,
    "evaluation": {
        **SMALLEST["evaluation"],
        "max_length": 32768,
        "bfcl": {"categories": ["simple", "irrelevance", "multi_turn_base"], "limit": 1, "max_tokens": 16},
        "tau2": {"domains": ["airline"], "split": "test", "limit": 2, "max_tokens": 16, "max_steps": 20},
    },
}


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Study:
    return Study(name="smallest", root=tmp_path_factory.mktemp("s"), arms=("grpo", "slca", "wo_slca"), **ALL)


@pytest.fixture(scope="module")
def watch() -> Watch:
    return Watch()


@pytest.fixture(scope="module")
def report(study, watch, prefect_server) -> dict:
    from flows.reproduce import reproduce

    with watch:
        return json.loads(reproduce(study).json.read_text())


def first_line(study: Study, arm: str) -> dict:
    (folder,) = (study.root / "artifacts" / "train").glob(f"{arm}-seed1-*")
    return json.loads((folder / "metrics.jsonl").read_text().splitlines()[0])


def first_update(study: Study, arm: str) -> pd.DataFrame:
    (folder,) = (study.root / "artifacts" / "train").glob(f"{arm}-seed1-*")
    return pd.read_parquet(folder / "rollouts" / "update_00001.parquet")


def test_the_report_has_a_row_for_each_condition(report):
    assert [row["name"] for row in report["rows"]] == ["sft", "sft_full", "grpo", "slca", "wo_slca"]


def test_all_that_a_run_opens_listens_on_loopback_alone(report, watch):
    assert {ip for _, ip in watch.seen} <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    assert not watch.reached
    # What is looked for was there: SFT's store, the stand-ins, Ray, its workers, and the server of an evaluation.
    commands = " ".join(command for command, _ in watch.seen)
    for part in ("run_sft", "standins.server", "gcs_server", "raylet", AGENT, "ray::CpuPolicyActor", "openai.api_server"):
        assert part in commands, part


def test_a_stranger_on_the_machine_is_refused_by_ray(report, watch):
    # The agent's other HTTP server has metrics, and takes no job of anybody's.
    assert 401 in watch.jobs
    assert set(watch.jobs) <= {401, 405}
    assert not INTRUDED.exists()
    assert "Unauthenticated" in watch.nodes or "AuthenticationError" in watch.nodes


def test_the_token_of_a_runs_ray_is_in_no_argument_record_or_log(report, watch, study):
    assert len(watch.tokens) == 2, "one a training"
    assert not watch.leaked
    written = b"".join(path.read_bytes() for path in study.root.rglob("*") if path.is_file())
    assert not any(token.encode() in written for token in watch.tokens)


def test_wo_slca_shares_the_run_of_grpo(report, study):
    (shared,) = [row["shares_run_of"] for row in report["rows"] if row["name"] == "wo_slca"]
    assert shared == "grpo"
    assert not list((study.root / "artifacts" / "train").glob("wo_slca-*"))


def test_table_values_come_from_the_stored_items(report, study):
    (folder,) = (study.root / "artifacts" / "evaluate").glob("sft-seed1-*")
    items = pd.read_parquet(folder / "items.parquet")
    greedy = items[(items.metric == "process") & (items.sampling == "greedy")]
    assert report["values"]["sft"]["process"] == pytest.approx(greedy.value.mean())


def test_arms_start_from_the_same_rollouts_token_for_token(report, study):
    grpo, slca = first_update(study, "grpo"), first_update(study, "slca")
    assert list(grpo.rollout_id) == list(slca.rollout_id)
    assert [list(ids) for ids in grpo.token_ids] == [list(ids) for ids in slca.token_ids]


@pytest.mark.parametrize("arm", ["grpo", "slca"])
def test_each_segment_carries_its_own_advantage_and_observations_none(report, study, arm):
    for row in first_update(study, arm).itertuples():
        advantages = np.asarray(row.advantages)
        segments = split_segments(torch.tensor(np.asarray(row.mask))[None])
        tool, summary = segments.tool_BT[0].numpy(), segments.summary_BT[0].numpy()
        assert (advantages[tool] == np.float32(row.adv_tool)).all()
        assert (advantages[summary] == np.float32(row.adv_sum)).all()
        assert (advantages[~(tool | summary)] == 0).all()


def test_grpo_gives_one_value_a_rollout(report, study):
    for row in first_update(study, "grpo").itertuples():
        assert len(set(np.asarray(row.advantages)[np.asarray(row.mask)])) <= 1


def test_metrics_have_one_line_an_update(report, study):
    for arm in ("grpo", "slca"):
        (folder,) = (study.root / "artifacts" / "train").glob(f"{arm}-seed1-*")
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert [line["update"] for line in lines] == [1, 2, 3]
        assert all(np.isfinite(list(line.values())).all() for line in lines)


def test_mlflow_has_parent_and_child_runs_with_curves_datasets_and_tables(report, study):
    mlflow.set_tracking_uri(f"sqlite:///{study.root.resolve() / 'mlflow.db'}")
    runs = mlflow.search_runs(experiment_names=[study.name])
    parent = runs[runs["tags.mlflow.parentRunId"].isna()] if "tags.mlflow.parentRunId" in runs else runs
    assert len(parent) == 1
    trained = runs[runs["tags.slca.step"] == "train"]
    assert set(trained["tags.slca.condition"]) == {"grpo", "slca", "wo_slca"}
    client = mlflow.MlflowClient()
    for run_id in trained.run_id:
        assert [point.step for point in client.get_metric_history(run_id, "r_tool")] == [1, 2, 3]
        assert client.get_run(run_id).inputs.dataset_inputs
    assert "main_table.json" in {item.path for item in client.list_artifacts(parent.run_id.iloc[0])}


def test_a_second_run_does_nothing_again_and_leaves_the_same_report(report, study):
    from flows.reproduce import reproduce
    from tasks.report import report_paths

    before = {path: path.stat().st_mtime_ns for path in (study.root / "artifacts").rglob("record.json")}
    html = report_paths(study).html.read_bytes()
    reproduce(study)
    assert {path: path.stat().st_mtime_ns for path in (study.root / "artifacts").rglob("record.json")} == before
    assert report_paths(study).html.read_bytes() == html


def test_with_every_endpoint_down_the_stored_rollouts_score_as_they_did(report, study):
    found = dict(rescore_study(study, study))
    assert {name.partition(" ")[0] for name in found} == {"train", "evaluate"}
    for name, rescored in found.items():
        assert rescored.after, name
        assert (rescored.unanswered, rescored.differing) == ([], []), name


def test_under_other_settings_they_score_otherwise(report, study):
    penalised = study.model_copy(update={"rl": study.rl.model_copy(update={"omission_penalty": -0.25})})
    found = dict(rescore_study(study, penalised))["train grpo, seed 1"]
    assert found.differing
    assert {row["r_sum"] for row in found.after if row["omitted"]} == {-0.25}


def test_every_checkpoint_was_asked_all_three_benchmarks_and_the_floor_is_there(report, study):
    items = pd.read_parquet(study.root / "reports" / study.name / "items.parquet")
    asked = items.groupby(["condition", "benchmark"])["item"].nunique().unstack()
    conditions = ["sft", "sft_full", "grpo", "slca", "wo_slca"]
    assert asked.loc[conditions].to_dict("list") == {"bfcl_v3": [3] * 5, "tau2": [2] * 5, "toucan_test": [8] * 5}
    assert asked.loc["do_nothing"].dropna().to_dict() == {"tau2": 2}
    assert not items["error"].any()
    played = items[(items.condition == "sft") & (items.metric == "error")]
    assert (played.groupby("benchmark")["tokens"].sum() > 0).all()


def test_the_report_tells_what_the_services_were_asked(report):
    training, evaluation = report["services"]["training"], report["services"]["evaluation"]
    # Two arms of three updates of eight rollouts. Eight items, greedy and sampled, of each checkpoint: arms may share one.
    assert (training["rollouts"], training["usage"]["judge"]["calls"]) == (48, 48)
    assert evaluation["rollouts"] == evaluation["usage"]["judge"]["calls"] in (48, 64)
    assert not any(training["failures"].values())


def test_matched_arms_ask_the_judge_once_for_the_rollouts_they_share(report, study):
    first = {arm: first_line(study, arm) for arm in ("grpo", "slca")}
    cached = sorted(line["judge/cached"] for line in first.values())
    assert cached[1] == 8, "the second arm's first update is the first one's"


def test_killed_in_training_and_in_evaluation_it_ends_as_if_nobody_had(report, study, tmp_path_factory):
    folder = tmp_path_factory.mktemp("k")
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump({"name": study.name, "root": str(folder / "s"), "arms": ["grpo", "slca", "wo_slca"], **ALL}))
    disturbed, log = load_study(path), folder / "log"
    start = kills.starter([str(Path(sys.executable).with_name("slca")), "run", str(path)], log)

    def kill(kind: str, once: Callable[[], bool]) -> None:
        process = start()
        assert wait_until(lambda: once() and kind in kills.victims(process.pid), 300), log.read_text()[-2000:]
        kills.kill_one(process, kills.victims(process.pid)[kind])

    kill("vllm engine", lambda: any((disturbed.root / "artifacts" / "train").glob("*/rollouts/update_00001.parquet")))

    def wrote(name: str) -> bool:
        return any(path.stat().st_size for path in (disturbed.root / "artifacts" / "evaluate").glob(f"*/{name}"))

    kill("flow", lambda: wrote("server.log"))
    kill("flow", lambda: wrote("bfcl.jsonl"))
    kill("flow", lambda: wrote("tau2.jsonl"))
    assert start().wait(600) == 0, log.read_text()[-2000:]
    outcome.check_books(disturbed, SMALLEST["rl"]["updates"])
    assert outcome.checkpoints(disturbed) == outcome.checkpoints(study)
    assert outcome.tables(disturbed) == outcome.tables(study)


def test_a_planner_is_asked_bfcl_alone_and_the_rest_with_the_summariser_behind_it(report, study, monkeypatch):
    from tasks import evaluate
    from tasks.services import frozen_services

    asked: dict[str, str] = {}
    ask_toucan, ask_others = evaluate.ask_toucan, evaluate.ask_others

    def toucan(study, seed, split, tokenizer, server, services, folder):
        asked["toucan"] = server.url
        return ask_toucan(study, seed, split, tokenizer, server, services, folder)

    def others(study, seed, policy, spoken, services, folder):
        asked.update(bfcl=policy.url, tau2=spoken.url)
        return ask_others(study, seed, policy, spoken, services, folder)

    monkeypatch.setattr(evaluate, "ask_toucan", toucan)
    monkeypatch.setattr(evaluate, "ask_others", others)
    made = {planned.name: planned.record for planned in make_plan(study).steps}
    slca, sft = made["train slca, seed 1"], made["finetune sft"]
    with frozen_services(study) as services:
        record = evaluate.evaluate_checkpoint.fn(study, "rltr", 1, made["curate"], slca, sft, services)
    assert asked["toucan"] == asked["tau2"] != asked["bfcl"]
    assert record.inputs["summariser"] == sft.output_digest
    items = pd.read_parquet(record.folder / "items.parquet")
    assert set(items.benchmark) == {"toucan_test", "bfcl_v3", "tau2"}
    assert not items["error"].any()
    # The summariser may call nothing: what the planner does not call, nobody does.
    rollouts = pd.read_parquet(record.folder / "rollouts.parquet")
    assert not rollouts.final_response.str.contains("<tool_call>").any()


def test_a_checkpoint_evaluated_on_its_own_gets_what_the_study_says_of_it(report, study):
    from tasks.standalone import evaluate_folder

    made = {planned.name: planned.record for planned in make_plan(study).steps}
    alone = evaluate_folder(study, made["finetune sft"].folder / "model", seed=1)
    found, known = (
        pd.read_parquet(record.folder / "items.parquet").drop(columns=["checkpoint", "seconds"])
        for record in (alone, made["evaluate sft, seed 1"])
    )
    pd.testing.assert_frame_equal(found, known)
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{study.root.resolve() / 'mlflow.db'}")
    (run,) = client.search_runs([client.get_experiment_by_name(study.name).experiment_id], "tags.`slca.step` = 'benchmark'")
    assert "mlflow.parentRunId" not in run.data.tags
    assert {"toucan_test/process/greedy", "bfcl_v3/correct/greedy", "tau2/pass_1", "tau2/pass_1_macro"} <= set(run.data.metrics)


@pytest.mark.skipif(not REAL.is_dir(), reason="real records lie in ../shared/data, which a fresh clone does not have")
def test_real_records_run_without_a_special_case(tmp_path_factory, prefect_server):
    from flows.reproduce import reproduce

    real = {
        **SMALLEST,
        "data": {
            "source": [str(REAL / "llamafactory" / "glaive_toolcall_en_demo.json"), str(REAL / "toucan_preview")],
            "test_size": 4,
            "sft_fraction": 0.6,
            "quarantine_limit": 0.1,
        },
        "sft": {**SMALLEST["sft"], "max_length": 1500},
        "rl": {**SMALLEST["rl"], "max_length": 1500},
        "evaluation": {"toucan_test": {"samples": 0}},
    }
    study = Study(name="real", root=tmp_path_factory.mktemp("r"), arms=("slca", "rltr", "toolpo_judge"), **real)
    report = json.loads(reproduce(study).json.read_text())
    assert [row["name"] for row in report["rows"]] == ["sft", "sft_full", "slca", "rltr", "toolpo_judge"]
    assert report["services"]["training"]["usage"]["checker"]["calls"] == 3 * 24
    assert not any(rescored.differing or rescored.unanswered for _, rescored in rescore_study(study, study))
    (manifest,) = Path(study.root / "artifacts" / "curate").glob("real-*/manifest.json")
    assert json.loads(manifest.read_text())["read"] == 310
