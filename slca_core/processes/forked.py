"""Asks the fork server for a process that runs this command line, and stands for it: its signals, its end, its exit code.

python -I -S forked.py SOCKET PYTHON arguments of python ...

Only the standard library, and little of it: what this file saves is the time that imports take. Where no server answers, it becomes
the plain interpreter it was asked for.
"""

import array
import contextlib
import json
import os
import signal
import socket
import sys

# Ints of the protocol: the server answers with the child's pid, then with its exit code.
INT = 4
MAX_FDS = 250


def main() -> None:
    address, python, *argv = sys.argv[1:]
    server = socket.socket(socket.AF_UNIX)
    try:
        server.connect(address)
        fds = _inherited(server.fileno())
        request = json.dumps({"argv": argv, "env": dict(os.environ), "cwd": os.getcwd(), "fds": fds}).encode()
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
        server.sendmsg([len(request).to_bytes(INT, "big")], ancillary)
        server.sendall(request)
        pid = _read_int(server)
    except OSError:
        pid = None
    if pid is None:
        os.execv(python, [python, *argv])
    child = pid
    for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(sign, lambda number, _: _send(child, number))
    code = _read_int(server)
    if code is None:
        # The server was killed: what it forked hears of that, what that has forked does not.
        _send(child, signal.SIGKILL)
    if code is not None and code > 128:
        if code - 128 not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(code - 128, signal.SIG_DFL)
        os.kill(os.getpid(), code - 128)
    os._exit(1 if code is None else code)


def _inherited(own: int) -> list[int]:
    """File descriptors that came with this process, the server's and the listing's left out."""
    found = [int(name) for name in os.listdir("/proc/self/fd")]
    return [fd for fd in found if fd != own and os.path.exists(f"/proc/self/fd/{fd}") and os.get_inheritable(fd)][:MAX_FDS]


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def _read_int(server: socket.socket) -> int | None:
    """The next int; None once the server is gone."""
    data = b""
    while len(data) < INT:
        piece = server.recv(INT - len(data))
        if not piece:
            return None
        data += piece
    return int.from_bytes(data, "big")


if __name__ == "__main__":
    main()
