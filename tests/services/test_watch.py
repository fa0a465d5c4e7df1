"""What waits is named, and the run's own use of memory, nobody else's, has an end."""

from __future__ import annotations

import signal
import subprocess
import sys

import psutil
import pytest

from slca_core.errors import ServiceError
from slca_core.processes.supervise import start, stop
from slca_core.services import watch
from slca_core.services.watch import memory_of_machine, used_memory, watching
from slca_core.trainer.launch import run_module
from tests.support.waiting import wait_until


@pytest.fixture
def child():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    yield psutil.Process(process.pid)
    process.kill()
    process.wait()


def test_a_process_that_a_signal_stopped_is_named_once_each_time_with_what_lets_it_go_on(child):
    said: list[str] = []
    with watching(said.append, limit_memory=False, every_s=0.05):
        for times in (1, 2):
            child.send_signal(signal.SIGSTOP)
            assert wait_until(lambda times=times: len(said) == times)
            assert not wait_until(lambda times=times: len(said) > times, 0.3)
            child.send_signal(signal.SIGCONT)
            assert wait_until(lambda: child.status() != psutil.STATUS_STOPPED)
            assert not wait_until(lambda times=times: len(said) > times, 0.3)
    assert all("time.sleep(300)" in sentence and f"kill -CONT {child.pid}" in sentence for sentence in said)


def test_forks_are_counted_once_where_they_share_and_in_full_where_they_do_not(child):
    own = used_memory([psutil.Process()])
    assert own <= used_memory([psutil.Process(), child]) <= own + child.memory_info().rss
    assert used_memory([]) == 0


@pytest.mark.parametrize(("share", "ended"), [(0.0, True), (1.0, False)], ids=["of-the-run", "of-others"])
def test_a_run_that_takes_the_memory_is_ended_with_advice_and_one_beside_others_that_do_is_not(monkeypatch, tmp_path, share, ended):
    monkeypatch.setattr(watch, "_free_share", lambda: 0.0)
    monkeypatch.setattr(watch, "MOST_OF_MEMORY", share)
    (tmp_path / "slca_slow.py").write_text("import time; time.sleep(1.0)")
    said: list[str] = []

    def work() -> None:
        env = {"PYTHONPATH": str(tmp_path)}
        with watching(said.append, limit_memory=True, every_s=0.1):
            run_module("slca_slow", [], log=tmp_path / "log", env=env, poll_s=0.05)

    if ended:
        with pytest.raises(ServiceError, match=r"^The run held .* of memory that this machine has.*machine\.parallel=1.*\(log: "):
            work()
        assert said
    else:
        work()
        assert said == []


@pytest.fixture
def groups(monkeypatch, tmp_path):
    """Control groups of this process as files: (membership, {path: (limit, use)})."""

    def write(membership: str, files: dict[str, tuple[str, str]]) -> None:
        (tmp_path / "cgroup").write_text(membership)
        for path, (limit, used) in files.items():
            folder = tmp_path / path
            folder.mkdir(parents=True, exist_ok=True)
            names = (
                ("memory.limit_in_bytes", "memory.usage_in_bytes")
                if path.startswith("memory")
                else ("memory.max", "memory.current")
            )
            for name, value in zip(names, (limit, used), strict=True):
                (folder / name).write_text(f"{value}\n")

    monkeypatch.setattr(watch, "_CGROUPS", tmp_path)
    monkeypatch.setattr(watch, "_MEMBERSHIP", tmp_path / "cgroup")
    return write


@pytest.mark.parametrize(
    ("membership", "files"),
    [
        ("0::/\n", {"": ("1000000", "950000")}),
        ("0::/job/step\n", {"job": ("1000000", "950000"), "job/step": ("max", "950000")}),
        ("4:memory:/job\n1:cpu:/job\n", {"memory/job": ("1000000", "950000")}),
    ],
    ids=["of a container", "of a batch job", "version 1"],
)
def test_memory_is_what_a_container_or_a_job_allows_where_that_is_less(groups, membership, files):
    groups(membership, files)
    assert memory_of_machine() == 1_000_000
    assert watch._free_share() == pytest.approx(0.05)


def test_without_a_limit_it_is_the_machines(groups):
    groups("0::/user\n", {"user": ("max", "5")})
    assert memory_of_machine() == psutil.virtual_memory().total
    assert watch._free_share() > 0


def test_what_a_whole_run_needs_outlives_an_end_for_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(watch, "_free_share", lambda: 0.0)
    monkeypatch.setattr(watch, "MOST_OF_MEMORY", 0.0)
    sleeps = [sys.executable, "-c", "import time; time.sleep(300)"]
    service, step = start(sleeps, tmp_path / "service", {}, of_run=True), start(sleeps, tmp_path / "step", {})
    try:
        with watching(lambda _: None, limit_memory=True, every_s=0.05):
            assert step.wait(30) != 0
        assert service.poll() is None
    finally:
        stop(service)
