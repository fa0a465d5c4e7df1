"""A training run as a Slurm job. Slurm is a fake of shell scripts.

`sbatch` runs the script in the background, `squeue` lists it while it lives, `srun` runs its command here, `ray` notes how it
was called.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from slca_core.config import GpuProfile
from slca_core.errors import ConfigError, DataError, ServiceError
from slca_core.trainer.launchers.slurm import EXIT_CODE, SCRIPT, SlurmJob, batch_script

NAME = "slca-train-slca-seed1-0123456789ab"
LAUNCHER = {"kind": "slurm", "partition": "h20", "account": "lab", "time": "2-00:00:00", "setup": ["module load cuda"]}

FAKES = {
    "sbatch": """
        script=$2; echo submitted >> "$SLURM_FAKE/submitted"
        log=$(sed -n 's/^#SBATCH --output=//p' "$script")
        SLURM_JOB_NODELIST=n1 setsid bash "$script" > "$log" 2>&1 < /dev/null &
        echo $! > "$SLURM_FAKE/pid"; echo "42;cluster"
    """,
    "squeue": """
        [ -f "$SLURM_FAKE/pid" ] && kill -0 "$(cat "$SLURM_FAKE/pid")" 2> /dev/null || exit 0
        echo "41 /elsewhere"; echo "42 $SLURM_FAKE/run"
    """,
    "srun": 'while [[ $1 == --* ]]; do shift; done; exec "$@"',
    "scontrol": "echo n1",
    "ray": 'echo "$@" >> "$SLURM_FAKE/ray"; echo "$RAY_AUTH_MODE $RAY_AUTH_TOKEN" >> "$SLURM_FAKE/tokens"',
}


@pytest.fixture
def slurm(tmp_path, monkeypatch) -> Path:
    """The fake's folder; `run/` in it is the run's."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, text in FAKES.items():
        path = commands / name
        path.write_text("#!/bin/bash\n" + re.sub(r"(?m)^ +", "", text).strip() + "\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_FAKE", str(tmp_path))
    (tmp_path / "run").mkdir()
    return tmp_path


@pytest.fixture
def job(slurm) -> SlurmJob:
    return SlurmJob(NAME, slurm / "run", slurm / "run" / "train.log")


def script_that(slurm: Path, body: str) -> str:
    return f"#SBATCH --output={slurm}/run/train.log\ntrap 'echo $? > {slurm}/run/{EXIT_CODE}' EXIT\n{body}\n"


def run(job: SlurmJob, script: str, on_poll=lambda: None) -> list[str]:
    said: list[str] = []
    job.run("driver", script, on_poll=on_poll, say=said.append, poll_s=0.05)
    return said


def submissions(slurm: Path) -> int:
    path = slurm / "submitted"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_the_script_starts_ray_over_the_nodes_and_runs_the_module_on_the_first(make_spec, slurm, tmp_path):
    machine = GpuProfile(actor_nodes=4, launcher=LAUNCHER)
    log = tmp_path / "train.log"
    script = batch_script(make_spec(machine=machine), NAME, "driver", ["spec.json"], env={"HF_HOME": "/a b"}, log=log)
    directives = set(re.findall(r"(?m)^#SBATCH (\S+)$", script))
    assert directives >= {"--nodes=4", "--gpus-per-node=8", "--partition=h20", "--account=lab", "--time=2-00:00:00"}
    assert f"--job-name={NAME}" in directives
    assert "module load cuda\nexport HF_HOME='/a b'" in script
    assert "--nodes=3 --ntasks=3" in script
    assert script.endswith('"${on_head[@]}" ' + f"{sys.executable} -m driver spec.json\n")
    assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0


def test_on_one_node_the_script_runs_as_it_stands(make_spec, slurm, job):
    spec = make_spec(machine={"kind": "cpu", "launcher": LAUNCHER | {"setup": []}}).model_copy(update={"folder": job.folder})
    script = batch_script(spec, NAME, "this", [], env={}, log=job.log)
    # The environment's own `ray` would come first in the path.
    run(job, script.replace(f"export PATH={Path(sys.executable).parent}:$PATH", ""))
    assert "Zen of Python" in job.log.read_text()
    (started,) = [line for line in (slurm / "ray").read_text().splitlines() if line.startswith("start")]
    assert re.fullmatch(r"start --head --block --node-ip-address=\S+ --port=6379 --num-cpus=8 --num-gpus=4", started)


def test_ray_of_a_job_asks_for_a_token_that_the_script_does_not_hold(make_spec, slurm, job):
    spec = make_spec(machine={"kind": "cpu", "launcher": LAUNCHER | {"setup": []}}).model_copy(update={"folder": job.folder})
    script = batch_script(spec, NAME, "this", [], env={}, log=job.log)
    run(job, script.replace(f"export PATH={Path(sys.executable).parent}:$PATH", ""))
    (mode_and_token,) = set((slurm / "tokens").read_text().splitlines())
    mode, token = mode_and_token.split()
    assert (mode, len(token)) == ("token", 64)
    assert token not in job.script.read_text() + job.log.read_text() + (slurm / "ray").read_text()


def test_a_job_is_submitted_once_and_says_how_to_stop_it(slurm, job):
    assert run(job, script_that(slurm, "sleep 0.2")) == [f"submitted Slurm's job 42, {NAME}; to stop it: scancel 42"]
    assert run(job, script_that(slurm, "exit 1")) == [], "it ended well before"
    assert submissions(slurm) == 1


def test_the_next_flow_follows_a_job_that_runs(slurm, job):
    def interrupt() -> None:
        raise KeyboardInterrupt

    script = script_that(slurm, "sleep 1")
    with pytest.raises(KeyboardInterrupt):
        run(job, script, on_poll=interrupt)
    assert run(job, script) == [f"follows Slurm's job 42, {NAME}"]
    assert submissions(slurm) == 1


def test_a_failed_job_gives_the_sentence_it_left_and_is_submitted_again(slurm, job):
    with pytest.raises(DataError, match=r"^Rows were expected\."):
        run(job, script_that(slurm, "echo 'slca_core.errors.DataError: Rows were expected.'; exit 1"))
    run(job, script_that(slurm, "true"))
    assert submissions(slurm) == 2


def test_a_job_that_slurm_ended_is_told_from_one_that_failed(slurm, job):
    with pytest.raises(ServiceError, match="gone without an end of its own"):
        run(job, script_that(slurm, "kill -9 $$"))


def test_without_slurm_the_script_is_written_and_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    job = SlurmJob(NAME, tmp_path, tmp_path / "train.log")
    with pytest.raises(ConfigError, match=f"sbatch {tmp_path / SCRIPT}"):
        run(job, "echo hello")
    assert (tmp_path / SCRIPT).read_text() == "echo hello"
