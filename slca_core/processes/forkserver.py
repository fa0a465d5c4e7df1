"""Python processes that start at once: forked from one that has imported the training stack.

A training run starts six processes and an evaluation two, and each would import for ten seconds of a core. `ForkServer.python` is a
command that stands in for `sys.executable`: for a module, for Ray's workers, for vLLM's engine. What runs in the
fork is the same code with the same arguments, environment, descriptors, signals and exit code; nothing of OpenRLHF, Ray or vLLM is
changed. Linux only.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import multiprocessing.spawn
import os
import random
import runpy
import selectors
import shlex
import signal
import socket
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from setproctitle import setproctitle

from slca_core.processes import die_with_parent, forked, leftovers, supervise

# Ray reads its environment when it is imported, and each worker's is its own.
NOT_PRELOADED = "ray"
# It gives its process a title of its own, which only the first to try can.
_RAY_WORKER = "default_worker.py"
_FIRST_SPARE_FD = 1000
_GRACE_S = 5.0


class ForkServer:
    """A fork server that has imported `modules` and lives as long as this process; its command and its log lie in `folder`."""

    def __init__(self, modules: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
        # A Unix socket's path ends at 107 characters; a study's root may be deeper.
        self._sockets = leftovers.make_temporary()
        address = str(self._sockets / "fork")
        self.python = folder / f"python-{os.getpid()}"
        command = [sys.executable, "-I", "-S", forked.__file__, address, sys.executable]
        self.python.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        self.python.chmod(0o755)
        argv = [sys.executable, "-m", __name__, address, str(self.python), *modules]
        # A tethered process ends with the thread that started it: this one lives until the interpreter ends.
        self._keeper = ThreadPoolExecutor(1, thread_name_prefix="fork server")
        self._log = folder / f"forkserver-{os.getpid()}.log"
        self._process = self._keeper.submit(supervise.start, argv, self._log, env, of_run=True).result()
        # From then on requests queue; the imports go on meanwhile.
        while self._process.poll() is None and not os.path.exists(address):
            time.sleep(0.02)

    def close(self) -> None:
        """Ends the server and every process it forked."""
        supervise.stop(self._process)
        self.python.unlink(missing_ok=True)
        self._log.unlink(missing_ok=True)
        leftovers.remove(self._sockets)


@dataclass
class _Request:
    """One process wanted: as `forked` describes it, its descriptors received."""

    connection: socket.socket
    argv: list[str]
    env: dict[str, str]
    cwd: str
    fds: dict[int, int]


@dataclass
class _Server:
    listener: socket.socket
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    children: dict[int, socket.socket] = field(default_factory=dict)
    ending: bool = False

    def serve(self) -> _Request | None:
        """Answers requests until SIGTERM; returns a request in the process forked for it, None in the server at its end."""
        signal.signal(signal.SIGTERM, self._end)
        # A signal wakes the selector by this pair.
        woken, wake = socket.socketpair()
        wake.setblocking(False)
        signal.set_wakeup_fd(wake.fileno())
        self.selector.register(woken, selectors.EVENT_READ, lambda: woken.recv(64))
        self.selector.register(self.listener, selectors.EVENT_READ, self._accept)
        while not self.ending:
            for key, _ in self.selector.select():
                callback: Callable[[], Any] = key.data
                if isinstance(request := callback(), _Request):
                    signal.set_wakeup_fd(-1)
                    self._leave(woken, wake, request.connection)
                    return request
        self._kill_children()
        return None

    def _leave(self, *own: socket.socket) -> None:
        """Closes, in a fork, what is the server's."""
        ended = [key.fileobj for key in self.selector.get_map().values() if isinstance(key.fileobj, int)]
        for fd in ended:
            os.close(fd)
        for held in (*own, self.listener, *self.children.values()):
            held.close()
        self.selector.close()

    def _end(self, *_: object) -> None:
        self.ending = True

    def _accept(self) -> _Request | None:
        connection, _ = self.listener.accept()
        connection.settimeout(30)
        try:
            request = _receive(connection)
        except (OSError, ValueError):
            connection.close()
            return None
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            return request
        # Here as well: a signal to the group may come before the fork has run at all.
        with suppress(OSError):
            os.setpgid(pid, pid)
        for fd in request.fds.values():
            os.close(fd)
        self.children[pid] = connection
        ended = os.pidfd_open(pid)
        self.selector.register(ended, selectors.EVENT_READ, lambda: self._reap(pid, ended))
        self.selector.register(connection, selectors.EVENT_READ, lambda: self._abandoned(pid, connection))
        try:
            connection.sendall(pid.to_bytes(forked.INT, "big"))
        except OSError:
            _kill_group(pid, signal.SIGKILL)
        return None

    def _reap(self, pid: int, ended: int) -> None:
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        self.selector.unregister(ended)
        os.close(ended)
        connection = self.children.pop(pid)
        if connection in {key.fileobj for key in self.selector.get_map().values()}:
            self.selector.unregister(connection)
        _kill_group(pid, signal.SIGKILL)
        with suppress(OSError):
            connection.sendall((code if code >= 0 else 128 - code).to_bytes(forked.INT, "big"))
        connection.close()

    def _abandoned(self, pid: int, connection: socket.socket) -> None:
        """Whoever stood for the process was killed: so is it."""
        if pid in self.children:
            self.selector.unregister(connection)
            _kill_group(pid, signal.SIGKILL)

    def _kill_children(self) -> None:
        """Each with its group, whose others may outlive it."""
        groups = list(self.children)
        for sign in (signal.SIGTERM, signal.SIGKILL):
            for pid in groups:
                _kill_group(pid, sign)
            deadline = time.monotonic() + _GRACE_S
            while self.children and time.monotonic() < deadline:
                pid, _ = os.waitpid(-1, os.WNOHANG)
                if pid:
                    self.children.pop(pid, None)
                else:
                    time.sleep(0.05)


