"""Ctrl-C and SIGTERM: a command is gone within seconds, whatever it waits for, and says in a sentence why.

What is stored of a study is right after any kill, so an end by force loses nothing; the orderly end that is tried before it lets
Prefect and MLflow hear of it.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from slca_core.processes.supervise import kill_all

# For the orderly end; what holds it up longer (a library's retries, a thread inside C) is left behind.
GRACE_S = 7.0
_NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "a closed terminal (SIGHUP)"}
_leaving = threading.Lock()


class Interrupted(BaseException):
    """A signal asked this process to end. No `Exception`, so nothing that mends errors mends this one."""


@contextmanager
def ending_at_signals(say: Callable[[str], None]) -> Iterator[None]:
    """Run a block that SIGINT, SIGTERM or SIGHUP ends, with exit code 128 + the signal's number and one sentence to `say`.

    The first signal unwinds the block; `GRACE_S` later, or at a second one, the process ends where it is. Signals that are ignored,
    as under nohup, stay so. For the main thread only.
    """
    first, second = threading.Event(), threading.Event()
    received: list[int] = []
    reader, writer = socket.socketpair()
    writer.setblocking(False)

    def hear() -> None:
        while number := reader.recv(1):
            if number[0] in _NAMES:
                received.append(number[0])
                (second if first.is_set() else first).set()

    def insist() -> None:
        first.wait()
        second.wait(GRACE_S)
        _leave(received[0], say)

    # Prefect puts a handler of its own in place while a flow runs; the file descriptor hears of a signal whatever the handler.
    descriptor = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    before = {number: signal.getsignal(number) for number in _NAMES}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    for listening in (hear, insist):
        threading.Thread(target=listening, name="signals", daemon=True).start()
    try:
        yield
    except BaseException as error:
        # The exception may be here before the signal has been heard.
        if first.wait(0 if isinstance(error, Exception | SystemExit) else 1):
            _leave(received[0], say)
        raise
    finally:
        signal.set_wakeup_fd(descriptor)
        for number, handler in before.items():
            signal.signal(number, handler)
        writer.close()


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise Interrupted


def _leave(number: int, say: Callable[[str], None]) -> None:
    """End the process and all that it has started, now."""
    _leaving.acquire()  # Never released: whoever comes second waits for the end.
    try:
        kill_all()
        say(f"stopped by {_NAMES[signal.Signals(number)]}. What is finished is kept; the same command goes on from there.")
    finally:  # The terminal may be gone.
        os._exit(128 + number)
