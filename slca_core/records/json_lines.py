"""Files of one JSON value a line that are appended to; a last line that a crash left unfinished counts for nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from slca_core.errors import DataError
from slca_core.records.store import write_atomically


def read_lines(path: Path, needs: Iterable[str] = ()) -> list[dict[str, Any]]:
    """The finished lines of a file; none if it is not there.

    Raises:
        DataError: a line is no JSON object, or lacks a key that it `needs`.
    """
    if not path.exists():
        return []
    return [_read(path, number, line, needs) for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1)]


def keep_lines(path: Path, kept: Callable[[dict[str, Any]], bool], needs: Iterable[str] = ()) -> None:
    """Drops the lines that are not to be kept, and an unfinished one; nothing happens if there is no file."""
    if path.exists():
        write_atomically(path, "".join(json.dumps(line) + "\n" for line in read_lines(path, needs) if kept(line)))


def _read(path: Path, number: int, line: bytes, needs: Iterable[str]) -> dict[str, Any]:
    try:
        value: dict[str, Any] = json.loads(line)
        if not isinstance(value, dict):
            raise ValueError(f"it is a {type(value).__name__}")
        if missing := [key for key in needs if key not in value]:
            raise ValueError(f"it lacks {', '.join(missing)}")
        return value
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"A JSON object was expected in line {number} of {path}, found none to be used: {error}. Mend the line, or delete "
            f"{path.parent}: the next run then makes the step again."
        ) from None
