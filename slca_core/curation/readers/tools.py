"""Tool definitions of every kind of source in OpenAI form.

A definition may be wrapped ({"type": "function", "function": ...}) or bare, its schema called as OpenAI, Anthropic, MCP or Google
call it, or be a flat list of parameters without a schema around them, as xLAM and ToolRL write them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from slca_core.curation.readers.records import RecordError, RejectReason, clip, decode, require_json
from slca_core.curation.schema_repair import Repair, repaired
from slca_core.curation.type_names import is_optional, named_type

_PARAMETERS = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema", "parameters_json_schema", "args_schema")
_OUTPUT = ("outputSchema", "output_schema")
# Objects and lists beside a definition that say nothing of what it takes.
_ASIDE = frozenset(
    {
        *("annotations", "_meta", "meta", "metadata", "icons", "execution", "examples", "tags", "cache_control", "server"),
        *("returns", "return", "response", "responses", "results", "output", "outputs", "errors", "allowed_callers"),
    }
)
_COMBINATORS = ("$ref", "anyOf", "oneOf", "allOf")
_KEYWORDS = frozenset(
    {
        *(
            "$schema",
            "$id",
            "$defs",
            "$comment",
            "$anchor",
            "$ref",
            "$dynamicRef",
            "$dynamicAnchor",
            "$vocabulary",
            "id",
            "definitions",
        ),
        *("type", "enum", "const", "default", "examples", "example", "title", "description", "format", "deprecated", "nullable"),
        *("properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties", "maxProperties"),
        *("unevaluatedProperties", "dependencies", "dependentRequired", "dependentSchemas", "items", "prefixItems", "contains"),
        *("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "readOnly", "writeOnly", "strict", "optional"),
    }
)

# Keywords that hold an object and make sense for arguments without `type` or `properties` beside them.
_OF_OBJECTS = frozenset(
    {
        *("$defs", "definitions", "additionalProperties", "patternProperties", "propertyNames", "unevaluatedProperties"),
        *("not", "if", "then", "else", "dependencies", "dependentRequired", "dependentSchemas"),
    }
)


@dataclass(frozen=True, slots=True)
class Tools:
    """A record's definitions, the same as text, and which of their schemas were put into other words."""

    definitions: tuple[dict[str, Any], ...]
    text: str
    repairs: Mapping[str, int] = field(default_factory=Counter)


def tools_of(value: Any, what: str = "tools") -> Tools:
    """Definitions in OpenAI form, in their order, exact repetitions left out.

    Conflicting definitions of one name stay side by side: to drop the record is the filters' decision.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        raise RecordError(RejectReason.NO_TOOLS, f"{what}: the record offers no tools")
    listed = decode(value, what)
    if not isinstance(listed, list):
        raise RecordError(RejectReason.BROKEN_TOOLS, f"{what}: expected a list of tools, found {clip(listed)}")
    repairs: Counter[str] = Counter()
    tools: dict[str, dict[str, Any]] = {}
    for place, item in enumerate(listed):
        text = require_json(item, f"{what}[{place}]")
        try:
            read = _read(text)
        except RecordError as error:
            raise RecordError(error.reason, f"{what}[{place}]{error.detail}") from error
        tools.setdefault(read.text, read.tool)
        repairs.update(read.repairs)
    return Tools(tuple(tools.values()), "\n".join(tools), repairs)


class _Read(NamedTuple):
    tool: dict[str, Any]
    text: str
    repairs: Mapping[str, int]


# The records of one server repeat its definitions to the letter.
@lru_cache(maxsize=8192)
def _read(text: str) -> _Read:
    """One definition; what is wrong with it is told as it goes on behind the definition's place."""
    repairs: Counter[str] = Counter()
    tool = _tool_of(decode(json.loads(text), ""), repairs)
    return _Read(tool, json.dumps(tool, sort_keys=True), +repairs)


