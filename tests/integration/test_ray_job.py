"""Training as a job of a real Ray cluster: its flow is killed, the next one follows it, and the record is that of a local run.

Curation, policy and SFT are made once; they do not depend on where training runs.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ray.job_submission import JobStatus, JobSubmissionClient

from slca_core.config import REPOSITORY, Study
from slca_core.processes.supervise import LOOPBACK, free_port
from tasks.orchestration.workspace import quiet_environment
from tests.support.smallest import SMALLEST
from tests.support.waiting import wait_until

pytestmark = pytest.mark.e2e

# A flow of one arm, without Prefect: what it submits and what it leaves is the tasks' own.
CLIENT = """
import sys
from pathlib import Path
from slca_core.config import Study
from tasks.curate import curate_data
from tasks.finetune import finetune, prepare_policy
from tasks.services import frozen_services
from tasks.train import train_arm

study = Study.model_validate_json(Path(sys.argv[1]).read_text())
data = curate_data.fn(study)
policy = prepare_policy.fn(study, data)
sft = finetune.fn(study, data, policy, "sft", ("sft",), study.sft.epochs)
with frozen_services(study) as services:
    train_arm.fn(study, study.arms[0], 1, data, sft, services)
"""


@contextmanager
def ray_head() -> Iterator[str]:
    """The dashboard's address of a Ray head with declared GPUs."""
    gcs, dashboard = free_port(), free_port()
    ray = [sys.executable, "-m", "ray.scripts.scripts"]
    place = ["--node-ip-address", LOOPBACK, "--dashboard-host", LOOPBACK, f"--port={gcs}", f"--dashboard-port={dashboard}"]
    sizes = ["--num-cpus=8", "--num-gpus=4", f"--object-store-memory={300 * 2**20}", "--include-dashboard=true"]
    # On a busy machine the dashboard's parts take longer to come up than Ray waits.
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT": "300"}
    head = subprocess.Popen([*ray, "start", "--head", "--block", *place, *sizes], env=environment, start_new_session=True)
    try:
        yield f"http://{LOOPBACK}:{dashboard}"
    finally:
        head.terminate()
        head.wait(60)


def start_client(study: Study, root: Path) -> subprocess.Popen[bytes]:
    path = root / "study.json"
    path.write_text(study.model_dump_json())
    env = {**os.environ, **quiet_environment(root), "PYTHONPATH": str(REPOSITORY)}
    return subprocess.Popen([sys.executable, "-c", CLIENT, str(path)], env=env, cwd=REPOSITORY)


def training_record(root: Path) -> dict:
    (path,) = (root / "artifacts" / "train").glob("*/record.json")
    return json.loads(path.read_text())


def answering(address: str) -> JobSubmissionClient | None:
    try:
        return JobSubmissionClient(address)
    except (OSError, RuntimeError):
        return None


def test_a_job_outlives_its_flow_and_leaves_the_record_of_a_local_run(tmp_path_factory):
    local, remote = tmp_path_factory.mktemp("l"), tmp_path_factory.mktemp("r")
    assert start_client(Study(name="placed", root=local, arms=("slca",), **SMALLEST), local).wait() == 0
    for step in ("curate", "policy", "finetune"):
        shutil.copytree(local / "artifacts" / step, remote / "artifacts" / step, symlinks=True)

    with ray_head() as address:
        machine = {"kind": "cpu", "launcher": {"kind": "ray_job", "address": address}}
        study = Study(name="placed", root=remote, arms=("slca",), machine=machine, **SMALLEST)
        jobs = wait_until(lambda: answering(address), 300)
        assert jobs
        first = start_client(study, remote)
        job = wait_until(lambda: next((job for job in jobs.list_jobs() if job.status is JobStatus.RUNNING), None), 300)
        assert job
        first.send_signal(signal.SIGKILL)
        first.wait()
        assert jobs.get_job_status(job.submission_id) is JobStatus.RUNNING
        assert start_client(study, remote).wait() == 0
        ended = {job.submission_id: job.status for job in jobs.list_jobs()}

    here, there = training_record(local), training_record(remote)
    assert ended == {f"slca-train-slca-seed1-{there['identity'][:12]}": JobStatus.SUCCEEDED}
    assert there["identity"] == here["identity"]
    assert there["facts"] == here["facts"]
    # The stack is deterministic where nothing else differs: the same weights, and not those training began with.
    assert there["output_digest"] == here["output_digest"] != here["inputs"]["sft"]
