"""What a finished step left on disk: every file with its digest, so that one changed or lost since is named and not served.

The digest decides. A file's size says at a glance that it changed, its times only when it must be read again (`digests`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from slca_core.config import Frozen

_NO_OUTPUT = (".log", ".unfinished")


class Output(Frozen):
    """One file as it was recorded."""

    sha256: str
    bytes: int = Field(ge=0)


@dataclass(frozen=True, slots=True)
class Difference:
    """A file of the output that is not as it was recorded; `detail` says how."""

    path: Path
    kind: Literal["changed", "missing", "added"]
    detail: str

    def __str__(self) -> str:
        return f"{self.path} {self.detail}"


def find_outputs(folder: Path, of_file: Callable[[Path], str], *, besides: Iterable[str] = ()) -> dict[str, Output]:
    """The files below a step's folder by their path in it; what is a log, hidden, unfinished or in `besides` is no output.

    Args:
        of_file: gives the SHA-256 of a file.
        besides: files and folders of an attempt, by their path in the folder.
    """
    return {
        name: Output(sha256=of_file(folder / name), bytes=(folder / name).stat().st_size)
        for name in _files(folder)
        if not any(_is_in(name, left_out) for left_out in besides)
    }


def differences(
    folder: Path, recorded: Mapping[str, Output], of_file: Callable[[Path], str] | None, part: str = ""
) -> list[Difference]:
    """What differs from the record, of the file or folder `part` of the output, or of all of it.

    Args:
        of_file: gives the SHA-256 of a file; None looks at no more than what is there and how large it is.
        part: files that a folder has beyond the record differ too: a library that loads it may read them.
    """
    found = [
        difference
        for name, output in recorded.items()
        if _is_in(name, part) and (difference := _difference(folder / name, output, of_file))
    ]
    if part and (folder / part).is_dir():
        added = [name for name in _files(folder / part) if f"{part}/{name}" not in recorded]
        found += [Difference(folder / part / name, "added", "was not there when the step was recorded") for name in added]
    return found


def folder_bytes(folder: Path) -> int:
    """Of the folder's own files; what is linked lies elsewhere."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def _difference(path: Path, output: Output, of_file: Callable[[Path], str] | None) -> Difference | None:
    if not path.is_file():
        return Difference(path, "missing", "is gone")
    size = path.stat().st_size
    if size != output.bytes:
        return Difference(path, "changed", f"was recorded with {output.bytes:,} bytes and has {size:,}")
    try:
        sha256 = of_file(path) if of_file else output.sha256
    except OSError as error:
        return Difference(path, "changed", f"cannot be read: {error.strerror}")
    if sha256 != output.sha256:
        return Difference(path, "changed", f"was recorded with SHA-256 {output.sha256[:12]} and has {sha256[:12]}")
    return None


def _files(folder: Path) -> list[str]:
    names = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and path.suffix not in _NO_OUTPUT)
    return sorted(name.as_posix() for name in names if not any(part.startswith(".") for part in name.parts))


def _is_in(name: str, part: str) -> bool:
    return not part or name == part or name.startswith(f"{part}/")
