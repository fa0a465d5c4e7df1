"""MLflow on a store of its own: runs are found again, and nothing is logged twice."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from mlflow import MlflowClient

from slca_core.config import REPOSITORY, PolicyConfig, ScratchPolicy, Study
from slca_core.records.store import Step, Store
from slca_core.results import Trial, as_table
from tasks.orchestration.workspace import Workspace
from tasks.tracking import IDENTITY, PROCESS, ChildRun, Tracking, tracked

STEP = Step(
    step="train", name="slca-seed1", config={"rl": {"updates": 3}, "condition": {"estimator": "slca"}}, inputs={"sft": "ab"}
)
LINES = [{"update": update, "rollouts": 8, "reward": update / 4} for update in (1, 2, 3)]


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory):
    """MLflow takes seconds to make a database; the tests copy one."""
    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def study(tmp_path, empty_store):
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    return Study(name="toy", root=tmp_path, policy=PolicyConfig(scratch=ScratchPolicy()))


@pytest.fixture
def tracking(study):
    return Tracking(study)


@pytest.fixture
def record(study):
    return Store(Workspace(study).root).run(STEP, lambda folder: ("digest", {"updates": 3}))


@pytest.fixture
def split(tmp_path):
    path = tmp_path / "rl.parquet"
    pd.DataFrame({"sample_id": ["a", "b"]}).to_parquet(path)
    return path


def child(tracking: Tracking, condition: str = "slca"):
    return tracking.child(STEP, condition=condition, seed=1)


def break_off(tracking: Tracking, after: Callable[[ChildRun], None]) -> ChildRun:
    """A first attempt that fails once it has done something."""
    try:
        with child(tracking) as run:
            after(run)
            raise RuntimeError
    except RuntimeError:
        return run


def history(tracking: Tracking, run_id: str, key: str = "reward") -> list[tuple[int, float]]:
    return [(metric.step, metric.value) for metric in tracking.client.get_metric_history(run_id, key)]


def items(value: float = 0.5) -> pd.DataFrame:
    trials = [Trial("single-turn", f"d#{at}", 0, "greedy", {"process": value + at}, None, 8, 0.5) for at in (0, 1)]
    return as_table(trials, "toucan_test", checkpoint="c", seed=1).query("metric == 'process'")


def test_a_condition_is_a_child_run_of_its_study_found_by_its_tags(tracking):
    with child(tracking) as run:
        pass
    found = tracking.client.get_run(run.run_id)
    assert (found.info.run_name, found.info.status) == ("slca seed 1", "FINISHED")
    assert found.data.tags["mlflow.parentRunId"] == tracking.parent.info.run_id
    assert (found.data.tags["slca.identity"], found.data.tags["slca.seed"]) == (STEP.identity, "1")
    assert tracking.find_child(STEP.identity, "slca") == run.run_id


def test_conditions_that_share_a_step_have_a_run_each(tracking):
    with child(tracking, "grpo") as first, child(tracking, "wo_slca") as second:
        assert first.run_id != second.run_id


def test_the_same_study_goes_on_in_its_parent_run_and_another_has_its_own(study, tracking):
    assert Tracking(study).parent.info.run_id == tracking.parent.info.run_id
    changed = study.model_copy(update={"seeds": (2,)})
    assert Tracking(changed).parent.info.run_id != tracking.parent.info.run_id


ASSUMED = {
    **dict.fromkeys(("curated_samples", "prompt_tokens", "response_tokens", "mocker_calls"), 1),
    **dict.fromkeys(("rl_tokens_per_gpu_s", "sft_tokens_per_gpu_s", "served_tokens_per_gpu_s"), 1),
}


@pytest.mark.parametrize(
    "changes",
    [
        {"on_failure": "stop"},
        {"description": "In other words."},
        {"notify": {"command": ["true"]}},
        {"assumptions": ASSUMED},
        {"machine": {"parallel": 7}},
        {"machine": {"threads": 2}},
        {"machine": {"kv_cache_gib": 2}},
        {"machine": {"launcher": {"kind": "ray_job", "address": "http://a:8265"}}},
        {"data": {"quarantine_limit": 0.5}},
        {"rl": {"checkpoint_every": 3}},
        {"evaluation": {"toucan_test": {"concurrency": 3}}},
        {"services": {"mocker": {"timeout_s": 9, "retries": 9, "retry_delay_s": 9, "outage_s": 9, "concurrency": 9}}},
        {"services": {"judge": {"breaker_calls": 9, "breaker_probe_s": 9, "api_key_env": "KEY"}}},
    ],
    ids=str,
)
def test_what_bears_on_no_step_leaves_a_study_its_run(study, tracking, changes):
    other = Study.model_validate(study.model_dump(mode="json") | {"root": study.root} | changes)
    assert other != study
    assert Tracking(other).parent.info.run_id == tracking.parent.info.run_id


def test_where_benchmarks_and_services_run_leaves_a_study_its_run(study):
    def digest_of(concurrency: int, url: str) -> dict:
        evaluation = {"bfcl": {"concurrency": concurrency}, "tau2": {"concurrency": concurrency, "timeout_s": concurrency}}
        service = {"managed": "external", "url": url, "model": "m"}
        services = {"mocker": service, "alternate_mocker": service}
        changes = {"evaluation": evaluation, "services": services, "root": study.root}
        return Tracking(Study.model_validate(study.model_dump(mode="json") | changes))._values()

    assert digest_of(1, "http://a/v1") == digest_of(2, "http://b/v1")


@pytest.mark.parametrize(
    "changes",
    [
        {"rl": {"updates": 3}},
        {"data": {"test_size": 7}},
        {"machine": {"kind": "gpu"}},
        {"evaluation": {"toucan_test": {"samples": 1}}},
        {"services": {"judge": {"max_tokens": 7}}},
        {"services": {"checker": {"votes": 5}}},
        {"allow_unmatched": True},
    ],
    ids=str,
)
def test_what_bears_on_a_step_or_on_how_it_is_shown_is_another_run(study, tracking, changes):
    other = Study.model_validate(study.model_dump(mode="json") | {"root": study.root} | changes)
    assert Tracking(other)._values() != tracking._values()


def test_where_a_study_keeps_its_state_is_no_part_of_it(study, tracking):
    values = tracking.client.download_artifacts(tracking.parent.info.run_id, "study.json")
    assert str(study.root) not in Path(values).read_text()


def test_each_update_is_logged_once_however_often_the_file_is_read(tracking):
    with child(tracking) as run:
        run.follow(LINES[:1])
        run.follow(LINES[:2])
        run.follow(LINES[:2])
    assert history(tracking, run.run_id) == [(1, 0.25), (2, 0.5)]


def test_a_resumed_step_logs_only_what_its_first_attempt_did_not(study, tracking):
    first = break_off(tracking, lambda run: run.follow(LINES[:2]))
    with child(Tracking(study)) as second:
        assert second.run_id == first.run_id
        second.follow(LINES)
    assert history(tracking, first.run_id) == [(1, 0.25), (2, 0.5), (3, 0.75)]


def test_a_step_that_fails_is_marked_so_until_it_runs_again(tracking):
    def status() -> str:
        return tracking.client.get_run(tracking.find_child(STEP.identity, "slca")).info.status

    with pytest.raises(RuntimeError), child(tracking):
        raise RuntimeError
    assert status() == "FAILED"
    with child(tracking):
        assert status() == "RUNNING"
    assert status() == "FINISHED"


class Ended(BaseException):
    """As a signal ends a run."""


def states(tracking: Tracking) -> dict[str, str]:
    runs = tracking.client.search_runs([tracking.experiment_id])
    return {run.data.tags.get("slca.condition", "parent"): run.info.status for run in runs}


def test_a_run_that_is_ended_is_killed_in_mlflow_with_what_was_under_way(study, tracking):
    @tracked
    def flow(study: Study) -> None:
        with child(tracking, "done"):
            pass
        # A step whose processes were ended fails, in a thread of its own; one that was left there says nothing.
        break_off(tracking, lambda run: None)
        tracking.child(STEP, condition="left", seed=1).__enter__()
        raise Ended

    with pytest.raises(Ended):
        flow(study)
    assert states(tracking) == {"parent": "KILLED", "done": "FINISHED", "slca": "KILLED", "left": "KILLED"}
    with child(Tracking(study)):
        assert states(tracking)["parent"] == "RUNNING"


def test_a_run_that_fails_is_failed_in_mlflow_and_what_failed_long_ago_was_not_killed(study, tracking, monkeypatch):
    @tracked
    def flow(study: Study) -> None:
        break_off(tracking, lambda run: None)
        raise ended

    for ended, expected in ((RuntimeError(), "FAILED"), (Ended(), "KILLED")):
        monkeypatch.setattr("tasks.tracking._CUT_OFF_S", -60.0)
        with pytest.raises(type(ended)):
            flow(study)
        assert states(tracking) == {"parent": expected, "slca": "FAILED"}


def of_process(tracking: Tracking, condition: str, process: str, *, left: str = "RUNNING") -> str:
    """A step's run as another process began it."""
    tags = {"slca.condition": condition, IDENTITY: STEP.identity, "mlflow.parentRunId": tracking.parent.info.run_id}
    run = tracking.client.create_run(tracking.experiment_id, tags={**tags, PROCESS: process})
    if left != "RUNNING":
        tracking.client.set_terminated(run.info.run_id, left)
    return run.info.run_id


