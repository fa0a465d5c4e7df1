"""Source records of every supported format as values: `read_source` finds each record's format by its fields.

Supported: Toucan's `SFT` and teacher configs, the authors' verl rows, sharegpt conversations, and messages of typed parts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slca_core.curation.readers.files import RawRecord, find_files, read_raw
from slca_core.curation.readers.llamafactory import read_parts, read_sharegpt
from slca_core.curation.readers.records import MAX_RECORD_CHARS, Parsed, RecordError, Rejected, RejectReason, decode
from slca_core.curation.readers.toucan import read_toucan
from slca_core.curation.readers.verl import read_verl
from slca_core.dialogue import Dialogue, Sample

__all__ = ["Parsed", "RejectReason", "Rejected", "read_record", "read_source"]


def read_source(source: Path) -> Iterator[Parsed | Rejected]:
    """Every record of a file, or of all readable files below a folder, in sorted order.

    Raises:
        DataError: the source is missing or one of its files is unreadable.
    """
    for file in find_files(source):
        for raw in read_raw(file):
            yield _outcome(raw)


def read_record(record: Any) -> Dialogue | Sample:
    """One record of any supported format.

    Raises:
        RecordError: the record has a defect, or none of the formats.
    """
    if not isinstance(record, dict):
        raise RecordError(RejectReason.UNKNOWN_FORMAT, f"expected an object, found a {type(record).__name__}")
    if "reward_model" in record and "prompt" in record:
        return read_verl(record)
    if "conversations" in record:
        return read_sharegpt(record)
    if "messages" in record:
        messages = decode(record["messages"], "messages")
        return read_parts(record) if _has_parts(messages) else read_toucan({**record, "messages": messages})
    fields = ", ".join(sorted(map(str, record))) or "none"
    raise RecordError(RejectReason.UNKNOWN_FORMAT, f"no known format has the fields {fields}")


def _outcome(raw: RawRecord) -> Parsed | Rejected:
    if raw.value is None and raw.text is not None:
        return Rejected(
            raw.source_file, raw.position, RejectReason.BROKEN_JSON, "the line is not JSON", raw.text[:MAX_RECORD_CHARS]
        )
    try:
        return Parsed(raw.source_file, raw.position, read_record(raw.value))
    except RecordError as error:
        text = raw.text or json.dumps(raw.value, ensure_ascii=False, default=str)
        return Rejected(raw.source_file, raw.position, error.reason, error.detail, text[:MAX_RECORD_CHARS])


def _has_parts(messages: Any) -> bool:
    return isinstance(messages, list) and any(isinstance(item, dict) and isinstance(item.get("content"), list) for item in messages)
