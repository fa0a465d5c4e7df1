"""Steps side by side: what one that fails or a Ctrl-C does to the others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from prefect import flow, task
from prefect.settings import PREFECT_API_URL

from slca_core.config import REPOSITORY, CpuProfile, NotifyConfig, Study
from slca_core.errors import DataError, ServiceError, SlcaError
from slca_core.processes.supervise import start
from tasks.orchestration.task_runner import gather, lanes
from tests.support.waiting import is_gone, wait_until


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
        from tasks.orchestration.task_runner import lanes
        from tests.orchestration.test_task_runner import study

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


@task
def breaks() -> None:
    raise DataError("no rows")


@task
def goes_on(folder: str, name: str, seconds: float) -> str:
    process = start([sys.executable, "-c", f"import time; time.sleep({seconds})"], Path(folder, f"{name}.log"), {})
    if process.wait() != 0:
        raise ServiceError(f"{name} was ended")
    Path(folder, name).touch()
    return name


def side_by_side(study: Study, folder: Path, seconds: float) -> list[str]:
    @flow
    def stage() -> dict[str, str]:
        running = {"first": breaks.submit()}
        for name, lasts in {"second": seconds, "third": seconds}.items():
            running[name] = goes_on.submit(str(folder), name, lasts)
        return gather(study, "train", running)

    try:
        stage.with_options(task_runner=lanes(study))()
    except SlcaError as error:
        return [str(error)]
    return []


@pytest.fixture
def heard(tmp_path) -> tuple[Path, NotifyConfig]:
    """Where the news go, and the setting that sends them there."""
    out = tmp_path / "heard.jsonl"
    write = "import pathlib, sys; pathlib.Path(sys.argv[1]).open('a').write(sys.stdin.read() + '\\n')"
    return out, NotifyConfig(command=[sys.executable, "-c", write, str(out)])


@pytest.mark.parametrize(("on_failure", "finished"), [("finish_others", True), ("stop", False)])
def test_the_first_failure_is_told_at_once_and_the_others_do_as_the_study_says(
    prefect_server, tmp_path, heard, capsys, on_failure, finished
):
    out, settings = heard
    told = study(2).model_copy(update={"root": tmp_path, "on_failure": on_failure, "notify": settings})
    began = time.monotonic()
    seconds = 1.0 if on_failure == "finish_others" else 120.0
    assert side_by_side(told, tmp_path, seconds) == ["no rows"], "the failure itself, and not what became of the others by it"
    assert time.monotonic() - began < 60
    (news,) = map(json.loads, out.read_text().splitlines())
    expected = {"study": "side-by-side", "state": "step failed", "step": "train first", "message": "no rows"}
    assert expected.items() <= news.items()
    assert f"on_failure: {on_failure}" in " ".join(capsys.readouterr().err.split())
    assert [(tmp_path / name).exists() for name in ("second", "third")] == [finished] * 2


def test_steps_that_all_end_well_give_what_they_left_in_order_and_no_news(prefect_server, heard, tmp_path):
    out, settings = heard
    quiet = study(2).model_copy(update={"root": tmp_path, "notify": settings})

    @flow
    def stage() -> dict[str, str]:
        return gather(
            quiet, "train", {name: goes_on.submit(str(tmp_path), name, lasts) for name, lasts in (("b", 0.4), ("a", 0.1))}
        )

    assert list(stage.with_options(task_runner=lanes(quiet))().items()) == [("b", "b"), ("a", "a")]
    assert not out.exists()
