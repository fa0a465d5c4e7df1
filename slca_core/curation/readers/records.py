"""What the readers of all formats share: outcomes of a record, bounded decoding of text, and one shape for tools and calls.

A record that cannot become a value is a `Rejected`, never an exception that stops the read: one bad row in a hundred thousand
is data.
"""

from __future__ import annotations

import ast
import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from slca_core.dialogue import Dialogue, Sample, ToolCall

# A Python literal is parsed into a syntax tree of many times its size; Toucan's longest call is far below this.
MAX_LITERAL_CHARS = 1_000_000
MAX_RECORD_CHARS = 20_000

_TYPE_NAMES = {
    "dict": "object",
    "float": "number",
    "str": "string",
    "int": "integer",
    "bool": "boolean",
    "list": "array",
    "tuple": "array",
}


class RejectReason(StrEnum):
    """Why a record could not be read."""

    BROKEN_JSON = "broken JSON"
    UNKNOWN_FORMAT = "unknown format"
    MISSING_FIELD = "missing field"
    BROKEN_TOOLS = "broken tool definitions"
    NO_TOOLS = "no tool definitions"
    BROKEN_CALL = "broken tool call"
    ARGUMENTS_NOT_OBJECT = "arguments not an object"
    INCONSISTENT_ROLES = "inconsistent roles"
    FLAT_GOLD = "gold calls without steps or arguments"


@dataclass(frozen=True, slots=True)
class Parsed:
    """A record that was read: a `Dialogue`, or a `Sample` where the format has gold calls only."""

    source_file: str
    position: int
    value: Dialogue | Sample


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


def decode(value: Any, what: str) -> Any:
    """A column that may hold the value itself, JSON text, or (as in dumps of data frames) the repr of a Python literal."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return parse_literal(value, what, RejectReason.BROKEN_JSON)


def parse_literal(text: str, what: str, reason: RejectReason) -> Any:
    if len(text) > MAX_LITERAL_CHARS:
        raise RecordError(reason, f"{what} has {len(text)} characters; a Python literal may have {MAX_LITERAL_CHARS}")
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise RecordError(reason, f"{what} is neither JSON nor a Python literal ({error.__class__.__name__})") from error


def field_of(record: dict[str, Any], name: str) -> Any:
    if record.get(name) is None:
        raise RecordError(RejectReason.MISSING_FIELD, f"no field {name!r} among {', '.join(sorted(record))}")
    return record[name]


def text_of(value: Any, what: str) -> str:
    """A message's text; null, as some exports write an empty message, is the empty text."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RecordError(RejectReason.INCONSISTENT_ROLES, f"{what} is a {type(value).__name__}, not text")
    return value


def call_of(value: Any) -> ToolCall:
    """A call from {"name", "arguments"}; arguments as an object or as JSON text, where empty text stands for no arguments."""
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not value["name"]:
        raise RecordError(RejectReason.BROKEN_CALL, f"expected an object with a name, found {_clip(value)}")
    arguments = value.get("arguments", value.get("parameters", {}))
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError) as error:
            raise RecordError(RejectReason.BROKEN_CALL, f"arguments of {value['name']} are not JSON: {_clip(arguments)}") from error
    if not isinstance(arguments, dict):
        raise RecordError(RejectReason.ARGUMENTS_NOT_OBJECT, f"arguments of {value['name']} are {_clip(arguments)}")
    return ToolCall(value["name"], arguments)


def calls_of(value: Any) -> tuple[ToolCall, ...]:
    """One call or a list of parallel ones."""
    return tuple(call_of(item) for item in (value if isinstance(value, list) else [value]))


def tools_of(value: Any) -> tuple[dict[str, Any], ...]:
    """Tool definitions in OpenAI form, in their order, exact repetitions left out.

    Conflicting definitions of one name stay side by side: to drop the record is the filters' decision.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        raise RecordError(RejectReason.NO_TOOLS, "the record offers no tools")
    listed = decode(value, "tools")
    if not isinstance(listed, list):
        raise RecordError(RejectReason.BROKEN_TOOLS, f"expected a list of tools, found {_clip(listed)}")
    tools: list[dict[str, Any]] = []
    seen: set[str] = set()
    for item in listed:
        tool = _tool_of(decode(item, "a tool"))
        text = json.dumps(tool, sort_keys=True)
        if text not in seen:
            seen.add(text)
            tools.append(tool)
    return tuple(tools)


def record_digest(record: dict[str, Any]) -> str:
    """An id from the content, for formats without one; the same whichever file or row the record stands in."""
    text = json.dumps(record, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _tool_of(value: Any) -> dict[str, Any]:
    function = value.get("function", value) if isinstance(value, dict) else value
    if not isinstance(function, dict) or not isinstance(function.get("name"), str) or not function["name"]:
        raise RecordError(RejectReason.BROKEN_TOOLS, f"expected a tool with a name, found {_clip(value)}")
    parameters = function.get("parameters") or function.get("input_schema") or {}
    if not isinstance(parameters, dict):
        raise RecordError(RejectReason.BROKEN_TOOLS, f"parameters of {function['name']} are {_clip(parameters)}, not a JSON Schema")
    schema = {"type": "object", "properties": {}, **_json_schema(parameters)}
    required = value.get("required", function.get("required"))
    # Some converted sets leave `required` outside the schema.
    if isinstance(required, list) and "required" not in schema:
        schema["required"] = [name for name in required if isinstance(schema["properties"], dict) and name in schema["properties"]]
    description = function.get("description")
    return {
        "type": "function",
        "function": {
            "name": function["name"],
            "description": description if isinstance(description, str) else "",
            "parameters": schema,
        },
    }


def _json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with the Python type names of some sets ("dict", "str") in JSON Schema's words."""
    converted: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "type" and isinstance(value, str):
            converted[key] = _TYPE_NAMES.get(value, value)
        elif key == "properties" and isinstance(value, dict):
            converted[key] = {name: _json_schema(part) if isinstance(part, dict) else part for name, part in value.items()}
        elif key == "items" and isinstance(value, dict):
            converted[key] = _json_schema(value)
        else:
            converted[key] = value
    return converted


def _clip(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
