"""A tethered process outlives its parent by no more than moments."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from slca_core.processes.die_with_parent import tethered
from tests.support.waiting import is_gone, wait_until

ROOT = Path(__file__).parents[2]

PARENT = """
    import subprocess, sys, time
    from slca_core.processes.die_with_parent import tethered
    program = "import time; print('up', flush=True); time.sleep(600)"
    child = subprocess.Popen(tethered([sys.executable, "-c", program]), start_new_session=True)
    print(child.pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the tether is Linux's")
def test_a_child_ends_when_its_parent_is_killed():
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(PARENT)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    lines = sorted(parent.stdout.readline().strip() for _ in range(2))
    child = int(lines[0])
    assert lines[1] == "up"
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    assert wait_until(lambda: is_gone(child), 30), "the child outlived its parent"


def test_the_command_runs_as_itself():
    found = subprocess.run(tethered([sys.executable, "-c", "import sys; sys.exit(7)"]), cwd=ROOT)
    assert found.returncode == 7


def test_a_command_whose_parent_has_gone_already_does_not_start():
    argv = tethered([sys.executable, "-c", "print('ran')"])
    argv[3] = "1"
    found = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (1, "")