HERE, GONE = f"{socket.gethostname()}:{os.getppid()}", f"{socket.gethostname()}:{2**22 + 1}"


@pytest.mark.parametrize(("process", "goes_on"), [(HERE, True), ("another-host:7", True), (GONE, False)])
def test_a_run_that_is_ended_leaves_what_another_process_is_at(study, tracking, process, goes_on):
    @tracked
    def flow(study: Study) -> None:
        of_process(tracking, "theirs", process)
        of_process(tracking, "failed", process, left="FAILED")
        tracking.child(STEP, condition="mine", seed=1).__enter__()
        raise Ended

    with pytest.raises(Ended):
        flow(study)
    left = {"parent": "RUNNING", "theirs": "RUNNING", "failed": "FAILED"}
    assert states(tracking) == {**(left if goes_on else dict.fromkeys(left, "KILLED")), "mine": "KILLED"}


@pytest.mark.parametrize(("process", "status"), [(HERE, "RUNNING"), (GONE, "KILLED")])
def test_who_waits_for_a_step_of_another_process_and_is_ended_leaves_its_run(tracking, process, status):
    run_id = of_process(tracking, "slca", process)
    waiting = child(tracking)
    assert waiting.__enter__().run_id == run_id
    with pytest.raises(Ended):
        waiting.gen.throw(Ended())
    assert states(tracking)["slca"] == status


