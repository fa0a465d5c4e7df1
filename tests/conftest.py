"""The state of Prefect and MLflow lies in a temporary folder, set before either is imported."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.orchestration.workspace import quiet_environment

STATE = Path(tempfile.mkdtemp(prefix="slca-tests-"))
os.environ.update(quiet_environment(STATE))


def pytest_unconfigure() -> None:
    shutil.rmtree(STATE, ignore_errors=True)


@pytest.fixture(autouse=True)
def _environment_as_before() -> Iterator[None]:
    """A command settles Prefect and MLflow below its study's root, for the process's life: no test leaves that to the next."""
    before = dict(os.environ)
    yield
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)


@pytest.fixture(scope="session")
def prefect_server():
    """The Prefect server of every flow this process runs; its start takes long on a busy machine."""
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=180):
        yield


@pytest.fixture(scope="session")
def prefect_api(tmp_path_factory):
    """The API of a server with all its services, the scheduler too, as `prefect server start` runs it: for flows of others."""
    from slca_core.processes.supervise import LOOPBACK, free_port, serve

    home, port = tmp_path_factory.mktemp("prefect"), free_port()
    argv = [sys.executable, "-m", "prefect", "server", "start", "--host", LOOPBACK, "--port", str(port)]
    database = f"sqlite+aiosqlite:///{home / 'prefect.db'}"
    env = {
        **{"PREFECT_HOME": str(home), "PREFECT_API_DATABASE_CONNECTION_URL": database},
        "PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "2",
    }
    with serve("Prefect server", argv, port=port, log=home / "server.log", health="/api/health", env=env, timeout_s=180) as url:
        yield f"{url}/api"
