"""Two runs at once, and holders that die."""

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

from slca_core.records.lock import HOLDER, hold, holder
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]

# Makes one step of a store in argv[1]; leaves a line for every time the work is really done.
MAKE = """
    import os, sys, time
    from pathlib import Path
    from slca_core.records.store import Step, Store

    def work(folder):
        with (root / "done.txt").open("a") as file:
            file.write(f"{os.getpid()}\\n")
        time.sleep(float(sys.argv[2]))
        (folder / "output").write_text("whole")
        return "digest", {}

    root = Path(sys.argv[1])
    print(Store(root, say=lambda text: print(text, flush=True)).run(Step(step="toy", name="toy"), work).output_digest)
"""


def make(root: Path, seconds: float) -> subprocess.Popen:
    argv = [sys.executable, "-c", textwrap.dedent(MAKE), str(root), str(seconds)]
    return subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_two_runs_of_one_step_at_once_do_it_once(tmp_path):
    runs = [make(tmp_path, 1.0) for _ in range(3)]
    printed = [run.communicate(timeout=120)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0], printed
    assert all(text.splitlines()[-1] == "digest" for text in printed)
    assert len((tmp_path / "done.txt").read_text().splitlines()) == 1
    assert sum("makes it" in text for text in printed) == 2, "those that waited said for whom"


def test_a_holder_that_is_killed_loses_its_lease_at_once(tmp_path):
    first = make(tmp_path, 600)
    assert wait_until((tmp_path / "done.txt").exists)
    second = make(tmp_path, 0)
    try:
        assert "makes it" in second.stdout.readline(), "it waits"
    finally:
        os.kill(first.pid, signal.SIGKILL)
    assert second.communicate(timeout=120)[0].splitlines()[-1] == "digest"
    assert len((tmp_path / "done.txt").read_text().splitlines()) == 2


def test_the_holder_is_named_while_it_lives_and_gone_after(tmp_path):
    with hold(tmp_path, pytest.fail, heartbeat_s=0.05):
        assert wait_until((tmp_path / HOLDER).exists)
        first = json.loads((tmp_path / HOLDER).read_text())
        assert first["pid"] == os.getpid()
        assert holder(tmp_path) == "another step of this run is the same and makes it"
        assert wait_until(lambda: json.loads((tmp_path / HOLDER).read_text())["alive_at"] > first["alive_at"], 30), "no heartbeat"
    assert not (tmp_path / HOLDER).exists()
    assert holder(tmp_path) == "another run makes it"


def test_a_holder_elsewhere_is_named_with_its_host(tmp_path):
    (tmp_path / HOLDER).write_text(json.dumps({"pid": 7, "host": "elsewhere", "since": 0.0, "alive_at": time.time()}))
    assert holder(tmp_path).startswith("process 7 on elsewhere makes it (alive 0 s ago")


def test_a_block_that_fails_lets_go(tmp_path):
    with pytest.raises(RuntimeError), hold(tmp_path, pytest.fail):
        raise RuntimeError
    with hold(tmp_path, pytest.fail):
        pass