def test_a_step_that_a_signal_ends_is_killed(tracking):
    with pytest.raises(Ended), child(tracking):
        raise Ended
    assert states(tracking)["slca"] == "KILLED"


def test_a_store_that_cannot_be_used_does_not_hide_why_a_run_ended(study, tracking):
    @tracked
    def flow(study: Study) -> None:
        (study.root / "mlflow.db").write_bytes(b"no database" * 100)
        raise Ended

    with pytest.raises(Ended):
        flow(study)


def test_a_finished_run_is_left_as_it_is(tracking, record, split):
    with child(tracking) as run:
        run.follow(LINES[:2])
        run.finish(record)
    with child(tracking) as again:
        again.follow(LINES)
        again.log_items(items(), "toucan_test")
        again.finish(record, datasets=[("rl", split)])
    found = tracking.client.get_run(run.run_id)
    assert (len(history(tracking, run.run_id)), found.inputs.dataset_inputs) == (2, [])
    assert "toucan_test/process/greedy" not in found.data.metrics


def test_what_breaks_after_a_finished_run_does_not_mark_it_failed(tracking):
    with child(tracking) as run:
        pass
    with pytest.raises(RuntimeError), child(tracking):
        raise RuntimeError
    assert tracking.client.get_run(run.run_id).info.status == "FINISHED"


def test_settings_inputs_and_record_are_on_the_run(tracking, record):
    with child(tracking) as run:
        run.finish(record)
    found = tracking.client.get_run(run.run_id)
    assert found.data.params == {"config.rl.updates": "3", "config.condition.estimator": "slca", "inputs.sft": "ab"}
    assert found.data.tags["slca.record"] == f"artifacts/train/{record.folder.name}"
    assert "record.json" in [file.path for file in tracking.client.list_artifacts(run.run_id)]


def test_more_settings_than_one_request_takes_are_all_there(study, tracking):
    step = STEP.model_copy(update={"config": {f"key{number}": number for number in range(250)}})
    record = Store(Workspace(study).root).run(step, lambda folder: ("digest", {}))
    with child(tracking) as run:
        run.finish(record)
    assert len(tracking.client.get_run(run.run_id).data.params) == 251


