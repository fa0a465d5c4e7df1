"""What a curation leaves: split files, a quarantine of what was left out, and a manifest that accounts for every record."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from slca_core.curation.rows import SCHEMA
from slca_core.errors import DataError

QUARANTINE_FILE = "quarantine.jsonl"
MANIFEST_FILE = "manifest.json"
ROWS_PER_BATCH = 512


@dataclass(frozen=True, slots=True)
class Manifest:
    """What came in, what was left out and why, and what was written.

    Attributes:
        read, parsed: records.
        rejected, filtered: records (or, for prompts that are too long, samples) per reason.
        dialogues: records that gave at least one sample.
        splits: split -> subset -> samples; "left out" holds further turns of test dialogues.
        planted: training demonstrations per fault that was planted in them (`curation.synthetic.faults`).
        findings: records that no rollout can use or whose gold call its schema refuses, whether they were left out or kept.
        repaired: tool schemas per form that was put into today's words (`curation.schema_repair`).
        files: name -> sha256.
    """

    seed: int
    read: int
    parsed: int
    rejected: dict[str, int]
    filtered: dict[str, int]
    dialogues: int
    samples: int
    splits: dict[str, dict[str, int]]
    planted: dict[str, int]
    findings: dict[str, int]
    repaired: dict[str, int]
    files: dict[str, str]


def write_manifest(out: Path, manifest: Manifest) -> Manifest:
    (out / MANIFEST_FILE).write_text(json.dumps(asdict(manifest), indent=2) + "\n", encoding="utf-8")
    return manifest


class Place(Protocol):
    """Where a record stands."""

    @property
    def source_file(self) -> str: ...

    @property
    def position(self) -> int: ...


def open_quarantine(out: Path) -> TextIO:
    return (out / QUARANTINE_FILE).open("w", encoding="utf-8")


def put_away(quarantine: TextIO, reason: str, detail: str, where: Place, record: str) -> None:
    """Write down a record that was left out, where it stands and why."""
    entry = {"reason": reason, "detail": detail, "file": where.source_file, "position": where.position, "record": record}
    quarantine.write(json.dumps(entry) + "\n")


def require_readable(rejected: Counter[str], read: int, limit: float, out: Path) -> None:
    """DataError if more than the share `limit` of the records could not be read."""
    if rejected.total() > limit * read:
        raise DataError(
            f"Expected at most {limit:.1%} unreadable records, found {rejected.total()} of {read}: "
            f"{most_common(rejected)}. They are listed in {out / QUARANTINE_FILE}; mend the source or raise the quarantine limit."
        )


def most_common(reasons: Counter[str]) -> str:
    return ", ".join(f"{reason} ({count})" for reason, count in reasons.most_common(3))


@dataclass(slots=True)
class RowBuffer:
    """Collects rows into batches: a row group a row would make a parquet file of mostly headers."""

    writer: pq.ParquetWriter
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        if len(self.rows) >= ROWS_PER_BATCH:
            self.flush()

    def flush(self) -> None:
        if self.rows:
            self.writer.write_table(pa.Table.from_pylist(self.rows, schema=SCHEMA))
            self.rows.clear()


def sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
