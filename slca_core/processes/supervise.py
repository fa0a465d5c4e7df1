"""Servers as child processes: a free loopback port, a health check, a log, and an end by their own process group."""

from __future__ import annotations

import functools
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from weakref import WeakKeyDictionary, WeakSet

import httpx

from slca_core.config import REPOSITORY
from slca_core.errors import ServiceError
from slca_core.processes.die_with_parent import tethered

LOOPBACK = "127.0.0.1"
_running: set[subprocess.Popen[bytes]] = set()
# What has been, or is being, ended from here; who watches over it lets it end.
_stopped: WeakSet[subprocess.Popen[bytes]] = WeakSet()
_reasons: WeakKeyDictionary[subprocess.Popen[bytes], str] = WeakKeyDictionary()
# Servers of the whole run, not of a step.
_of_run: WeakSet[subprocess.Popen[bytes]] = WeakSet()


def free_port() -> int:
    """A port nobody listens on now, outside Ray's own worker ports (10002-19999)."""
    for _ in range(100):
        with socket.socket() as probe:
            probe.bind((LOOPBACK, 0))
            port = int(probe.getsockname()[1])
        if not 10002 <= port <= 19999:
            return port
    raise ServiceError("No free loopback port outside 10002-19999 was found in 100 tries.")


def listen() -> socket.socket:
    """A socket that listens on a free loopback port. Who asks while a server it is handed to is down waits in its queue."""
    door = socket.create_server((LOOPBACK, free_port()), backlog=2048)
    door.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # Of the connections, which inherit it.
    return door


