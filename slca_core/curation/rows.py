"""A split on disk: one parquet row a sample, nested values as JSON text, so that any reader of parquet can look at it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slca_core.conversation.dialogue import Message, Sample, ToolCall
from slca_core.errors import DataError

SCHEMA = pa.schema(
    [
        ("sample_id", pa.string()),
        ("dialogue_id", pa.string()),
        ("subset", pa.string()),
        ("turn", pa.int64()),
        ("question", pa.string()),
        ("tools", pa.string()),
        ("prompt", pa.string()),
        ("demonstration", pa.string()),
        ("gold", pa.string()),
    ]
)


def row_of(sample: Sample) -> dict[str, Any]:
    return {
        "sample_id": _storable(sample.sample_id),
        "dialogue_id": _storable(sample.dialogue_id),
        "subset": sample.subset,
        "turn": sample.turn,
        "question": _storable(sample.question),
        "tools": json.dumps(sample.tools),
        "prompt": json.dumps([message.to_json() for message in sample.prompt]),
        "demonstration": json.dumps([message.to_json() for message in sample.demonstration]),
        "gold": json.dumps([[call.to_json() for call in step] for step in sample.gold]),
    }


def sample_of(row: dict[str, Any]) -> Sample:
    """The inverse of `row_of`.

    Raises:
        ValueError, KeyError, TypeError: a column does not hold what `row_of` writes.
    """
    return Sample(
        sample_id=row["sample_id"],
        dialogue_id=row["dialogue_id"],
        subset=row["subset"],
        turn=row["turn"],
        tools=tuple(json.loads(row["tools"])),
        prompt=tuple(Message.from_json(message) for message in json.loads(row["prompt"])),
        demonstration=tuple(Message.from_json(message) for message in json.loads(row["demonstration"])),
        gold=tuple(tuple(ToolCall.from_json(call) for call in step) for step in json.loads(row["gold"])),
    )


def read_split(path: Path) -> list[Sample]:
    """The samples of a split file.

    Raises:
        DataError: the file is missing, is not parquet, lacks a column, or a row does not hold a sample.
    """
    return [_sample_at(path, position, row) for position, row in enumerate(_rows(path), start=1)]


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        raise DataError(f"Expected a split file at {path}, found none. Run the curation step first.")
    try:
        with pq.ParquetFile(path) as table:
            missing = [name for name in SCHEMA.names if name not in table.schema_arrow.names]
            if missing:
                raise DataError(
                    f"Expected the columns {', '.join(SCHEMA.names)} in {path}, found none named {', '.join(missing)}. "
                    "Write the file with the curation step."
                )
            for batch in table.iter_batches(columns=SCHEMA.names):
                yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"Expected a readable parquet file at {path}, found: {error}. Run the curation step again.") from error


def _sample_at(path: Path, position: int, row: dict[str, Any]) -> Sample:
    try:
        return sample_of(row)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"Expected a sample in row {position} of {path}, found a value that is not one ({error}). Run the curation step again."
        ) from error


def _storable(text: str) -> str:
    # JSON may smuggle in half a surrogate pair, which no UTF-8 column can hold; the prompt column keeps it, escaped.
    return text.encode("utf-8", "replace").decode("utf-8")