def _receive(connection: socket.socket) -> _Request:
    size, fds, _, _ = socket.recv_fds(connection, forked.INT, forked.MAX_FDS)
    left, pieces = int.from_bytes(size, "big"), []
    while left:
        piece = connection.recv(left)
        if not piece:
            raise ValueError("the request ended early")
        pieces.append(piece)
        left -= len(piece)
    values = json.loads(b"".join(pieces))
    return _Request(connection, values["argv"], values["env"], values["cwd"], dict(zip(values["fds"], fds, strict=True)))


def _kill_group(pid: int, sign: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, sign)


def _become(request: _Request, python: str) -> None:
    """Turns a fresh fork into the process that was asked for, up to its first line of code."""
    die_with_parent.end_with_parent()
    for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sign, signal.default_int_handler if sign == signal.SIGINT else signal.SIG_DFL)
    _take_descriptors(request.fds)
    _take_environment(request.env)
    os.chdir(request.cwd)
    sys.path[:0] = [path for path in request.env.get("PYTHONPATH", "").split(os.pathsep) if path and path not in sys.path]
    for stream in (sys.stdout, sys.stderr):
        assert isinstance(stream, io.TextIOWrapper)
        stream.reconfigure(line_buffering=True, write_through=True)
    tempfile.tempdir = None
    random.seed()
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(int(request.env.get("OMP_NUM_THREADS", os.cpu_count() or 1)))
    # Python that is started from here on, by whatever library, is forked too.
    sys.executable = python
    multiprocessing.spawn.set_executable(python)


def _take_environment(env: Mapping[str, str]) -> None:
    """Changes what differs and nothing else: whoever gives a process its title looks for the place before its first variable."""
    for name in os.environ.keys() - env.keys():
        del os.environ[name]
    for name, value in env.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def _take_descriptors(fds: Mapping[int, int]) -> None:
    """The received descriptors (number there -> here) under the numbers they had."""
    spare = {number: os.dup2(fd, _FIRST_SPARE_FD + number, inheritable=False) for number, fd in fds.items()}
    for fd in fds.values():
        os.close(fd)
    for number, fd in spare.items():
        os.dup2(fd, number)
        os.close(fd)


def _run_to_the_end(argv: list[str]) -> NoReturn:
    """Runs a command line under its name and ends the process; to take down the interpreter would copy what forks share."""
    if not any(word.endswith(_RAY_WORKER) for word in argv[:2]):
        setproctitle(shlex.join(["python", *argv]))
    code: Any = 0
    try:
        _run(argv)
    except SystemExit as end:
        code = end.code
        if isinstance(code, str):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


def _run(argv: list[str]) -> None:
    """As the interpreter runs its command line: `-m module`, `-c code` or a script, each with its arguments."""
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    while argv and argv[0].startswith("-") and argv[0] not in ("-m", "-c"):
        argv = argv[2:] if argv[0] in ("-X", "-W") else argv[1:]
    kind, *rest = argv
    if kind == "-m":
        sys.argv = rest
        runpy._run_module_as_main(rest[0])  # type: ignore[attr-defined]
    elif kind == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
    else:
        sys.argv = argv
        sys.path.insert(0, os.path.dirname(os.path.abspath(kind)))
        main.__file__ = kind
        exec(compile(Path(kind).read_bytes(), kind, "exec"), main.__dict__)


def main() -> None:
    address, python, *modules = sys.argv[1:]
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    sys.modules[NOT_PRELOADED] = None  # type: ignore[assignment]
    for module in modules:
        importlib.import_module(module)
    del sys.modules[NOT_PRELOADED]
    gc.collect()
    gc.freeze()
    request = _Server(listener).serve()
    if request is None:
        leftovers.remove(Path(address).parent)
        os._exit(0)
    _become(request, python)
    _run_to_the_end(request.argv)


if __name__ == "__main__":
    main()