def require_free(port: int, purpose: str) -> int:
    """`port` if it can be bound; a sentence otherwise."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except (OSError, OverflowError) as error:
            raise ServiceError(
                f"Port {port} was expected to be free for {purpose}, but it cannot be used: {error}. Choose another with --port."
            ) from None
    return port


@contextmanager
def serve(
    name: str,
    argv: Sequence[str],
    *,
    port: int,
    log: Path,
    health: str = "/health",
    env: Mapping[str, str] | None = None,
    timeout_s: float = 300,
    of_run: bool = False,
) -> Iterator[str]:
    """Runs `argv` until the block ends; yields its root URL once `health` answers 200. One `of_run` is left by `stop_all`.

    Raises:
        ServiceError: with the end of its log, if the server cannot start, ends, or does not answer within `timeout_s`.
    """
    url = f"http://{LOOPBACK}:{port}"
    process = start(argv, log, env or {}, of_run=of_run)
    try:
        _wait_until_healthy(name, process, url + health, log, timeout_s)
        yield url
    finally:
        stop(process)


@contextmanager
def keep_serving(
    name: str,
    argv: Sequence[str],
    *,
    port: int,
    log: Path,
    say: Callable[[str], None],
    health: str = "/health",
    env: Mapping[str, str] | None = None,
    timeout_s: float = 300,
    restarts: int = 3,
    silent_s: float = 60,
    poll_s: float = 1.0,
    of_run: bool = False,
    fds: Sequence[int] = (),
) -> Iterator[str]:
    """As `serve`, and the server is started again if it ends or does not answer `health` for `silent_s`; `restarts` times at most.

    The log of each attempt stays, under the number of the attempt. `say` hears of every restart, and of giving up. A server
    `of_run` is left by `stop_all`; every attempt inherits the descriptors `fds`.
    """
    url = f"http://{LOOPBACK}:{port}"
    start_one = functools.partial(start, argv, log, env or {}, of_run=of_run, fds=fds)
    process = start_one()
    ended = threading.Event()

    def watch() -> None:
        nonlocal process
        for attempt in range(1, restarts + 2):
            why = _wait_until_down(process, url + health, ended, silent_s, poll_s)
            if ended.is_set() or process in _stopped:  # What `stop_all` ended stays ended.
                return
            stop(process)
            try:
                log.replace(log.with_suffix(f".{attempt}{log.suffix}"))
                if attempt > restarts:
                    say(f"the {name} {why}; it was started {restarts + 1} times and is left alone")
                    return
                say(f"the {name} {why}; it is started again")
                process = start_one()
            except OSError as error:
                say(f"the {name} {why}, and cannot be started again: {error}")
                return
            with suppress(ServiceError):  # That it does not come up, the next look at it finds.
                _wait_until_healthy(name, process, url + health, log, timeout_s, ended)

    watcher = threading.Thread(target=watch, name=name, daemon=True)
    try:
        _wait_until_healthy(name, process, url + health, log, timeout_s)
        watcher.start()
        yield url
    finally:
        ended.set()
        if watcher.ident is not None:
            watcher.join()
        stop(process)


def _wait_until_down(process: subprocess.Popen[bytes], url: str, ended: threading.Event, silent_s: float, poll_s: float) -> str:
    """How the server is seen to be down; returns as well once `ended` is set."""
    answered = time.monotonic()
    with httpx.Client(trust_env=False, timeout=silent_s) as http:
        while not ended.wait(poll_s):
            if process.poll() is not None:
                return f"ended with code {process.returncode}"
            with suppress(httpx.HTTPError):
                if http.get(url).status_code == 200:
                    answered = time.monotonic()
            if time.monotonic() - answered > silent_s:
                return f"has not answered for {silent_s:.0f} s"
    return ""


def start(
    argv: Sequence[str], log: Path, env: Mapping[str, str], *, inherit: bool = True, of_run: bool = False, fds: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Starts `argv` in a process group of its own, tethered to this process, its output in `log`.

    Args:
        inherit: False gives it `env` and nothing else of this process's environment.
        of_run: the whole run needs it; `stop_all` leaves it.
        fds: open descriptors that it inherits.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, **env} if inherit else dict(env)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (environment.get("PYTHONPATH"), str(REPOSITORY))))
    with log.open("w") as sink:
        process = subprocess.Popen(
            tethered(argv),
            stdout=sink,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=environment,
            pass_fds=fds,
        )
    _running.add(process)
    if of_run:
        _of_run.add(process)
    return process


def _wait_until_healthy(
    name: str,
    process: subprocess.Popen[bytes],
    url: str,
    log: Path,
    timeout_s: float,
    ended: threading.Event | None = None,
) -> None:
    """Returns as well once `ended` is set."""
    deadline = time.monotonic() + timeout_s
    with httpx.Client(trust_env=False, timeout=5) as http:
        while time.monotonic() < deadline and not (ended and ended.is_set()):
            if process.poll() is not None:
                raise ServiceError(
                    f"The {name} ended with code {process.returncode} before it answered. The end of {log}:\n{tail(log)}"
                )
            try:
                if http.get(url).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.2)
    if ended and ended.is_set():
        return
    raise ServiceError(f"The {name} did not answer at {url} within {timeout_s:.0f} s. The end of {log}:\n{tail(log)}")


def stop(process: subprocess.Popen[bytes], grace_s: float = 10) -> None:
    """Ends the process and what it started: SIGTERM to its group, SIGKILL after `grace_s`."""
    _stopped.add(process)
    _signal_group(process, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(grace_s)
    _signal_group(process, signal.SIGKILL)
    process.wait()
    _running.discard(process)


def stop_all(grace_s: float = 3, because: str = "") -> None:
    """End, side by side, every process that a step has started; whoever waits for one sees it end.

    A server that the whole run needs (`start` with `of_run`) goes on, so that the run can still say how it ended.

    Args:
        because: why, as a sentence that `why_stopped` gives to whoever waited.
    """
    processes = [process for process in list(_running) if process not in _of_run]
    _stopped.update(processes)
    _reasons.update(dict.fromkeys(processes, because))
    for process in processes:
        _signal_group(process, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
    for process in processes:
        _signal_group(process, signal.SIGKILL)
        process.wait()
        _running.discard(process)


def why_stopped(process: subprocess.Popen[bytes]) -> str:
    """Return why `stop_all` ended the process; empty if it did not, or nobody said."""
    return _reasons.get(process, "")


def kill_all() -> None:
    """Kill every process that `start` has started, at once."""
    running = list(_running)  # Other threads start and stop processes meanwhile.
    _stopped.update(running)
    for process in running:
        _signal_group(process, signal.SIGKILL)


def _signal_group(process: subprocess.Popen[bytes], sign: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, sign)


def tail(log: Path, lines: int = 15) -> str:
    """The last lines of a log, for an error message."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
