"""Raw records out of parquet, JSON and JSON Lines files, in an order that does not depend on the file system.

A file that cannot be read is an error for the person at the keyboard; a line that cannot be read is a broken record of a good file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slca_core.errors import DataError

READABLE = (".parquet", ".jsonl", ".json")
_ROWS_PER_BATCH = 512


@dataclass(frozen=True, slots=True)
class RawRecord:
    """One record of a file, counted from 1; `value` is None for a line that is not JSON, whose text is `text`."""

    source_file: str
    position: int
    value: Any
    text: str | None = None


def find_files(source: Path) -> list[Path]:
    """The source itself, or all readable files below it in sorted order.

    Raises:
        DataError: the source is missing, has an unknown suffix, or is a folder without a readable file.
    """
    if not source.exists():
        raise DataError(f"Expected a data file or folder at {source}, found nothing there. Check the path of this source.")
    if source.is_file():
        if source.suffix not in READABLE:
            raise DataError(f"Expected a file ending in {', '.join(READABLE)}, found {source}. Convert it to one of these.")
        return [source]
    files = sorted(path for path in source.rglob("*") if path.is_file() and path.suffix in READABLE)
    if not files:
        raise DataError(f"Expected files ending in {', '.join(READABLE)} below {source}, found none. Point the source at the data.")
    return files


def read_raw(file: Path) -> Iterator[RawRecord]:
    """The file's records one by one; parquet and JSON Lines are streamed.

    Raises:
        DataError: the file is corrupt, not UTF-8, or a JSON file that is not a list.
    """
    readers = {".parquet": _parquet, ".jsonl": _json_lines, ".json": _json_list}
    try:
        yield from readers[file.suffix](file)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"Expected a readable {file.suffix} file at {file}, found: {error}. Fetch the file again.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"Expected UTF-8 text in {file}, found byte {error.start} that is not. Convert the file.") from error


def _parquet(file: Path) -> Iterator[RawRecord]:
    position = 0
    with pq.ParquetFile(file) as table:
        for batch in table.iter_batches(batch_size=_ROWS_PER_BATCH):
            for row in batch.to_pylist():
                position += 1
                yield RawRecord(str(file), position, row)


def _json_lines(file: Path) -> Iterator[RawRecord]:
    with file.open(encoding="utf-8") as lines:
        for position, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                value = None
            yield RawRecord(str(file), position, value, line)


def _json_list(file: Path) -> Iterator[RawRecord]:
    try:
        records = json.loads(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise
    except (ValueError, RecursionError) as error:
        raise DataError(f"Expected a JSON list of records in {file}, found broken JSON ({error}). Fetch the file again.") from error
    if not isinstance(records, list):
        found = type(records).__name__
        raise DataError(f"Expected a JSON list of records in {file}, found a {found}. Write one record a line and name it .jsonl.")
    for position, value in enumerate(records, start=1):
        yield RawRecord(str(file), position, value)
