"""The state of Prefect and MLflow lies in a temporary folder, set before either is imported."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from tasks.workspace import quiet_environment

STATE = Path(tempfile.mkdtemp(prefix="slca-tests-"))
os.environ.update(quiet_environment(STATE))
(STATE / "prefect").mkdir()  # Where the database of a server lies that a test gives another home.


def pytest_unconfigure() -> None:
    shutil.rmtree(STATE, ignore_errors=True)


@pytest.fixture(scope="session")
def prefect_server():
    """The Prefect server of every flow this process runs; its start takes long on a busy machine."""
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=180):
        yield


@pytest.fixture(scope="session")
def prefect_api(tmp_path_factory):
    """The API of a server with all its services, the scheduler too, as `prefect server start` runs it: for flows of others."""
    from slca_core.services.process import LOOPBACK, free_port, serve

    home, port = tmp_path_factory.mktemp("prefect"), free_port()
    argv = [sys.executable, "-m", "prefect", "server", "start", "--host", LOOPBACK, "--port", str(port)]
    env = {"PREFECT_HOME": str(home), "PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "2"}
    with serve("Prefect server", argv, port=port, log=home / "server.log", health="/api/health", env=env, timeout_s=180) as url:
        yield f"{url}/api"
