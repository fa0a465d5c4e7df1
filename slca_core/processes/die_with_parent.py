"""Runs a command that ends when its parent does, however that ends: `python -m slca_core.processes.die_with_parent COMMAND ...`.

A killed flow then leaves no server and no training behind. Linux only; elsewhere the command just runs.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def tethered(argv: Sequence[str]) -> list[str]:
    """`argv` under a tether to the process that starts it: SIGTERM once that is gone."""
    return [sys.executable, "-m", "slca_core.processes.die_with_parent", str(os.getpid()), *argv]


def end_with_parent() -> None:
    """SIGTERM for this process once its parent is gone, from here on."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def main() -> None:
    parent, *argv = sys.argv[1:]
    end_with_parent()
    # The parent may have gone before the line above.
    if os.getppid() != int(parent):
        sys.exit(1)
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        sys.exit(f"`{shlex.join(argv)}` could not be started: {error}")


if __name__ == "__main__":
    main()
