"""Servers as child processes: a free loopback port, a health check, a log, and an end by their own process group."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from slca_core.config import REPOSITORY
from slca_core.errors import ServiceError
from slca_core.services.tether import tethered

LOOPBACK = "127.0.0.1"
_running: set[subprocess.Popen[bytes]] = set()


def free_port() -> int:
    """A port nobody listens on now, outside Ray's own worker ports (10002-19999)."""
    for _ in range(100):
        with socket.socket() as probe:
            probe.bind((LOOPBACK, 0))
            port = int(probe.getsockname()[1])
        if not 10002 <= port <= 19999:
            return port
    raise ServiceError("No free loopback port outside 10002-19999 was found in 100 tries.")


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
) -> Iterator[str]:
    """Runs `argv` until the block ends; yields its root URL once `health` answers 200.

    Raises:
        ServiceError: with the end of its log, if the server cannot start, ends, or does not answer within `timeout_s`.
    """
    url = f"http://{LOOPBACK}:{port}"
    process = start(argv, log, env or {})
    try:
        _wait_until_healthy(name, process, url + health, log, timeout_s)
        yield url
    finally:
        stop(process)


def start(argv: Sequence[str], log: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Starts `argv` in a process group of its own, tethered to this process, its output in `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, **env}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (environment.get("PYTHONPATH"), str(REPOSITORY))))
    with log.open("w") as sink:
        process = subprocess.Popen(
            tethered(argv),
            stdout=sink,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=environment,
        )
    _running.add(process)
    return process


def _wait_until_healthy(name: str, process: subprocess.Popen[bytes], url: str, log: Path, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    with httpx.Client(trust_env=False, timeout=5) as http:
        while time.monotonic() < deadline:
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
    raise ServiceError(f"The {name} did not answer at {url} within {timeout_s:.0f} s. The end of {log}:\n{tail(log)}")


def stop(process: subprocess.Popen[bytes], grace_s: float = 10) -> None:
    """Ends the process and what it started: SIGTERM to its group, SIGKILL after `grace_s`."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            continue
    process.wait()
    _running.discard(process)


def stop_all() -> None:
    """Ends every process that `start` started and nothing has stopped yet; whoever waits for one sees it end."""
    for process in list(_running):
        stop(process)


def tail(log: Path, lines: int = 15) -> str:
    """The last lines of a log, for an error message."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
