"""A job that is followed goes on without whoever follows it."""

from __future__ import annotations

import threading

import pytest

from slca_core.trainer.launchers.jobs import follow, job_environment, leave_all


def test_it_is_watched_while_it_runs():
    left, polls = [True, True, False], []
    follow(lambda: left.pop(0), on_poll=lambda: polls.append(1), on_leave=lambda: polls.append("left"), poll_s=0)
    assert polls == [1, 1]


def test_an_interruption_of_the_main_thread_leaves_those_that_others_follow():
    said: list[str] = []

    def followed_in_a_thread() -> None:
        with pytest.raises(KeyboardInterrupt):
            follow(lambda: True, on_poll=watched.set, on_leave=lambda: said.append("goes on"), poll_s=60)

    watched = threading.Event()
    thread = threading.Thread(target=followed_in_a_thread)
    thread.start()
    watched.wait(10)
    leave_all()
    thread.join(10)
    assert not thread.is_alive()
    assert said == ["goes on"]


def test_leaving_bears_on_no_job_followed_later():
    leave_all()
    left = [True, False]
    follow(lambda: left.pop(0), on_poll=lambda: None, on_leave=lambda: pytest.fail("left"), poll_s=0)


def test_the_folders_of_sockets_are_each_nodes_own():
    assert job_environment({"RAY_TMPDIR": "/r", "VLLM_RPC_BASE_PATH": "/v", "HF_HOME": "/h"}).keys() == {"HF_HOME", "PYTHONPATH"}
