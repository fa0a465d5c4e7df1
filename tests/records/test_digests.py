"""Digests of large files are read once, and again when the file changes."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from slca_core.config import REPOSITORY
from slca_core.records import digests
from slca_core.records.digests import LARGE, DigestCache
from slca_core.records.fingerprint import file_digest


@pytest.fixture
def reads(monkeypatch) -> list[Path]:
    """The files that were really read."""
    seen: list[Path] = []

    def read(path: Path) -> str:
        seen.append(path)
        return file_digest(path)

    monkeypatch.setattr(digests, "file_digest", read)
    return seen


@pytest.fixture
def weights(tmp_path, monkeypatch) -> Path:
    """A large file that lies there since an hour."""
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"w" * LARGE)
    now = time.time()
    monkeypatch.setattr(digests.time, "time", lambda: now + 3600)
    return path


def test_a_large_file_is_read_once(tmp_path, weights, reads):
    digests = {DigestCache(tmp_path / "digests.db").file_digest(weights) for _ in range(3)}
    assert digests == {file_digest(weights)}
    assert reads == [weights]


@pytest.mark.parametrize("byte", [b"v", b"vv"])
def test_a_file_that_changed_is_read_again(tmp_path, weights, byte):
    cache = DigestCache(tmp_path / "digests.db")
    cache.file_digest(weights)
    weights.write_bytes(byte * LARGE)
    assert cache.file_digest(weights) == file_digest(weights)


def test_a_flipped_byte_is_seen_though_size_and_time_are_set_back(tmp_path, weights):
    cache, before = DigestCache(tmp_path / "digests.db"), weights.stat()
    kept = cache.file_digest(weights)
    with weights.open("r+b") as file:
        file.write(b"v")
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (weights.stat().st_size, weights.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert cache.file_digest(weights) == file_digest(weights) != kept


def test_whoever_wants_a_file_read_again_has_it_read(tmp_path, weights, reads):
    cache = DigestCache(tmp_path / "digests.db")
    for _ in range(2):
        cache.file_digest(weights, again=True)
    assert cache.file_digest(weights) == file_digest(weights)
    assert reads == [weights, weights]


@pytest.mark.parametrize("spoil", [lambda path: path.write_bytes(b"no database" * 1000), Path.mkdir], ids=["garbage", "a folder"])
def test_a_cache_that_cannot_be_used_costs_time_and_is_said(tmp_path, weights, caplog, spoil):
    spoil(tmp_path / "digests.db")
    assert DigestCache(tmp_path / "digests.db").file_digest(weights) == file_digest(weights)
    assert f"Digests cannot be kept in {tmp_path / 'digests.db'}" in caplog.text


def test_a_cache_of_an_earlier_version_is_taken_over(tmp_path, weights, reads):
    with closing(sqlite3.connect(tmp_path / "digests.db")) as store:
        store.execute("CREATE TABLE digests (path TEXT PRIMARY KEY, size INT, changed INT, digest TEXT)")
    for _ in range(2):
        assert DigestCache(tmp_path / "digests.db").file_digest(weights) == file_digest(weights)
    assert reads == [weights]


def test_a_file_of_this_moment_is_read_each_time_since_it_may_still_change(tmp_path, weights, reads, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(digests, "file_digest", lambda path: reads.append(path) or file_digest(path))
    for _ in range(2):
        DigestCache(tmp_path / "digests.db").file_digest(weights)
    assert reads == [weights, weights]


def test_small_files_leave_no_cache_behind(tmp_path):
    small = tmp_path / "config.json"
    small.write_text("{}")
    assert DigestCache(tmp_path / "digests.db").file_digest(small) == file_digest(small)
    assert not (tmp_path / "digests.db").exists()


def test_processes_may_share_a_cache(tmp_path):
    files = [tmp_path / f"{number}.bin" for number in range(8)]
    for number, file in enumerate(files):
        file.write_bytes(bytes([number]) * LARGE)
    code = (
        "import sys; from pathlib import Path; from slca_core.records.digests import DigestCache\n"
        "cache = DigestCache(Path(sys.argv[1])); print([cache.file_digest(Path(file)) for file in sys.argv[2:]])"
    )
    argv = [sys.executable, "-c", code, str(tmp_path / "digests.db"), *map(str, files)]
    running = [subprocess.Popen(argv, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    printed = {process.communicate()[0].strip() for process in running}
    assert printed == {str([file_digest(file) for file in files])}
