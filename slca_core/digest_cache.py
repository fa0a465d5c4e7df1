"""Digests of large input files, kept so that a plan need not read a corpus or a checkpoint again.

A file counts as the one that was read while its path, size and time of change are the same. One that changed moments ago is read
each time: it may change again within one tick of its clock. Several processes may share the cache.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from slca_core.fingerprint import file_digest

LARGE = 2**20  # bytes; below, reading costs no more than looking up
SETTLED_S = 2.0


class DigestCache:
    """A sqlite file, made when there is something to keep."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file_digest(self, file: Path) -> str:
        """sha256 of the file's bytes, as `fingerprint.file_digest` gives it."""
        found = file.stat()
        if found.st_size < LARGE or time.time() - found.st_mtime < SETTLED_S:
            return file_digest(file)
        key = (str(file.resolve()), found.st_size, found.st_mtime_ns)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.path, timeout=60, isolation_level=None)) as store:
            store.execute("CREATE TABLE IF NOT EXISTS digests (path TEXT PRIMARY KEY, size INT, changed INT, digest TEXT)")
            if known := store.execute("SELECT digest FROM digests WHERE (path, size, changed) = (?, ?, ?)", key).fetchone():
                return str(known[0])
            read = file_digest(file)
            store.execute("REPLACE INTO digests VALUES (?, ?, ?, ?)", (*key, read))
            return read
