"""An environment is built beside, put in place when whole, never changed through a link, and anew only for another lock."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from slca_core.benchmarks import bfcl, environment, tau2
from slca_core.config import REPOSITORY
from slca_core.errors import ConfigError


@pytest.fixture
def lock(tmp_path) -> Path:
    path = tmp_path / "bench.txt"
    path.write_text("# nothing\n")
    return path


@pytest.fixture
def venv(tmp_path) -> Path:
    return tmp_path / ".venv-toy"


class Installer:
    """Stands for venv and pip; counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, folder: Path, lock: Path) -> None:
        self.asked += 1
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "python").symlink_to(sys.executable)
        (folder / "bin" / "tool").write_text(f"#!{folder}/bin/python\n")
        (folder / "lock").write_text(lock.read_text())


@pytest.fixture
def install() -> Installer:
    return Installer()


def test_it_is_built_once_and_names_its_own_place(venv, lock, install):
    for _ in range(2):
        assert environment.require(venv, lock, install=install) == venv / "bin" / "python"
    assert install.asked == 1
    assert (venv / "bin" / "tool").read_text() == f"#!{venv}/bin/python\n"
    assert sorted(path.name for path in venv.parent.glob(".venv*")) == [".venv-toy", ".venv-toy.lock"]


def test_a_checkout_that_touches_the_lock_rebuilds_nothing_and_another_lock_does(venv, lock, install):
    environment.require(venv, lock, install=install)
    os.utime(lock, (2**31, 2**31))
    environment.require(venv, lock, install=install)
    assert install.asked == 1
    lock.write_text("# another\n")
    environment.require(venv, lock, install=install)
    assert (install.asked, (venv / "lock").read_text()) == (2, "# another\n")


@pytest.mark.parametrize("spoil", ["another Python", "no stamp", "a stamp of make", "no interpreter"])
def test_what_is_not_whole_or_of_another_python_is_built_anew(venv, lock, install, spoil):
    environment.require(venv, lock, install=install)
    stamp = venv / environment.STAMP
    {
        "another Python": lambda: stamp.write_text(stamp.read_text().replace("cpython-311", "cpython-310")),
        "no stamp": stamp.unlink,
        "a stamp of make": lambda: stamp.write_text(""),
        "no interpreter": (venv / "bin" / "python").unlink,
    }[spoil]()
    environment.require(venv, lock, install=install)
    assert install.asked == 2


def test_it_is_never_changed_through_a_link(venv, lock, install, tmp_path):
    shared = tmp_path / "colleague" / ".venv-toy"
    shared.parent.mkdir()
    environment.require(shared, lock, install=install)
    venv.symlink_to(shared)
    assert environment.require(venv, lock, install=install) == venv / "bin" / "python"
    lock.write_text("# another\n")
    before = sorted(path.stat().st_mtime_ns for path in shared.rglob("*"))
    with pytest.raises(ConfigError, match=r"is a link to .*colleague/\.venv-toy, which is not, .* Remove the link"):
        environment.require(venv, lock, install=install)
    assert (install.asked, sorted(path.stat().st_mtime_ns for path in shared.rglob("*"))) == (1, before)


def test_links_that_were_left_beside_it_are_removed_and_not_what_they_lead_to(venv, lock, install, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("still here")
    for name in ("building", "replaced"):
        venv.with_name(f"{venv.name}.{name}").symlink_to(precious)
    environment.require(venv, lock, install=install)
    assert (precious / "file").read_text() == "still here"


def test_what_does_not_install_leaves_the_old_one_as_it_was(venv, lock, install):
    environment.require(venv, lock, install=install)
    lock.write_text("# another\n")

    def fail(folder: Path, lock: Path) -> None:
        install(folder, lock)
        raise ConfigError("no network")

    with pytest.raises(ConfigError, match="no network"):
        environment.require(venv, lock, install=fail)
    assert (venv / "lock").read_text() == "# nothing\n"
    assert environment.require(venv, lock, install=install).is_file()
    assert (venv / "lock").read_text() == "# another\n"


def test_a_process_killed_between_building_and_putting_in_place_has_not_built_in_vain(venv, lock, install, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(environment, "_put_in_place", killed)
        with pytest.raises(KeyboardInterrupt):
            environment.require(venv, lock, install=install)
    assert environment.require(venv, lock, install=install).is_file()
    assert install.asked == 1


def test_of_two_that_want_it_one_builds_and_the_other_waits(venv, lock, install):
    waiting = [threading.Thread(target=environment.require, args=(venv, lock), kwargs={"install": install}) for _ in range(2)]
    for thread in waiting:
        thread.start()
    for thread in waiting:
        thread.join()
    assert install.asked == 1


def test_the_command_builds_a_real_one_that_runs_where_it_lies(tmp_path, lock):
    argv = [sys.executable, "-m", environment.__name__, ".venv-toy", "bench.txt", "--above", "packages"]
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "below_it.py").write_text("answer = 42\n")
    found = subprocess.run(
        argv, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stderr, found.stdout) == (0, "", "building .venv-toy from bench.txt, once\n")
    code = "import sys, below_it; print(sys.prefix, below_it.answer)"
    argv = [str(tmp_path / ".venv-toy" / "bin" / "python"), "-I", "-c", code]
    assert subprocess.run(argv, capture_output=True, text=True, check=False).stdout == f"{tmp_path / '.venv-toy'} 42\n"


def test_what_does_not_install_is_one_sentence_of_the_command(venv, lock, monkeypatch, capsys):
    def fail(*_):
        raise ConfigError("no network")

    monkeypatch.setattr(environment, "install_by_pip", fail)
    monkeypatch.setattr(sys, "argv", ["environment", str(venv), str(lock)])
    with pytest.raises(SystemExit, match="2"):
        environment.main()
    assert capsys.readouterr().err == "environment: no network\n"


def test_pips_last_words_are_in_the_sentence(venv, lock, monkeypatch):
    def run(argv, **_):
        return subprocess.CompletedProcess(argv, returncode=int("pip" in argv), stdout="", stderr="ERROR: No matching distribution")

    monkeypatch.setattr(environment.subprocess, "run", run)
    with pytest.raises(ConfigError, match=r"What .*bench\.txt names was expected to install; .*\nERROR: No matching distribution"):
        environment.install_by_pip(venv, lock)


def test_make_and_tasks_build_the_same_environments_by_the_same_code():
    argv = ["make", "--no-print-directory", "-n", "bench-bfcl", "bench-tau2"]  # Made by a make, it would name its folder.
    made = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    wanted = {
        (one.name, f"requirements/bench-{one.name.removeprefix('.venv-')}.txt") for one in (bfcl.ENVIRONMENT, tau2.ENVIRONMENT)
    }
    assert {tuple(line.split()[-2:]) for line in made.stdout.splitlines()} == wanted
    assert all(environment.__name__ in line for line in made.stdout.splitlines())


def test_our_own_environment_is_never_changed_through_a_link_either(tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / ".venv").symlink_to("shared")
    script = REPOSITORY / "requirements" / "install.sh"
    argv = ["bash", str(script), "requirements/cpu.txt"]
    env = {**os.environ, "PYTHON": sys.executable}
    found = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert ".venv is a link to shared, and an environment is never changed through a link" in found.stderr
    assert list((tmp_path / "shared").iterdir()) == []
