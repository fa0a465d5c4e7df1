"""A disk without room is told in a sentence, before a step where that can be known, and whatever exception shows it after."""

from __future__ import annotations

import errno
import sqlite3
from collections import namedtuple
from pathlib import Path

import pytest

from slca_core.errors import DataError
from slca_core.processes import disk
from slca_core.processes.disk import full_disk, in_a_sentence, require_room

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def free(monkeypatch):
    """Sets how many bytes the disk has free."""

    def set_free(count: int) -> None:
        monkeypatch.setattr(disk.shutil, "disk_usage", lambda _: Usage(10**12, 0, count))

    return set_free


def test_a_step_that_has_room_begins(free, tmp_path):
    free(4 * 10**9)
    require_room(tmp_path, 3 * 10**9, "train grpo")


def test_one_that_has_not_says_what_it_needs_and_where(free, tmp_path):
    free(10**9)
    with pytest.raises(DataError, match=rf"About 3\.1 GB were expected .* {tmp_path} for train grpo, 1\.0 GB are\. .*--set root"):
        require_room(tmp_path, 3 * 10**9, "train grpo")


def written_to_a_full_device() -> OSError:
    with pytest.raises(OSError, match="No space left") as caught, Path("/dev/full").open("w", buffering=1) as file:
        file.write("anything\n")
    return caught.value


def caused(cause: Exception) -> Exception:
    try:
        raise RuntimeError("the flow failed") from cause
    except RuntimeError as error:
        return error


@pytest.mark.parametrize(
    "error",
    [
        written_to_a_full_device(),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        sqlite3.OperationalError("database or disk is full"),
        caused(OSError(errno.ENOSPC, "No space left on device")),
        RuntimeError("[enforce fail at inline_container.cc] . PytorchStreamWriter failed: No space left on device"),
    ],
    ids=["the-system's", "a-quota", "sqlite's", "behind-another", "a-library's-words"],
)
def test_whatever_exception_shows_a_full_disk_it_is_one_sentence(error, tmp_path):
    with pytest.raises(DataError, match=f"No space left on the disk of {tmp_path}: .* are free"), in_a_sentence(lambda: tmp_path):
        raise error


def test_the_folder_that_an_error_names_is_named(tmp_path):
    (tmp_path / "there").mkdir()
    error = OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "there" / "file"))
    assert f"the disk of {tmp_path / 'there'}:" in full_disk(error, Path("/elsewhere"))


@pytest.mark.parametrize(
    "error", [OSError(errno.EACCES, "denied"), ValueError("full of ideas"), DataError("No space left on device")]
)
def test_other_errors_and_our_own_sentences_stay_as_they_are(error, tmp_path):
    with pytest.raises(type(error)) as caught, in_a_sentence(lambda: tmp_path):
        raise error
    assert caught.value is error
