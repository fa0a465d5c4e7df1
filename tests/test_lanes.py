"""Steps side by side: what one that fails or a Ctrl-C does to the others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from prefect import flow, task
from prefect.settings import PREFECT_API_URL

from slca_core.config import REPOSITORY, CpuProfile, Study
from slca_core.errors import DataError
from tasks.lanes import lanes
from tests.waiting import is_gone, wait_until


def study(parallel: int) -> Study:
    return Study(name="side-by-side", policy={"scratch": {}}, machine=CpuProfile(parallel=parallel))


@pytest.mark.parametrize(("parallel", "expected"), [(1, 1), (2, 2)])
def test_as_many_steps_as_the_machine_has_room_for(prefect_server, parallel, expected):
    running, most = [], []

    @task
    def step(number: int) -> None:
        running.append(number)
        most.append(len(running))
        time.sleep(0.3)
        running.remove(number)

    @flow
    def stage() -> None:
        for future in [step.submit(number) for number in range(4)]:
            future.result()

    stage.with_options(task_runner=lanes(study(parallel)))()
    assert max(most) == expected


def test_a_step_that_fails_lets_the_others_finish(prefect_server, tmp_path):
    @task
    def fails() -> None:
        raise DataError("no rows")

    @task
    def finishes() -> None:
        time.sleep(0.5)
        (tmp_path / "done").touch()

    @flow
    def stage() -> None:
        for future in [fails.submit(), finishes.submit()]:
            future.result()

    with pytest.raises(DataError, match="no rows"):
        stage.with_options(task_runner=lanes(study(2)))()
    assert (tmp_path / "done").exists()


def test_ctrl_c_ends_the_processes_of_every_lane(prefect_server, tmp_path):
    code = textwrap.dedent(f"""
        import signal
        from pathlib import Path
        # A shell's background job, which a run of these tests may be, ignores it and lets its children ignore it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from prefect import flow, task
        from slca_core.trainer.launch import run_module
        from tasks.lanes import lanes
        from tests.test_lanes import study

        @task
        def step(name):
            run_module("slca_sleeps", [], log=Path({str(tmp_path)!r}) / name, env={{"PYTHONPATH": {str(tmp_path)!r}}}, poll_s=0.05)

        @flow
        def stage():
            running = [step.submit("one"), step.submit("two")]
            Path({str(tmp_path)!r}, "waiting").touch()
            for future in running:
                future.result()

        stage.with_options(task_runner=lanes(study(2)))()
    """)
    (tmp_path / "slca_sleeps.py").write_text("import os, time; print(os.getpid(), flush=True); time.sleep(120)")
    env = {**os.environ, "PREFECT_API_URL": PREFECT_API_URL.value(), "PYTHONPATH": str(REPOSITORY)}
    process = subprocess.Popen([sys.executable, "-c", code], cwd=REPOSITORY, env=env, stderr=subprocess.DEVNULL)
    logs = [tmp_path / "one", tmp_path / "two"]
    assert wait_until(lambda: all(log.exists() and log.read_text().strip() for log in logs) and (tmp_path / "waiting").exists())
    process.send_signal(signal.SIGINT)
    assert process.wait(60) != 0
    assert all(is_gone(int(log.read_text().split()[0])) for log in logs)