def test_the_data_of_a_run_is_named_with_its_digest(tracking, record, split):
    with child(tracking) as run:
        run.finish(record, datasets=[("rl", split)])
    (found,) = tracking.client.get_run(run.run_id).inputs.dataset_inputs
    assert (found.dataset.name, [tag.value for tag in found.tags]) == ("rl", ["rl"])
    assert len(found.dataset.digest) == 32
    assert json.loads(found.dataset.source)["uri"] == "rl.parquet"


def test_items_are_a_table_and_the_means_of_their_metrics(tracking):
    with child(tracking) as run:
        run.log_items(items(), "toucan_test")
    assert tracking.client.get_run(run.run_id).data.metrics == {"toucan_test/process/greedy": 1.0}
    assert len(tracking.client.load_table(tracking.experiment_id, artifact_file="toucan_test.json", run_ids=[run.run_id])) == 2


def test_an_evaluation_that_broke_off_after_its_items_does_not_log_them_twice(tracking):
    run = break_off(tracking, lambda run: run.log_items(items(), "toucan_test"))
    with child(tracking) as again:
        again.log_items(items(), "toucan_test")
    assert history(tracking, run.run_id, "toucan_test/process/greedy") == [(0, 1.0)]
    assert len(tracking.client.load_table(tracking.experiment_id, artifact_file="toucan_test.json", run_ids=[run.run_id])) == 2


def test_a_curve_is_logged_under_its_own_steps(tracking, tmp_path):
    (tmp_path / "loss.jsonl").write_text('{"step": 1, "loss": 2.5}\n{"step": 2, "loss": 1.5}\n')
    with child(tracking) as run:
        run.log_curve(tmp_path / "loss.jsonl", step_key="step")
    assert history(tracking, run.run_id, "loss") == [(1, 2.5), (2, 1.5)]


def test_the_report_and_its_table_finish_the_study_and_are_there_once(study, tracking, tmp_path):
    report = tmp_path / "report"
    report.mkdir()
    (report / "report.md").write_text("# Report")
    for _ in range(2):
        Tracking(study).finish_parent(report, pd.DataFrame({"condition": ["SFT"]}), {"slca.labels": "judge: stand-in"})
    run_id = tracking.parent.info.run_id
    found = tracking.client.get_run(run_id)
    assert (found.info.status, found.data.tags["slca.labels"]) == ("FINISHED", "judge: stand-in")
    assert len(tracking.client.load_table(tracking.experiment_id, artifact_file="main_table.json", run_ids=[run_id])) == 1


def test_a_run_that_broke_off_with_a_record_just_made_is_finished_with_the_one_read(study, tracking):
    step = STEP.model_copy(update={"config": {"betas": (0.9, 0.999)}})
    store = Store(Workspace(study).root)
    made = store.run(step, lambda folder: ("digest", {}))
    break_off(tracking, lambda run: run.finish(made))
    with child(Tracking(study)) as run:
        run.finish(store.find(step))
    assert tracking.client.get_run(run.run_id).data.params["config.betas"] == "[0.9, 0.999]"


def test_runs_at_once_make_one_store_one_experiment_and_one_data_set(tmp_path, split):
    study = Study(name="twice", root=tmp_path, policy=PolicyConfig(scratch=ScratchPolicy()))
    (tmp_path / "mlflow.db.unfinished").write_text("a store whose making was killed")
    code = f"""if True:
        import sys
        from pathlib import Path
        from slca_core.config import Study
        from slca_core.records.store import Store
        from tasks.tracking import Tracking
        from tests.tasks.test_tracking import STEP
        study = Study.model_validate_json({study.model_dump_json()!r})
        record = Store(study.root).run(STEP, lambda folder: ("digest", {{}}))
        with Tracking(study).child(STEP, condition=sys.argv[1], seed=1) as run:
            run.finish(record, datasets=[("rl", Path({str(split)!r}))])
    """
    started = [subprocess.Popen([sys.executable, "-c", code, condition], cwd=REPOSITORY) for condition in ("one", "two", "one")]
    assert [process.wait(120) for process in started] == [0, 0, 0]
    tracking = Tracking(study)
    runs = tracking.client.search_runs([tracking.experiment_id])
    assert sorted(run.data.tags.get("slca.condition", "parent") for run in runs) == ["one", "parent", "two"]
    assert {len(run.inputs.dataset_inputs) for run in runs if "slca.condition" in run.data.tags} == {1}
