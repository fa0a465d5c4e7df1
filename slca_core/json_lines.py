"""Files of one JSON value a line that are appended to; a last line that a crash left unfinished counts for nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slca_core.records import write_atomically


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The finished lines of a file; none if it is not there."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def keep_lines(path: Path, kept: Callable[[dict[str, Any]], bool]) -> None:
    """Drops the lines that are not to be kept, and an unfinished one; nothing happens if there is no file."""
    if path.exists():
        write_atomically(path, "".join(json.dumps(line) + "\n" for line in read_lines(path) if kept(line)))
