"""Answers of the frozen services on disk, by what was asked: shared by arms, runs and processes, and whole after any kill.

One SQLite file below the study's root; deleting it forgets the answers and harms nothing.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiosqlite
from filelock import FileLock

from slca_core.errors import ServiceError
from slca_core.fingerprint import digest

_BUSY_S = 60.0
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
        self._opening = asyncio.Lock()
        self._open: aiosqlite.Connection | None = None
        path.parent.mkdir(parents=True, exist_ok=True)
        journal = "wal" if one_host else "truncate"
        try:
            # Two processes may not change the journal at once.
            with FileLock(path.with_suffix(".lock")), closing(sqlite3.connect(path, timeout=_BUSY_S)) as connection:
                if connection.execute("PRAGMA journal_mode").fetchone()[0] != journal:
                    connection.execute(f"PRAGMA journal_mode = {journal}")
                connection.execute(_TABLE)
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    async def get(self, question: Question) -> str | None:
        return await self._read(question.key)

    async def put(self, question: Question, text: str) -> str:
        """The answer that stands from now on: another's, if somebody else was first."""
        key = question.key
        try:
            connection = await self._connection()
            row = (key, str(question.service.get("model", "")), text)
            await connection.execute("INSERT OR IGNORE INTO answers (key, service, text) VALUES (?, ?, ?)", row)
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        stored = await self._read(key)
        assert stored is not None
        return stored

    async def close(self) -> None:
        if self._open is not None:
            await self._open.close()
            self._open = None

    async def _read(self, key: str) -> str | None:
        try:
            connection = await self._connection()
            rows = list(await connection.execute_fetchall("SELECT text FROM answers WHERE key = ?", (key,)))
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        return rows[0][0] if rows else None

    async def _connection(self) -> aiosqlite.Connection:
        async with self._opening:
            if self._open is None:
                self._open = await aiosqlite.connect(self.path, timeout=_BUSY_S, isolation_level=None)
                await self._open.execute("PRAGMA synchronous = NORMAL")
            return self._open

    def _unusable(self, error: sqlite3.Error) -> ServiceError:
        return ServiceError(
            f"A cache of the services' answers was expected at {self.path}, it cannot be used: {error}. "
            "Delete the file: answers are then asked for again."
        )
