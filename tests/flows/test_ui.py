"""`slca ui` is a viewer: few processes, and none of them outlives it."""

from __future__ import annotations

import subprocess
import sys
import time

import httpx
import psutil

from slca_core.config import REPOSITORY
from slca_core.processes.supervise import free_port
from tasks import mlflow_store
from tests.support.scripted import write_study


def test_the_pages_are_three_processes_and_end_at_sigterm(tmp_path):
    path, port = write_study(tmp_path), free_port()
    (tmp_path / "state").mkdir()
    mlflow_store.open_store(tmp_path / "state")
    argv = [sys.executable, "-m", "flows.cli.main", "ui", str(path), "--port", str(port)]
    command = subprocess.Popen(argv, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 300
    while not answers(port):
        assert command.poll() is None, command.communicate()
        assert time.monotonic() < until
        time.sleep(0.2)
    processes = [psutil.Process(command.pid), *psutil.Process(command.pid).children(recursive=True)]
    assert len(processes) <= 3
    command.terminate()
    said, _ = command.communicate(timeout=300)
    assert f"MLflow: http://127.0.0.1:{port}" in said
    psutil.wait_procs(processes, timeout=60)
    assert [one for one in processes if one.is_running()] == []
    assert not answers(port)


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False
