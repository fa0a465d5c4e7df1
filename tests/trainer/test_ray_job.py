"""A training run as a Ray job: submitted once, followed by whoever comes next, tried again after a failure. A fake cluster."""

from __future__ import annotations

import contextlib
import shlex
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from ray.job_submission import JobStatus

from slca_core.errors import DataError, ServiceError
from slca_core.processes.supervise import free_port
from slca_core.trainer.launchers import ray_job
from slca_core.trainer.launchers.ray_job import RayJob

NAME = "slca-train-slca-seed1-0123456789ab"


@dataclass
class Cluster:
    """A cluster's jobs; a job followed takes its next status from `statuses`, then stays as it is."""

    jobs: dict[str, SimpleNamespace] = field(default_factory=dict)
    statuses: list[JobStatus] = field(default_factory=lambda: [JobStatus.RUNNING, JobStatus.SUCCEEDED])
    output: str = "update 1\n"

    def add(self, submission: str, status: JobStatus, log) -> None:
        self.jobs[submission] = SimpleNamespace(
            submission_id=submission, status=status, metadata={"log": str(log)}, driver_exit_code=1, runtime_env=None
        )

    def list_jobs(self):
        return list(self.jobs.values())

    def submit_job(self, *, entrypoint, submission_id, metadata, runtime_env):
        assert submission_id not in self.jobs, "Ray refuses an id it has seen"
        self.add(submission_id, JobStatus.PENDING, metadata["log"])
        self.jobs[submission_id].entrypoint = entrypoint
        self.jobs[submission_id].runtime_env = runtime_env

    def get_job_info(self, submission):
        return self.jobs[submission]

    def get_job_status(self, submission):
        job = self.jobs[submission]
        if not job.status.is_terminal() and self.statuses:
            job.status = self.statuses.pop(0)
        return job.status

    async def tail_job_logs(self, submission):
        yield self.output


@pytest.fixture
def cluster(monkeypatch) -> Cluster:
    cluster = Cluster()
    monkeypatch.setattr(ray_job, "JobSubmissionClient", lambda _address: cluster)
    return cluster


@pytest.fixture
def log(tmp_path):
    return tmp_path / "slca-seed1-0123456789ab" / "train.log"


@pytest.fixture
def run(log):
    """Runs the job of `log`'s folder; what was said meanwhile."""

    def run(on_poll=lambda: None) -> list[str]:
        said: list[str] = []
        job = RayJob("http://head:8265", NAME, log)
        with contextlib.suppress(KeyboardInterrupt):
            job.run("driver", ["spec.json"], env={"A": "1", "RAY_TMPDIR": "/r"}, on_poll=on_poll, say=said.append, poll_s=0)
        return said

    return run


def test_a_job_is_named_by_its_step_and_watched_to_its_end(cluster, run, log):
    polls = []
    run(on_poll=lambda: polls.append(1))
    assert list(cluster.jobs) == [NAME]
    assert shlex.split(cluster.jobs[NAME].entrypoint)[1:] == ["-m", "driver", "spec.json"]
    assert len(polls) == 2
    assert log.read_text() == "update 1\n"


def test_its_workers_have_the_training_stacks_environment_and_the_clusters_own_folder(cluster, run):
    run()
    variables = cluster.jobs[NAME].runtime_env["env_vars"]
    assert variables["A"] == "1"
    assert "RAY_TMPDIR" not in variables


@pytest.mark.parametrize("status", [JobStatus.PENDING, JobStatus.RUNNING, JobStatus.SUCCEEDED])
def test_a_job_on_its_way_or_well_ended_is_not_submitted_again(cluster, run, log, status):
    log.parent.mkdir()
    log.touch()
    cluster.add(NAME, status, log)
    assert run() == [f"follows the Ray job {NAME} at http://head:8265"]
    assert list(cluster.jobs) == [NAME]


@pytest.mark.parametrize("status", [JobStatus.FAILED, JobStatus.STOPPED])
def test_a_failed_or_stopped_job_is_tried_again_under_the_next_id(cluster, run, log, status):
    log.parent.mkdir()
    log.touch()
    cluster.add(NAME, status, log)
    cluster.add(f"{NAME}-2", status, log)
    run()
    assert list(cluster.jobs) == [NAME, f"{NAME}-2", f"{NAME}-3"]


def test_the_same_step_below_another_root_is_another_job(cluster, run, log):
    log.parent.mkdir()
    log.touch()
    cluster.add(NAME, JobStatus.RUNNING, "/elsewhere/train.log")
    run()
    assert list(cluster.jobs) == [NAME, f"{NAME}-2"]


def test_a_job_whose_folder_was_removed_since_does_not_count(cluster, run, log):
    cluster.add(NAME, JobStatus.SUCCEEDED, log)
    run()
    assert list(cluster.jobs) == [NAME, f"{NAME}-2"]


def test_an_interrupted_flow_leaves_its_job_running_and_says_how_to_stop_it(cluster, run):
    def interrupt() -> None:
        raise KeyboardInterrupt

    said = run(on_poll=interrupt)
    assert cluster.jobs[NAME].status is JobStatus.RUNNING
    assert said[-1].endswith(f"ray job stop --address http://head:8265 {NAME}")


def test_a_failed_job_gives_the_sentence_it_left(cluster, run):
    cluster.statuses = [JobStatus.FAILED]
    cluster.output = "slca_core.errors.DataError: Rows were expected, none were found.\n"
    with pytest.raises(DataError, match=r"^Rows were expected, none were found\."):
        run()


def test_a_job_someone_stopped_says_that_the_next_run_goes_on(cluster, run):
    cluster.statuses = [JobStatus.STOPPED]
    with pytest.raises(ServiceError, match="was stopped"):
        run()


def test_a_cluster_that_does_not_answer_is_named(log):
    address = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ServiceError, match=rf"A Ray cluster was expected to answer at {address} \(machine.launcher.address\)"):
        RayJob(address, NAME, log).run("driver", [], env={}, on_poll=lambda: None, say=lambda _: None)
