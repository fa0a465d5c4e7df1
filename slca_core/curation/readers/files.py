"""Raw records out of parquet, JSON and JSON Lines files, in an order that does not depend on the file system.

A file that cannot be read is an error for the person at the keyboard; a line or a row that cannot be read is a broken record of a
good file.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slca_core.conversation.calls import MAX_DEPTH, json_depth
from slca_core.curation.readers.records import RecordError, RejectReason
from slca_core.errors import DataError

READABLE = (".parquet", ".jsonl", ".json")
# Tables of contents that tools for data sets leave beside the data: LLaMA-Factory's, and those of Hugging Face's datasets.
INDEX_FILES = frozenset({"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"})
_ROWS_PER_BATCH = 512
_OTHER_UNICODE = (b"\xff\xfe", b"\xfe\xff")
_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class RawRecord:
    """One record of a file, counted from 1; `fault` says why it has no value, and `text` is what stands there instead."""

    source_file: str
    position: int
    value: Any
    text: str | None = None
    fault: RecordError | None = None


def find_files(source: Path) -> list[Path]:
    """The source itself, or all readable files below it in sorted order, tables of contents left out.

    Raises:
        DataError: the source is missing, is no file or folder, has an unknown suffix, or is a folder without a readable file.
    """
    if not source.exists():
        raise DataError(f"Expected a data file or folder at {source}, found nothing there. Check the path of this source.")
    require_regular(source)
    if source.is_file():
        if source.suffix not in READABLE:
            raise DataError(f"Expected a file ending in {', '.join(READABLE)}, found {source}. Convert it to one of these.")
        return [source]
    found = sorted(path for path in source.rglob("*") if path.suffix in READABLE and path.name not in INDEX_FILES)
    files = [path for path in found if not path.is_dir()]
    for path in files:
        require_regular(path)
    if not files:
        raise DataError(f"Expected files ending in {', '.join(READABLE)} below {source}, found none. Point the source at the data.")
    return files


def require_regular(path: Path) -> None:
    """DataError for a pipe, a device or a socket, whose reading may never end; what is absent passes."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise DataError(f"Expected a data file or folder at {path}, found one that cannot be looked at: {error}.") from error
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        kinds = {stat.S_ISFIFO: "a pipe", stat.S_ISSOCK: "a socket", stat.S_ISCHR: "a device", stat.S_ISBLK: "a device"}
        kind = next((name for test, name in kinds.items() if test(mode)), "something else")
        raise DataError(f"Expected a data file or folder at {path}, found {kind}. Write the records to a file and name that.")


def read_raw(file: Path) -> Iterator[RawRecord]:
    """The file's records one by one; parquet and JSON Lines are streamed.

    Raises:
        DataError: the file is corrupt, not UTF-8, or a JSON file that is not a list.
    """
    readers: dict[str, Callable[[Path], Iterator[RawRecord]]] = {".parquet": _parquet, ".jsonl": _json_lines, ".json": _json_list}
    try:
        yield from readers[file.suffix](file)
    except (pa.ArrowException, OSError, MemoryError) as error:
        found = " ".join(str(error).split())
        raise DataError(f"Expected a readable {file.suffix} file at {file}, found: {found}. Fetch the file again.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"Expected UTF-8 text in {file}, found byte {error.start} that is not. Convert the file.") from error


def _parquet(file: Path) -> Iterator[RawRecord]:
    position = 0
    with pq.ParquetFile(file) as table:
        for batch in table.iter_batches(batch_size=_ROWS_PER_BATCH):
            for row in _rows(batch):
                position += 1
                yield RawRecord(str(file), position, row)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands for a value that Arrow cannot give: a year that Python does not have, text that is no UTF-8."""

    type: str
    error: str


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Rows without the nulls that a struct pads its absent fields with; a value that cannot be had spoils its own row alone."""
    try:
        yield from map(_unpadded, batch.to_pylist(maps_as_pydicts="strict"))
    except (ValueError, KeyError, OverflowError, TypeError, pa.ArrowException):
        for place in range(batch.num_rows):
            yield _row(batch, place)


def _row(batch: pa.RecordBatch, place: int) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            row[name] = _unpadded(column[place].as_py(maps_as_pydicts="strict"))
        except (ValueError, KeyError, OverflowError, TypeError, pa.ArrowException) as error:
            row[name] = Unreadable(str(column.type), type(error).__name__)
    return row


def _unpadded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unpadded(part) for key, part in value.items() if part is not None}
    return [_unpadded(part) for part in value] if isinstance(value, list) else value


