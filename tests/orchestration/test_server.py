"""A run's own Prefect server: used, not shown, and gone with the run."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import psutil
import pytest
from filelock import FileLock, Timeout

from slca_core.config import REPOSITORY
from tasks.orchestration import server
from tasks.orchestration.workspace import quiet_environment
from tests.support.waiting import is_gone, wait_until


@pytest.fixture
def start(tmp_path):
    """Runs code inside `private_server`, without a server in the environment."""

    def run(code: str) -> subprocess.Popen:
        imports = "from pathlib import Path\nfrom tasks.orchestration.server import is_private, private_server\n"
        script = f"{imports}with private_server(Path({str(tmp_path)!r})):\n"
        (tmp_path / "prefect").mkdir()
        env = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"} | quiet_environment(tmp_path)
        text = script + textwrap.indent(textwrap.dedent(code), "    ")
        return subprocess.Popen(
            [sys.executable, "-c", text], cwd=REPOSITORY, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    return run


def test_flows_run_on_it_and_it_is_private(start, tmp_path):
    process = start("""
        from prefect import flow
        from prefect.settings import PREFECT_API_URL
        import httpx
        url = flow(lambda: PREFECT_API_URL.value())()
        print(url, is_private(), httpx.post(f"{url}/flow_runs/filter", json={}, trust_env=False).status_code)
    """)
    out, _ = process.communicate(timeout=200)
    assert process.returncode == 0
    url, private, answer_to_a_stranger = out.split()
    assert answer_to_a_stranger == "401", "loopback is shared by all who use the machine"
    assert url.startswith("http://127.0.0.1:")
    assert private == "True"
    assert not list((tmp_path / "logs").iterdir()), "its log is kept only if it failed"


def test_it_ends_with_a_run_that_is_killed(start):
    process = start("import time; print('up', flush=True); time.sleep(120)")
    assert process.stdout.readline() == "up\n"
    servers = psutil.Process(process.pid).children(recursive=True)
    assert servers
    process.kill()
    process.wait()
    assert wait_until(lambda: all(is_gone(server.pid) for server in servers), 30)


def test_a_run_whose_server_is_killed_goes_on_with_the_next_one(start, tmp_path):
    """Subflows and tasks begin with a client of their own while it is away."""
    process = start("""
        import os
        import psutil
        from prefect import flow, task

        def kill():
            for child in psutil.Process().children(recursive=True):
                child.kill()

        one_more = task(lambda number: number + 1)

        @flow
        def inner(number):
            return one_more.submit(number).result()

        @flow
        def outer():
            number = inner(0)
            kill()
            number = inner(number)
            kill()
            return one_more.submit(number).result()

        print("->", outer())
    """)
    out, _ = process.communicate(timeout=300)
    said = out.splitlines()
    assert (process.returncode, said[-1]) == (0, "-> 3"), out
    assert sum("ended with code -9; it is started again" in line for line in said) == 2, out


def test_of_two_runs_in_one_root_one_makes_the_database_and_the_other_waits(tmp_path, monkeypatch):
    """Side by side they would be in each other's way."""
    other = FileLock(tmp_path / "prefect.lock")
    free: list[bool] = []

    def is_free() -> bool:
        try:
            with other.acquire(timeout=0):
                return True
        except Timeout:
            return False

    @contextmanager
    def keep_serving(*_: object, **__: object) -> Iterator[str]:
        free.append(is_free())
        yield "http://127.0.0.1:1"

    monkeypatch.setattr(server, "keep_serving", keep_serving)
    monkeypatch.setattr(server, "get_current_settings", lambda: SimpleNamespace(api=SimpleNamespace(url=None)))
    with server.private_server(tmp_path):
        free.append(is_free())
    assert free == [False, True]
