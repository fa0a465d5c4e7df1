"""What the readers of all formats share: outcomes of a record, and strict, bounded decoding of text.

A record that cannot become a value is a `Rejected`, never an exception that stops the read: one bad row in a hundred thousand
is data. Nothing is taken that could not be written again: JSON text is strict, and Python literals and parquet's own types count
only as far as JSON has them.
"""

from __future__ import annotations

import ast
import datetime
import decimal
import json
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from slca_core.conversation.calls import RefusedJson, load_strict_json
from slca_core.conversation.dialogue import Dialogue, Sample, ToolCall

# A Python literal is parsed into a syntax tree of many times its size; Toucan's longest call is far below this.
MAX_LITERAL_CHARS = 1_000_000
MAX_JSON_CHARS = 64_000_000
MAX_RECORD_CHARS = 20_000


class RejectReason(StrEnum):
    """Why a record could not be read."""

    BROKEN_JSON = "broken JSON"
    BROKEN_TEXT = "text that is not Unicode"
    NOT_JSON = "a value that JSON does not have"
    UNKNOWN_FORMAT = "unknown format"
    AMBIGUOUS = "more than one reading"
    UNREAD_FIELD = "a field that is not read"
    MISSING_FIELD = "missing field"
    BROKEN_TOOLS = "broken tool definitions"
    NO_TOOLS = "no tool definitions"
    BROKEN_CALL = "broken tool call"
    ARGUMENTS_NOT_OBJECT = "arguments not an object"
    UNMATCHED_ANSWER = "an answer that fits no call"
    INCONSISTENT_ROLES = "inconsistent roles"
    FLAT_GOLD = "gold calls without steps or arguments"


class Reading(NamedTuple):
    """What a reader made of a record, its tool definitions as text, and the repairs they took."""

    value: Dialogue | Sample
    tools_text: str
    repairs: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Parsed:
    """A record that was read: a `Dialogue`, or a `Sample` where the format has gold calls only.

    Attributes:
        content: digest of what was read, the id and the format left out: equal for equal records.
        repairs: how often each form of a tool's schema was put into other words (`schema_repair`).
    """

    source_file: str
    position: int
    value: Dialogue | Sample
    content: str
    repairs: Mapping[str, int] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Rejected:
    """A record that was not; `position` counts the file's records from 1, `record_text` is cut at `MAX_RECORD_CHARS`."""

    source_file: str
    position: int
    reason: RejectReason
    detail: str
    record_text: str


class RecordError(ValueError):
    """Inside the readers only: this record has the defect `reason`."""

    def __init__(self, reason: RejectReason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


def decode(value: Any, what: str, reason: RejectReason = RejectReason.BROKEN_JSON) -> Any:
    """A column that may hold the value itself, JSON text, or (as in dumps of data frames) the repr of a Python literal."""
    return decode_text(value, what, reason) if isinstance(value, str) else value


def decode_text(text: str, what: str, reason: RejectReason) -> Any:
    """JSON, strictly; text that is not JSON at all is tried as a Python literal."""
    try:
        return load_strict_json(text, MAX_JSON_CHARS)
    except RefusedJson as error:
        if error.refusal != "broken-json":
            raise RecordError(reason, f"{what} is no strict JSON: {error.refusal}") from error
    return parse_literal(text, what, reason)


def parse_literal(text: str, what: str, reason: RejectReason) -> Any:
    if len(text) > MAX_LITERAL_CHARS:
        raise RecordError(reason, f"{what} has {len(text)} characters; a Python literal may have {MAX_LITERAL_CHARS}")
    try:
        with warnings.catch_warnings():
            # Of escapes in what somebody else has written.
            warnings.simplefilter("ignore")
            tree = ast.parse(text.strip(), mode="eval")
        repeated = any(_repeats_a_key(node) for node in ast.walk(tree) if isinstance(node, ast.Dict))
        value = _as_json(ast.literal_eval(tree), what)
    except RecordError:
        raise
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, UnicodeError) as error:
        raise RecordError(reason, f"{what} is neither JSON nor a Python literal ({error.__class__.__name__})") from error
    if repeated:
        raise RecordError(reason, f"{what} is a Python literal that repeats a key")
    return value


def _repeats_a_key(node: ast.Dict) -> bool:
    keys = [ast.dump(key) for key in node.keys if key is not None]
    return len(set(keys)) < len(keys)


