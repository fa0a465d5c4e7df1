"""What the stand-in mocker answers: values of the kinds a tool's definition promises, fixed by the call.

Two promises are understood. A JSON Schema of the response (`outputSchema`, as MCP servers publish it) gives an instance of it. A
description that ends "Returns temp (integer), sky (string)." gives {"temp": 17, "sky": "amber"}. Any other tool, or none, gives
{"result": 42}. A field that bears the name of an argument gives that argument back, as servers do; every other value follows from
the call, so that the same call always gets the same answer.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import jsonschema_rs

from slca_core.conversation.dialogue import ToolCall
from slca_core.conversation.schemas import schema_fault

_RETURNS = re.compile(r"Returns ((?:\w+ \((?:integer|number|string|boolean)\)(?:, )?)+)")
_FIELD = re.compile(r"(\w+) \((\w+)\)")
# fmt: off
_WORDS = (
    "amber", "birch", "cedar", "coral", "delta", "ember", "fern", "flint", "grove", "harbor", "iris", "ivory",
    "jade", "juniper", "laurel", "linen", "maple", "marble", "meadow", "mint", "ocean", "olive", "opal", "orchid",
    "pearl", "pine", "plum", "quartz", "raven", "river", "robin", "sable", "sage", "sierra", "slate", "spruce",
    "stone", "sunset", "timber", "topaz", "tulip", "velvet", "violet", "willow", "winter",
)
# fmt: on

_VALUES: dict[str, Callable[[int], Any]] = {
    "integer": lambda seed: seed % 100,
    "number": lambda seed: seed % 1000 / 10,
    "string": lambda seed: _WORDS[seed % len(_WORDS)],
    "boolean": lambda seed: seed % 2 == 0,
}


def returned_fields(tool: dict[str, Any] | None) -> dict[str, str]:
    """Field -> kind as the description promises; {"result": "integer"} where it promises nothing."""
    description = (tool or {}).get("function", tool or {}).get("description") or ""
    promise = _RETURNS.search(description)
    return dict(_FIELD.findall(promise.group(1))) if promise else {"result": "integer"}


def mock_response(tool: dict[str, Any] | None, call: ToolCall) -> str:
    """The answer to `call` as one line of JSON; `tool` is its definition in OpenAI form, or None if the mocker is not shown it."""
    identity = json.dumps(call.to_json(), sort_keys=True, ensure_ascii=False)
    schema = _response_schema(tool)
    if schema is not None:
        answer = _instance(schema, identity, call.arguments)
        # A schema may ask for what `_instance` does not know; an invalid answer would be worse than none of its kind.
        if _is_instance(schema, answer):
            return json.dumps(answer, ensure_ascii=False)
    answer = {name: _field(name, kind, identity, call.arguments) for name, kind in returned_fields(tool).items()}
    return json.dumps(answer, ensure_ascii=False)


def _field(name: str, kind: str, identity: str, arguments: Mapping[str, Any]) -> Any:
    given = arguments.get(name)
    if given is not None and _is_instance({"type": kind}, given):
        return given
    return _VALUES[kind](_seed(identity, name))


def _is_instance(schema: Any, value: Any) -> bool:
    """Whether `value` is one; of a schema that cannot be read by itself, such as one that refers elsewhere, nothing is."""
    try:
        return jsonschema_rs.Draft202012Validator(schema, validate_formats=False, offline=True).is_valid(value)
    except ValueError:
        return False


def _seed(identity: str, place: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{identity}/{place}".encode()).digest()[:8])


def _response_schema(tool: dict[str, Any] | None) -> dict[str, Any] | None:
    """The tool's schema of its responses, where it has one that is a schema."""
    definition = (tool or {}).get("function", tool or {})
    schema = definition.get("outputSchema", (tool or {}).get("outputSchema"))
    return schema if isinstance(schema, dict) and schema_fault(schema) is None else None


def _instance(schema: Any, identity: str, arguments: Mapping[str, Any], place: str = "", name: str = "") -> Any:
    """An instance of the schema, as far as types, enumerations, bounds, properties and items go."""
    if not isinstance(schema, dict):
        return {}
    given = arguments.get(name)
    if given is not None and _is_instance(schema, given):
        return given
    seed = _seed(identity, place)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][seed % len(schema["enum"])]
    for union in ("anyOf", "oneOf"):
        if schema.get(union):
            return _instance(schema[union][0], identity, arguments, place, name)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        properties = {name: {} for name in schema.get("required", ())} | schema.get("properties", {})
        return {name: _instance(part, identity, arguments, f"{place}.{name}", name) for name, part in properties.items()}
    if kind == "array":
        length = max(schema.get("minItems", 0), min(2, schema.get("maxItems", 2)))
        return [_instance(schema.get("items", {"type": "string"}), identity, arguments, f"{place}[{at}]") for at in range(length)]
    if kind in ("integer", "number"):
        return _bounded(schema, _VALUES[kind](seed), kind)
    return _VALUES[kind](seed) if kind in _VALUES else None


def _bounded(schema: Mapping[str, Any], value: Any, kind: str) -> Any:
    """`value` moved between the schema's bounds."""
    step = 1 if kind == "integer" else 0.1
    lowest = [schema[key] + more for key, more in (("minimum", 0), ("exclusiveMinimum", step)) if key in schema]
    highest = [schema[key] - less for key, less in (("maximum", 0), ("exclusiveMaximum", step)) if key in schema]
    return min([max([value, *lowest]), *highest])
