"""Where a training run is executed: in a child process, as a job of a running Ray cluster, or as a batch job of Slurm.

The launcher is placement: it bears neither on what a run computes nor on its step's identity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from slca_core.config import LocalLauncher, RayJobLauncher
from slca_core.trainer.launch import python_for, run_module
from slca_core.trainer.launchers.jobs import job_name
from slca_core.trainer.spec import TrainSpec

# A job outlives the flow that submits it and so brings its own stand-ins.
LOCAL_MODULE, JOB_MODULE = "slca_core.trainer.run_rl", "slca_core.trainer.launchers.run_job"


def train(
    spec: TrainSpec,
    spec_path: Path,
    *,
    root: Path,
    log: Path,
    env: Mapping[str, str],
    on_poll: Callable[[], None],
    say: Callable[[str], None],
) -> None:
    """Runs the training of `spec` to its end by the study's launcher, as `launch.run_module` does.

    Args:
        root: of the study, below which a local run keeps its interpreter.
        say: hears what a person should know of a job: where it runs, how to stop it.
    """
    launcher = spec.machine.launcher
    if isinstance(launcher, LocalLauncher):
        run_module(LOCAL_MODULE, [str(spec_path)], python=python_for(spec.machine, root), log=log, env=env, on_poll=on_poll)
    elif isinstance(launcher, RayJobLauncher):
        from slca_core.trainer.launchers import ray_job

        job = ray_job.RayJob(launcher.address, job_name(spec.folder), log)
        job.run(JOB_MODULE, [str(spec_path)], env=env, on_poll=on_poll, say=say)
    else:
        from slca_core.trainer.launchers import slurm

        script = slurm.batch_script(spec, job_name(spec.folder), JOB_MODULE, [str(spec_path)], env=env, log=log)
        slurm.SlurmJob(job_name(spec.folder), spec.folder, log).run(JOB_MODULE, script, on_poll=on_poll, say=say)
