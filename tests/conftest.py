"""The state of Prefect and MLflow lies in a temporary folder, set before either is imported."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tasks.workspace import quiet_environment

STATE = Path(tempfile.mkdtemp(prefix="slca-tests-"))
os.environ.update(quiet_environment(STATE))


def pytest_unconfigure() -> None:
    shutil.rmtree(STATE, ignore_errors=True)


@pytest.fixture(scope="session")
def prefect_server():
    """A Prefect server of the session's own; its start takes long on a busy machine."""
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=180):
        yield
