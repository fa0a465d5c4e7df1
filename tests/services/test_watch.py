"""What waits is named, and the run's own use of memory, nobody else's, has an end."""

from __future__ import annotations

import signal
import subprocess
import sys

import psutil
import pytest

from slca_core.errors import ServiceError
from slca_core.services import watch
from slca_core.services.watch import memory_of_machine, used_memory, watching
from slca_core.trainer.launch import run_module
from tests.waiting import wait_until


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


def test_memory_is_what_a_container_allows_where_that_is_less(monkeypatch, tmp_path):
    total = memory_of_machine()
    allowed, unlimited, absent = tmp_path / "memory.max", tmp_path / "unlimited", tmp_path / "absent"
    allowed.write_text("1000000\n")
    unlimited.write_text("max\n")
    monkeypatch.setattr(watch, "_CGROUP_LIMITS", (unlimited, absent))
    assert memory_of_machine() >= total
    monkeypatch.setattr(watch, "_CGROUP_LIMITS", (unlimited, allowed))
    assert memory_of_machine() == 1_000_000
