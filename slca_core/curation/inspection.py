"""What curation would make of records, one by one and before it costs anything: for `slca data inspect` and the plan's line."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slca_core.conversation.dialogue import Dialogue, Message, Sample, ToolCall
from slca_core.curation.filters import filter_reason
from slca_core.curation.fitness import Fitness
from slca_core.curation.readers import Parsed, Rejected, find_files, read_source
from slca_core.errors import DataError

LOOKED_AT = 20  # records of a file the plan reads
_FILES = 5
_SMALL = 16 * 2**20  # bytes up to which a file is counted line by line
_HEAD = 2**20  # bytes from which the rows of a larger one are told
_BEFORE_ITEM = re.compile(r"\s*[\[,]\s*")


@dataclass(frozen=True, slots=True)
class Inspected:
    """One record as a reader made it, or why it is left out.

    Attributes:
        format: what it was read as; empty if it could not be read.
        left_out: reason and detail; None if it gives a sample, unless another record is its like.
        gold: the calls, step by step; `answers` are the tools', in the order of the calls.
    """

    file: str
    position: int
    left_out: str | None
    format: str = ""
    id: str = ""
    system: str = ""
    question: tuple[str, ...] = ()
    tools: tuple[dict[str, Any], ...] = ()
    gold: tuple[tuple[ToolCall, ...], ...] = ()
    answers: tuple[str, ...] = ()
    final: str = ""
    repaired: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """All of it; of a record that could not be read, only what there is."""
        head = {"file": self.file, "position": self.position, "left_out": self.left_out}
        if not self.format:
            return head
        return head | {
            "format": self.format,
            "id": self.id,
            "system": self.system,
            "question": list(self.question),
            "tools": list(self.tools),
            "gold": [[call.to_json() for call in step] for step in self.gold],
            "answers": list(self.answers),
            "final": self.final,
            "repaired": self.repaired,
        }


def inspect(source: Path, limit: int | None = None) -> Iterator[Inspected]:
    """The first records of a source, each looked at by itself.

    Raises:
        DataError: the source or one of its files cannot be read.
    """
    fitness = Fitness()
    for outcome in islice(read_source(source), limit):
        yield _inspected(outcome, fitness)


def _inspected(outcome: Parsed | Rejected, fitness: Fitness) -> Inspected:
    if isinstance(outcome, Rejected):
        return Inspected(outcome.source_file, outcome.position, f"{outcome.reason}: {outcome.detail}")
    value = outcome.value
    if isinstance(value, Dialogue):
        messages, name, identity = value.messages, value.source, value.dialogue_id
        gold = tuple(message.tool_calls for message in messages if message.tool_calls)
    else:
        messages, name, identity, gold = value.prompt, "verl", value.sample_id, value.gold
    return Inspected(
        file=outcome.source_file,
        position=outcome.position,
        left_out=_reason(value, fitness),
        format=name,
        id=identity,
        system=next((message.content for message in messages if message.role == "system"), ""),
        question=tuple(message.content for message in messages if message.role == "user"),
        tools=value.tools,
        gold=gold,
        answers=tuple(message.content for message in messages if message.role == "tool"),
        final=_final(messages),
        repaired={str(repair): count for repair, count in outcome.repairs.items()},
    )


def _reason(value: Dialogue | Sample, fitness: Fitness) -> str | None:
    if reason := filter_reason(value):
        return str(reason)
    finding = fitness.finding(value)
    return f"{finding[0]}: {finding[1]}" if finding else None


def _final(messages: Sequence[Message]) -> str:
    return messages[-1].content if messages[-1].role == "assistant" else ""


def summary(sources: Sequence[Path]) -> str:
    """Formats, rows and the first problem of the first records, in one line; DataError for what no one could read from."""
    files = [file for source in sources for file in find_files(source)]
    formats: Counter[str] = Counter()
    problem, looked_at = "", 0
    for file in files[:_FILES]:
        if file.suffix == ".json" and file.stat().st_size > _SMALL:
            continue
        try:
            for one in inspect(file, LOOKED_AT):
                looked_at += 1
                formats[one.format or "unread"] += 1
                if one.left_out and not problem:
                    problem = f"{one.file}, record {one.position}: {one.left_out}"
        except DataError as error:
            problem = problem or str(error)
    kinds = ", ".join(name for name, _ in formats.most_common()) or "nothing looked at"
    return printable(f"{kinds}; {_rows(files)}; {_first(problem, looked_at)}")


def printable(text: str) -> str:
    """Text for a terminal: whatever is in the data, it moves no cursor, sets no colour and can be written."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def _first(problem: str, looked_at: int) -> str:
    if not problem:
        return f"no problem in the first {looked_at}"
    line = " ".join(problem.split())
    return f"first problem: {line if len(line) <= 300 else line[:297] + '...'}"


def _rows(files: Sequence[Path]) -> str:
    """Counted where that is quick, else told from the length of the first lines."""
    total, exact = 0, True
    for file in files:
        rows, is_exact = _row_count(file)
        total, exact = total + rows, exact and is_exact
    return f"{'' if exact else 'about '}{total:,} rows in {len(files):,} {'file' if len(files) == 1 else 'files'}"


def _row_count(file: Path) -> tuple[int, bool]:
    size = file.stat().st_size
    try:
        if file.suffix == ".parquet":
            return pq.read_metadata(file).num_rows, True
        if file.suffix == ".json" and size <= _SMALL:
            records = json.loads(file.read_text(encoding="utf-8-sig"))
            return (len(records), True) if isinstance(records, list) else (1, True)
        with file.open("rb") as lines:
            if size <= _SMALL:
                return sum(bool(line.strip()) for line in lines), True
            return _told_from(lines.read(_HEAD), size), False
    except (OSError, ValueError, RecursionError, pa.ArrowException):
        return 0, False


def _told_from(head: bytes, size: int) -> int:
    """Records of a file of `size` bytes, as many a byte as in its beginning, whether they stand in a list or in lines."""
    text = head.decode("utf-8-sig", errors="replace").lstrip()
    found, end = _in_list(text) if text.startswith("[") else _in_lines(text)
    # None may be whole there: then each takes as much at least.
    return round(size * found / len(text[:end].encode())) if found else max(size // len(head), 1)


def _in_lines(text: str) -> tuple[int, int]:
    """How many whole records stand there, and where the last one ends."""
    end = text.rfind("\n") + 1
    return sum(bool(line.strip()) for line in text[:end].split("\n")), end


def _in_list(text: str) -> tuple[int, int]:
    decoder, found, end = json.JSONDecoder(), 0, 0
    while start := _BEFORE_ITEM.match(text, end):
        try:
            _, end = decoder.raw_decode(text, start.end())
        except ValueError:
            break
        found += 1
    return found, end