def _json_lines(file: Path) -> Iterator[RawRecord]:
    _refuse_other_unicode(file)
    # A byte that is no UTF-8 spoils its line, and not the file.
    with file.open(encoding="utf-8", errors="surrogateescape") as lines:
        for position, line in enumerate(lines, start=1):
            text = line.lstrip(_MARK)
            if text.strip():
                yield _line(file, position, text)


def _line(file: Path, position: int, text: str) -> RawRecord:
    try:
        text.encode()
    except UnicodeEncodeError:
        shown = text.encode(errors="surrogateescape").decode(errors="replace")
        fault = RecordError(RejectReason.BROKEN_TEXT, "the line is not UTF-8")
        return RawRecord(str(file), position, None, shown, fault)
    try:
        return RawRecord(str(file), position, parse_json(text), text)
    except RecordError as error:
        return RawRecord(str(file), position, None, text, error)


def parse_json(text: str) -> Any:
    """JSON without repeated keys. NaN is let through here: it may stand in a column that nobody reads, and is refused elsewhere."""
    try:
        value = json.loads(text, object_pairs_hook=_object)
    except RecordError:
        raise
    except (ValueError, RecursionError) as error:
        found = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise RecordError(RejectReason.BROKEN_JSON, f"the record is not JSON: {found}") from error
    if text.count("[") + text.count("{") > MAX_DEPTH and json_depth(value) > MAX_DEPTH:
        raise RecordError(RejectReason.BROKEN_JSON, f"the record is nested more than {MAX_DEPTH} levels deep")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise RecordError(RejectReason.BROKEN_JSON, f"the key {_repeated(pairs)!r} stands twice in one object")
    return value


def _repeated(pairs: list[tuple[str, Any]]) -> str:
    seen = set[str]()
    return next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]


class _Faulty(dict[str, Any]):
    """An object inside a list of records with a repeated key: a defect of its own record, not of the file."""

    repeated = ""


def _marked(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    marked = _Faulty(value)
    marked.repeated = _repeated(pairs)
    return marked


def _json_list(file: Path) -> Iterator[RawRecord]:
    _refuse_other_unicode(file)
    text = file.read_text(encoding="utf-8-sig")
    try:
        records = json.loads(text, object_pairs_hook=_marked)
    except (ValueError, RecursionError) as error:
        if isinstance(error, json.JSONDecodeError) and error.msg == "Extra data" and "\n" in text.strip():
            yield from _json_lines(file)
            return
        raise DataError(f"Expected a JSON list of records in {file}, found broken JSON ({error}). Fetch the file again.") from error
    if isinstance(records, dict) and records.keys() & {"messages", "conversations", "prompt"}:
        records = [records]
    if not isinstance(records, list):
        found = "dict" if isinstance(records, dict) else type(records).__name__
        raise DataError(f"Expected a JSON list of records in {file}, found a {found}. Write one record a line and name it .jsonl.")
    for position, value in enumerate(records, start=1):
        fault = _fault_of(value)
        yield RawRecord(str(file), position, value, None if fault is None else repr(value), fault)


def _fault_of(record: Any) -> RecordError | None:
    level, depth = [record], 0
    while level := [node for node in level if isinstance(node, list | dict)]:
        if (depth := depth + 1) > MAX_DEPTH:
            return RecordError(RejectReason.BROKEN_JSON, f"the record is nested more than {MAX_DEPTH} levels deep")
        for node in level:
            if isinstance(node, _Faulty):
                return RecordError(RejectReason.BROKEN_JSON, f"the key {node.repeated!r} stands twice in one object")
        level = [child for node in level for child in (node.values() if isinstance(node, dict) else node)]
    return None


def _refuse_other_unicode(file: Path) -> None:
    with file.open("rb") as stream:
        if stream.read(2) in _OTHER_UNICODE:
            raise DataError(f"Expected UTF-8 text in {file}, found UTF-16. Convert the file.")