def _as_json(value: Any, what: str) -> Any:
    """A literal with tuples as lists."""
    if isinstance(value, dict):
        if any(not isinstance(key, str) for key in value):
            raise RecordError(RejectReason.NOT_JSON, f"{what} has keys that are not text")
        return {key: _as_json(part, f"{what}.{key}") for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(part, f"{what}[{place}]") for place, part in enumerate(value)]
    return value


def require_json(value: Any, what: str) -> str:
    """The value as JSON text; RecordError names the place of what JSON does not have: a date, an infinity, half a surrogate."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise _unwritable(value, what) or RecordError(RejectReason.NOT_JSON, f"{what}: {error}") from error
    return text


_KINDS: dict[type, str] = {
    datetime.datetime: "a timestamp",
    datetime.date: "a date",
    datetime.time: "a time of day",
    datetime.timedelta: "a duration",
    decimal.Decimal: "a decimal",
    bytes: "binary",
}


def _unwritable(value: Any, where: str) -> RecordError | None:
    """The first part that cannot be written; looked for only once the whole could not."""
    stack = [(value, where)]
    while stack:
        part, place = stack.pop()
        if isinstance(part, dict):
            stack += [(child, f"{place}.{key}") for key, child in reversed(part.items())]
            stack += [(key, f"a key of {place}") for key in part]
        elif isinstance(part, list | tuple):
            stack += [(child, f"{place}[{at}]") for at, child in reversed(list(enumerate(part)))]
        elif isinstance(part, str):
            if any("\ud800" <= letter <= "\udfff" for letter in part):
                return RecordError(RejectReason.BROKEN_TEXT, f"{ascii(place)[1:-1]} holds half a surrogate pair")
        elif isinstance(part, float) and not isinstance(part, bool):
            if part != part or part in (float("inf"), float("-inf")):
                return RecordError(RejectReason.NOT_JSON, f"{place} is {part}")
        elif part is not None and not isinstance(part, int):
            kind = next((name for kind, name in _KINDS.items() if isinstance(part, kind)), f"a {type(part).__name__}")
            return RecordError(RejectReason.NOT_JSON, f"{place} is {kind}: write it as text or as a number")
    return None


def field_of(record: dict[str, Any], name: str) -> Any:
    if record.get(name) is None:
        raise RecordError(RejectReason.MISSING_FIELD, f"no field {name!r} among {', '.join(sorted(map(str, record)))}")
    return record[name]


def text_of(value: Any, what: str) -> str:
    """A message's text; null, as some exports write an empty message, is the empty text."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RecordError(RejectReason.INCONSISTENT_ROLES, f"{what} is a {type(value).__name__}, not text")
    return value


# Read, or known to say nothing of what is called.
_IDS = ("id", "call_id", "tool_call_id", "tool_use_id")
_OF_A_CALL = frozenset({"name", "arguments", "parameters", *_IDS, "type", "index", "status"})


def call_of(value: Any, what: str) -> ToolCall:
    """A call from {"name", "arguments"}; arguments as an object or as text, where empty text stands for no arguments."""
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not value["name"]:
        raise RecordError(RejectReason.BROKEN_CALL, f"{what}: expected an object with a name, found {clip(value)}")
    name = value["name"]
    given = [value[key] for key in ("arguments", "parameters") if value.get(key) is not None]
    if len(given) == 2 and given[0] != given[1]:
        raise RecordError(RejectReason.AMBIGUOUS, f"{what}: arguments and parameters of {name} differ")
    if not given and "arguments" in value:
        raise RecordError(RejectReason.ARGUMENTS_NOT_OBJECT, f"{what}: arguments of {name} are null")
    unread = [key for key, part in value.items() if key not in _OF_A_CALL and _holds(part)]
    if unread:
        raise RecordError(RejectReason.BROKEN_CALL, f"{what}: {', '.join(unread)} of {name} is not read; arguments are called so")
    arguments = given[0] if given else {}
    if isinstance(arguments, str):
        arguments = decode_text(arguments, f"{what}: arguments of {name}", RejectReason.BROKEN_CALL) if arguments.strip() else {}
    if not isinstance(arguments, dict):
        raise RecordError(RejectReason.ARGUMENTS_NOT_OBJECT, f"{what}: arguments of {name} are {clip(arguments)}")
    return ToolCall(name, arguments)


def _holds(part: Any) -> bool:
    return isinstance(part, dict | list | str) and bool(part)


def calls_of(value: Any, what: str) -> tuple[ToolCall, ...]:
    """One call or a list of parallel ones."""
    return tuple(call_of(item, what) for item in (value if isinstance(value, list) else [value]))


def clip(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
