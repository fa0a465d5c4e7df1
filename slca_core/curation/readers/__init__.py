"""Source records of every supported format as values: `read_source` finds each record's format by its fields.

Supported: Toucan's `SFT` and teacher configs, the authors' verl rows, sharegpt conversations, OpenAI's messages and messages of
typed parts. A record is read whole or rejected with a reason that names the field; nothing in it is guessed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from slca_core.conversation.dialogue import Dialogue, Sample
from slca_core.curation.readers.conversation import read_conversation
from slca_core.curation.readers.files import RawRecord, Unreadable, find_files, read_raw
from slca_core.curation.readers.records import (
    MAX_RECORD_CHARS,
    Parsed,
    Reading,
    RecordError,
    Rejected,
    RejectReason,
    clip,
    require_json,
)
from slca_core.curation.readers.verl import read_verl

__all__ = ["Parsed", "RejectReason", "Rejected", "find_files", "read_record", "read_source"]

# Columns that hold part of a conversation or a judgement of it, which no reader takes up: pictures, preference pairs, verdicts.
_UNREAD = (
    *("images", "image", "videos", "video", "audios", "audio", "objects", "history"),
    *("chosen", "rejected", "rejected_response", "rejected_messages", "kto_tag"),
)
_READ = (
    *("conversations", "messages", "prompt", "reward_model", "tools", "available_tools", "functions"),
    *("system", "system_prompt", "system_message", "uuid", "subset_name"),
)


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
    return _read(record)[0].value


def _read(record: Any) -> tuple[Reading, str]:
    """A reading that can be written again, with the digest of what was read."""
    if not isinstance(record, dict):
        raise RecordError(RejectReason.UNKNOWN_FORMAT, f"expected an object, found a {type(record).__name__}")
    # Tables pad with null or NaN the columns that a row of another format has.
    record = {key: value for key, value in record.items() if value is not None and value == value}
    for name in _READ:
        if isinstance(found := record.get(name), Unreadable):
            detail = f"column {name} has a value that cannot be read ({found.error}), its type being {clip(found.type)}"
            raise RecordError(RejectReason.NOT_JSON, detail)
    for name in _UNREAD:
        if record.get(name):
            raise RecordError(RejectReason.UNREAD_FIELD, f"column {name} is not read")
    reading = _dispatch(record)
    value = reading.value
    require_json(_identities(value), "id")
    content = hashlib.sha256(_content(reading).encode()).hexdigest()
    if isinstance(value, Dialogue) and not value.dialogue_id:
        reading = reading._replace(value=replace(value, dialogue_id=f"{value.source}-{content[:24]}"))
    return reading, content


def _dispatch(record: dict[str, Any]) -> Reading:
    columns: list[str] = [name for name in ("conversations", "messages") if name in record]
    if "reward_model" in record and "prompt" in record:
        columns.insert(0, "prompt")
    # A table may pad with empty lists as well.
    match [name for name in columns if record[name]] or columns:
        case ["prompt"]:
            return read_verl(record)
        case [column]:
            return read_conversation(record, column)
        case []:
            fields = ", ".join(sorted(map(str, record))) or "none"
            raise RecordError(RejectReason.UNKNOWN_FORMAT, f"no known format has the fields {fields}")
    raise RecordError(RejectReason.AMBIGUOUS, f"{' and '.join(columns)} each hold a conversation")


def _identities(value: Dialogue | Sample) -> list[str]:
    return [value.dialogue_id, value.subset]


def _content(reading: Reading) -> str:
    """What was read as text, tools and messages in turn; the field that could not be written is named."""
    value = reading.value
    if isinstance(value, Dialogue):
        messages = require_json([message.to_json() for message in value.messages], "messages")
        return f"{value.subset}\n{reading.tools_text}\n{messages}"
    prompt = require_json([message.to_json() for message in value.prompt], "prompt")
    gold = require_json([[call.to_json() for call in step] for step in value.gold], "gold_tool_calls")
    return f"{value.subset}\n{reading.tools_text}\n{prompt}\n{gold}"


def _outcome(raw: RawRecord) -> Parsed | Rejected:
    try:
        if raw.fault is not None:
            raise raw.fault
        reading, content = _read(raw.value)
    except RecordError as error:
        text = raw.text if raw.text is not None else json.dumps(raw.value, ensure_ascii=False, default=str, skipkeys=True)
        return Rejected(raw.source_file, raw.position, error.reason, error.detail, text[:MAX_RECORD_CHARS])
    return Parsed(raw.source_file, raw.position, reading.value, content, reading.repairs)
