"""Answers of the frozen services on disk, by what was asked: shared by arms, runs and processes, and whole after any kill.

One SQLite file below the study's root; deleting it forgets the answers and harms nothing.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock

from slca_core.errors import ServiceError
from slca_core.records.fingerprint import digest

_BUSY_S = 60.0
_T = TypeVar("_T")
_TABLE = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY,
    service TEXT NOT NULL,
    text TEXT NOT NULL
) WITHOUT ROWID
"""


@dataclass(frozen=True, slots=True)
class Question:
    """What makes two questions the same one.

    Attributes:
        service: its identity, model and decoding above all; not where it runs.
        prompt: the user message.
        asker: who asks, where the same question by others is another one; None where the call alone counts.
    """

    service: dict[str, Any]
    prompt: str
    asker: str | None = None

    @property
    def key(self) -> str:
        return digest({"service": self.service, "prompt": self.prompt, "asker": self.asker})


class AnswerCache:
    """The cache at `path`. Every answer is one committed row, so a killed process leaves all it had, and no half of one.

    Args:
        one_host: whether every process that uses it runs on this machine. The faster journal needs memory they share; the other
            one needs no more than locks, which a cluster's file system must have.

    Each method raises ServiceError if the file cannot be used.
    """

    def __init__(self, path: Path, *, one_host: bool = True) -> None:
        self.path = path
        # One thread has the connection: an answer is there in microseconds, and the event loop waits for no disk.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="answers")
        self._journal = "wal" if one_host else "truncate"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Two processes may not change the journal at once.
            with FileLock(path.with_suffix(".lock")), closing(sqlite3.connect(path, timeout=_BUSY_S)) as connection:
                self._choose_journal(connection)
                connection.execute(_TABLE)
        except (sqlite3.Error, OSError) as error:
            raise self._unusable(error) from error

    async def get(self, question: Question) -> str | None:
        return await self._in_thread(self._read, question.key)

    async def put(self, question: Question, text: str) -> str:
        """The answer that stands from now on: another's, if somebody else was first."""
        return await self._in_thread(self._write, question.key, str(question.service.get("model", "")), text)

    async def close(self) -> None:
        await self._in_thread(self._close)

    async def _in_thread(self, work: Callable[..., _T], *arguments: Any) -> _T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def _read(self, key: str) -> str | None:
        row = self._connection.execute("SELECT text FROM answers WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def _write(self, key: str, service: str, text: str) -> str:
        connection = self._connection
        connection.execute("INSERT OR IGNORE INTO answers (key, service, text) VALUES (?, ?, ?)", (key, service, text))
        return str(connection.execute("SELECT text FROM answers WHERE key = ?", (key,)).fetchone()[0])

    def _close(self) -> None:
        if "_connection" in self.__dict__:
            self._connection.close()
            del self._connection

    @cached_property
    def _connection(self) -> sqlite3.Connection:
        """The thread's own; every statement is committed at once."""
        connection = sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None)
        self._choose_journal(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    def _choose_journal(self, connection: sqlite3.Connection) -> None:
        """The journal is the file's own if it is "wal", and the connection's otherwise; while others use the file, it stays."""
        with suppress(sqlite3.OperationalError):
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != self._journal:
                connection.execute(f"PRAGMA journal_mode = {self._journal}")

    def _unusable(self, error: sqlite3.Error | OSError) -> ServiceError:
        return ServiceError(
            f"A cache of the services' answers was expected at {self.path}, it cannot be used: {error}. "
            "If no other run is at work, delete the file: answers are then asked for again."
        )
