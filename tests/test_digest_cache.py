"""Digests of large files are read once, and again when the file changes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slca_core import digest_cache
from slca_core.config import REPOSITORY
from slca_core.digest_cache import LARGE, DigestCache
from slca_core.fingerprint import file_digest


@pytest.fixture
def reads(monkeypatch) -> list[Path]:
    """The files that were really read."""
    seen: list[Path] = []

    def read(path: Path) -> str:
        seen.append(path)
        return file_digest(path)

    monkeypatch.setattr(digest_cache, "file_digest", read)
    return seen


@pytest.fixture
def weights(tmp_path) -> Path:
    """A large file that lies there since an hour."""
    path = tmp_path / "model.safetensors"
    write(path, b"w", age_s=3600)
    return path


def write(path: Path, byte: bytes, age_s: float) -> None:
    path.write_bytes(byte * LARGE)
    changed = time.time() - age_s
    os.utime(path, (changed, changed))


def test_a_large_file_is_read_once(tmp_path, weights, reads):
    digests = {DigestCache(tmp_path / "digests.db").file_digest(weights) for _ in range(3)}
    assert digests == {file_digest(weights)}
    assert reads == [weights]


@pytest.mark.parametrize("byte", [b"v", b"vv"])
def test_a_file_that_changed_is_read_again(tmp_path, weights, byte):
    cache = DigestCache(tmp_path / "digests.db")
    cache.file_digest(weights)
    write(weights, byte, age_s=60)
    assert cache.file_digest(weights) == file_digest(weights)


def test_a_file_of_this_moment_is_read_each_time_since_it_may_still_change(tmp_path, weights, reads):
    write(weights, b"w", age_s=0)
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
        write(file, bytes([number]), age_s=3600)
    code = (
        "import sys; from pathlib import Path; from slca_core.digest_cache import DigestCache\n"
        "cache = DigestCache(Path(sys.argv[1])); print([cache.file_digest(Path(file)) for file in sys.argv[2:]])"
    )
    argv = [sys.executable, "-c", code, str(tmp_path / "digests.db"), *map(str, files)]
    running = [subprocess.Popen(argv, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    printed = {process.communicate()[0].strip() for process in running}
    assert printed == {str([file_digest(file) for file in files])}
