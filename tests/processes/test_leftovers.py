"""What a killed process leaves behind goes with the next run on its machine; nothing of a living one, or of another machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from slca_core.config import REPOSITORY, CpuProfile, GpuProfile, Study
from slca_core.processes import leftovers
from slca_core.processes.forkserver import ForkServer
from slca_core.trainer import launch
from tasks import curate


@pytest.fixture
def temporary(tmp_path, monkeypatch) -> Path:
    path = tmp_path / "tmp"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


@pytest.fixture
def gone() -> int:
    """The number of a process that was killed."""
    process = subprocess.Popen(["sleep", "60"])
    process.kill()
    process.wait()
    return process.pid


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_folders_of_processes_that_are_gone_are_removed_and_others_stay(tmp_path, temporary, gone):
    run, host = tmp_path / "run", leftovers.own_folder(tmp_path).name.partition("-")[0]
    stay = {f"{host}-{os.getpid()}", f"0000-{gone}", "python-1", "forkserver-1.log", f"{host}-x"}
    for name in (*stay, f"{host}-{gone}"):
        (run / name).mkdir(parents=True)
        (run / name / "socket").write_text("")
    stay_there = {f"slca-{host}-{os.getpid()}-ab", f"slca-0000-{gone}-ab", f"slca-tests-{gone}", "another"}
    for name in (*stay_there, f"slca-{host}-{gone}-ab"):
        (temporary / name).mkdir()
    (temporary / f"slca-{host}-{gone}-link").symlink_to(run)
    leftovers.sweep(run)
    assert names(run) == stay
    assert names(temporary) == {*stay_there, f"slca-{host}-{gone}-link"}


def test_a_run_sweeps_first_and_has_a_folder_of_its_own_for_sockets(tmp_path, temporary, gone, monkeypatch):
    monkeypatch.setattr(launch.atexit, "register", lambda *_: None)
    own = leftovers.own_folder(tmp_path / "run")
    left = own.with_name(own.name.replace(str(os.getpid()), str(gone)))
    left.mkdir(parents=True)
    assert launch.python_for(GpuProfile(), tmp_path) == sys.executable
    assert names(tmp_path / "run") == {own.name}
    assert launch.environment(Path("/r"))["VLLM_RPC_BASE_PATH"] == f"/r/run/{own.name}"


def test_what_a_run_keeps_beside_its_root_is_gone_when_it_ends_and_after_a_kill_with_the_next(tmp_path):
    code = (
        "import os, sys; from pathlib import Path; from slca_core.config import CpuProfile; from slca_core.trainer import launch\n"
        "launch.PRELOADED = ()\n"
        "launch.python_for(CpuProfile(), Path(sys.argv[1]))\n"
        "print('up', flush=True); sys.stdin.read()"
    )
    (tmp_path / "tmp").mkdir()
    env = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": str(REPOSITORY)}

    def started() -> subprocess.Popen:
        argv = [sys.executable, "-c", code, str(tmp_path / "state")]
        process = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"up\n"
        return process

    killed = started()
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert len(names(tmp_path / "state" / "run")) == 1
    ended = started()
    assert len(names(tmp_path / "state" / "run")) == 1
    ended.communicate(timeout=300)
    assert names(tmp_path / "state" / "run") == names(tmp_path / "tmp") == set()


def test_a_fork_server_that_was_killed_leaves_no_socket_once_it_is_closed(tmp_path, temporary):
    (tmp_path / "run").mkdir()
    server = ForkServer([], tmp_path / "run", {})
    server._process.kill()
    server.close()
    assert names(temporary) == names(tmp_path / "run") == set()


def test_what_a_killed_curation_spooled_is_removed_by_the_next_attempt(tmp_path):
    sizes = {"generated": {"count": 60}, "test_size": 4}
    study = Study(name="toy", root=tmp_path, policy={"scratch": {}}, data=sizes, machine=CpuProfile())
    (tmp_path / "out" / ".spool-killed").mkdir(parents=True)
    curate._curate(study, tmp_path / "out")
    assert not list((tmp_path / "out").glob(".spool-*"))