def _tool_of(value: Any, repairs: Counter[str]) -> dict[str, Any]:
    function = value.get("function", value) if isinstance(value, dict) else value
    function = decode(function, ".function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str) or not function["name"]:
        raise RecordError(RejectReason.BROKEN_TOOLS, f": expected a tool with a name, found {clip(value)}")
    what = f" {function['name']!r}"
    places = [function] if function is value else [function, value]
    _refuse_unread(places, what)
    parameters = _only_one(places, _PARAMETERS, what) or {}
    if not isinstance(parameters, dict):
        raise RecordError(RejectReason.BROKEN_TOOLS, f"{what}: parameters are {clip(parameters)}, not a JSON Schema")
    schema = {"type": "object", "properties": {}, **_schema_of(parameters, what, repairs)}
    _take_outer_required(places, schema)
    description = _only_one_text(places, what)
    tool: dict[str, Any] = {
        "name": function["name"],
        "description": description,
        "parameters": schema,
    }
    if output := _only_one(places, _OUTPUT, what):
        tool["outputSchema"] = output
    return {"type": "function", "function": tool}


def _only_one_text(places: list[dict[str, Any]], what: str) -> str:
    """The description, the function's own before one around it."""
    found = [place["description"] for place in places if place.get("description") not in (None, "")]
    if wrong := [text for text in found if not isinstance(text, str)]:
        raise RecordError(RejectReason.BROKEN_TOOLS, f"{what}: description is {clip(wrong[0])}, not text")
    return found[0] if found else ""


def _take_outer_required(places: list[dict[str, Any]], schema: dict[str, Any]) -> None:
    """Some converted sets leave `required` outside the schema."""
    outer = [place["required"] for place in reversed(places) if isinstance(place.get("required"), list)]
    if outer and "required" not in schema and all(isinstance(name, str) for name in outer[0]):
        properties = schema["properties"] if isinstance(schema["properties"], dict) else {}
        schema["required"] = [name for name in outer[0] if name in properties]


def _refuse_unread(places: list[dict[str, Any]], what: str) -> None:
    known = {*_PARAMETERS, *_OUTPUT, *_ASIDE, "function", "required", "optional"}
    for place in places:
        for key, value in place.items():
            if value and isinstance(value, dict | list) and key not in known:
                raise RecordError(
                    RejectReason.BROKEN_TOOLS, f"{what}: {key} is not read; a schema is called {', '.join(_PARAMETERS)}"
                )


def _only_one(places: list[dict[str, Any]], names: tuple[str, ...], what: str) -> Any:
    """The value under any of the names; two that differ leave open which is meant."""
    found = {name: decode(place[name], f"{what}.{name}") for place in places for name in names if place.get(name)}
    values = list(found.values())
    if any(value != values[0] for value in values[1:]):
        raise RecordError(RejectReason.AMBIGUOUS, f"{what}: {' and '.join(found)} differ")
    return values[0] if values else None


def _schema_of(parameters: dict[str, Any], what: str, repairs: Counter[str]) -> dict[str, Any]:
    if not _is_schema(parameters):
        flat = _from_flat(parameters, what)
        repairs[Repair.FLAT] += 1
        return repaired(flat, repairs)
    stray = [key for key, value in parameters.items() if key not in _KEYWORDS and isinstance(value, dict) and "type" in value]
    if stray:
        found = ", ".join(stray)
        raise RecordError(
            RejectReason.BROKEN_TOOLS, f"{what}: {found} stands in the schema where only keywords do, not below properties"
        )
    schema = repaired(parameters, repairs)
    kinds = schema.get("type", "object")
    if kinds != "object" and not (isinstance(kinds, list) and "object" in kinds):
        raise RecordError(RejectReason.BROKEN_TOOLS, f"{what}: parameters are of type {clip(kinds)}, and arguments are an object")
    return schema


def _is_schema(parameters: dict[str, Any]) -> bool:
    """Whether it is a schema around the parameters, and not the parameters themselves, of which one may be called `type`."""
    if not parameters or isinstance(parameters.get("type"), str | list):
        return True
    properties = parameters.get("properties")
    if isinstance(properties, list) or any(isinstance(parameters.get(key), str | list) for key in _COMBINATORS):
        return True
    if isinstance(properties, dict):
        return all(isinstance(part, dict | bool | None) for part in properties.values())
    return all(key in (_OF_OBJECTS if isinstance(value, dict) else _KEYWORDS) for key, value in parameters.items())


def _from_flat(parameters: dict[str, Any], what: str) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, part in parameters.items():
        if not isinstance(part, dict) or not ("type" in part or "description" in part):
            raise RecordError(
                RejectReason.BROKEN_TOOLS, f"{what}: parameters.{name} is {clip(part)}, neither a JSON Schema nor a flat parameter"
            )
        kind = part.get("type")
        if isinstance(kind, str) and named_type(kind) is None:
            raise RecordError(RejectReason.BROKEN_TOOLS, f"{what}: parameters.{name} has the type {clip(kind)}, which is unknown")
        properties[name] = {key: value for key, value in part.items() if not (key == "required" and isinstance(value, bool))}
        if part.get("required") is True and not (isinstance(kind, str) and is_optional(kind)):
            required.append(name)
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}
