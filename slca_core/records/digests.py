"""Digests of large files, kept so that a plan need not read a corpus or a checkpoint again.

A file counts as the one that was read while its path, inode, size and times are the same; among these is the time of its last
change of any kind, which nobody can set back. One that changed moments ago is read each time: it may change again within one tick
of its clock. Several processes may share the cache. What cannot be kept, in a root that is read-only say, is read again.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from slca_core.records.fingerprint import file_digest

LARGE = 2**20  # bytes; below, reading costs no more than looking up
SETTLED_S = 2.0
_log = logging.getLogger(__name__)


class DigestCache:
    """A sqlite file, made when there is something to keep."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file_digest(self, file: Path, *, again: bool = False) -> str:
        """sha256 of the file's bytes, as `fingerprint.file_digest` gives it; read `again`, whatever is kept."""
        found = file.stat()
        if found.st_size < LARGE or time.time() - max(found.st_mtime, found.st_ctime) < SETTLED_S:
            return file_digest(file)
        try:
            return self._kept(file, found, again)
        except (sqlite3.Error, OSError) as error:
            _log.warning("Digests cannot be kept in %s (%s); %s is read again each time.", self.path, error, file)
            return file_digest(file)

    def _kept(self, file: Path, found: os.stat_result, again: bool) -> str:
        stamp = f"{found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.path, timeout=60, isolation_level=None)) as store:
            # Of earlier versions, which took a file whose time had been set back for unchanged.
            store.execute("DROP TABLE IF EXISTS digests")
            store.execute("CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, stamp TEXT, digest TEXT)")
            key = (str(file.resolve()), stamp)
            known = store.execute("SELECT digest FROM files WHERE (path, stamp) = (?, ?)", key).fetchone()
            if known and not again:
                return str(known[0])
            read = file_digest(file)
            store.execute("REPLACE INTO files VALUES (?, ?, ?)", (*key, read))
            return read
