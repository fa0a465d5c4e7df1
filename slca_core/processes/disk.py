"""Room on the disk: asked for before a step fills it, and told in a sentence where it is gone all the same."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from slca_core.errors import DataError, SlcaError

_FULL = (errno.ENOSPC, errno.EDQUOT)
# As the system, SQLite and others say it, whose exceptions bear no number.
FULL_WORDS = ("No space left on device", "Disk quota exceeded", "disk is full")
_HEADROOM = 64 * 2**20  # of bytes, for logs and databases beside a step


def require_room(folder: Path, needed: int, what: str) -> None:
    """Check that `needed` bytes are free below `folder`, besides some for logs and databases.

    Raises:
        DataError: they are not; says how many are missing, and what to do.
    """
    free = shutil.disk_usage(folder).free
    if free < needed + _HEADROOM:
        raise DataError(
            f"About {size(needed + _HEADROOM)} were expected to be free on the disk of {folder} for {what}, {size(free)} are. "
            "Free some, or let the study lie on another disk: --set root=FOLDER. What is finished is kept."
        )


def full_disk(error: BaseException, folder: Path) -> str | None:
    """Return a sentence if `error`, or what it came of, is a disk without room; None otherwise."""
    for one in _chain(error):
        if (isinstance(one, OSError) and one.errno in _FULL) or any(words in str(one) for words in FULL_WORDS):
            named = Path(str(one.filename)).parent if isinstance(one, OSError) and one.filename else folder
            return no_room(named if named.is_dir() else folder)
    return None


@contextmanager
def in_a_sentence(folder: Callable[[], Path]) -> Iterator[None]:
    """Turn a full disk, by whatever exception the block shows it, into a sentence; it names `folder` where the error names none.

    Raises:
        DataError: the disk is full.
    """
    try:
        yield
    except Exception as error:
        if not isinstance(error, SlcaError) and (sentence := full_disk(error, folder())):
            raise DataError(sentence) from error
        raise


def no_room(folder: Path) -> str:
    """Say that the disk of `folder` is full, and what to do."""
    free = size(shutil.disk_usage(folder).free)
    return (
        f"No space left on the disk of {folder}: {free} are free. `slca plan` says how many bytes the study needs. Free some, or "
        "let the study lie on another disk (--set root=FOLDER), and run it again; what is finished is kept."
    )


def size(count: int) -> str:
    """A count of bytes for people, e.g. 3.4 GB."""
    for unit, scale in (("GB", 10**9), ("MB", 10**6)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count / 1000:.0f} kB"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and those it came of."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or found.__context__
