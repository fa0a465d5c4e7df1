"""Folders of one process: sockets, a command, a log. They go with it, and where it was killed, with the next run on its machine.

A folder's name says whose it is. The machine is part of it, since several may share a study's root.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

_TEMPORARY = "slca-"


def own_folder(parent: Path) -> Path:
    """This process's folder below `parent`, as short as a socket's path must be; it may not be there yet."""
    return parent / f"{_host()}-{os.getpid()}"


def make_temporary() -> Path:
    """A new folder of this process, at the short path of the machine's temporary ones."""
    return Path(tempfile.mkdtemp(prefix=f"{_TEMPORARY}{_host()}-{os.getpid()}-"))


def remove(folder: Path) -> None:
    """The folder with all in it; whoever else removes it meanwhile is welcome."""
    shutil.rmtree(folder, ignore_errors=True)


def sweep(parent: Path) -> None:
    """Removes what processes of this machine and user left behind that are gone: below `parent`, and among temporary folders."""
    temporary = Path(tempfile.gettempdir())
    found = [*_owned(parent, f"{_host()}-"), *_owned(temporary, f"{_TEMPORARY}{_host()}-")]
    for folder, pid in found:
        if _is_gone(pid):
            remove(folder)


def _owned(parent: Path, prefix: str) -> list[tuple[Path, int]]:
    """The folders below `parent` that bear a process's number after `prefix`, and the numbers."""
    owned = []
    for folder in parent.glob(f"{prefix}[0-9]*"):
        number = folder.name.removeprefix(prefix).partition("-")[0]
        with suppress(OSError):  # Another's sweep was faster.
            if number.isdigit() and not folder.is_symlink() and folder.stat().st_uid == os.getuid():
                owned.append((folder, int(number)))
    return owned


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # Another's.
    return False


def _host() -> str:
    return sha256(socket.gethostname().encode()).hexdigest()[:4]
