"""Tool definitions and the validators compiled from them.

Arguments are checked against a tool's JSON Schema as Draft 2020-12, whatever `$schema` it declares; formats are annotations only,
and a reference to another document is refused rather than fetched. HierR's S_fmt and the simulator's first stage rely on this.
No check takes long: a definition that could ask too much of its validator is refused when the tool set is built, and arguments that
would are refused like any that do not fit (`schema_bounds`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import jsonschema
import jsonschema_rs

from slca_core.conversation.dialogue import ToolCall
from slca_core.conversation.schema_bounds import MAX_CHARACTERS, SUBSCHEMA_MAPS, SUBSCHEMAS, Bounds, UnboundedSchema
from slca_core.errors import DataError

ViolationKind = Literal["unknown-tool", "missing", "ill-typed"]

# BFCL writes Python's names for types; "any" is no restriction.
_BFCL_TYPES = {"dict": "object", "float": "number", "tuple": "array"}


@dataclass(frozen=True, slots=True)
class Violation:
    """One way in which a call does not fit its tool.

    Attributes:
        kind: "missing" for a required key that is absent (at any depth), "ill-typed" for anything else the schema refuses.
        path: where in the arguments, e.g. ("address", "city"); it ends with the missing key.
        message: a sentence for the reader of a report.
    """

    kind: ViolationKind
    path: tuple[str | int, ...]
    message: str


@dataclass(frozen=True, slots=True)
class ToolSet:
    """The tools offered in one sample. Holds JSON only, so it travels between processes; validators are compiled once a process."""

    definitions: tuple[dict[str, Any], ...]
    _schemas: Mapping[str, str]

    @classmethod
    def of(cls, tools: Sequence[Mapping[str, Any]]) -> ToolSet:
        """Build from OpenAI-form tools, {"type": "function", "function": {"name", "description", "parameters"}}.

        Raises:
            DataError: naming every tool that has no name, is defined twice differently, or whose parameters are no JSON Schema.
        """
        schemas: dict[str, str] = {}
        faults: list[str] = []
        for position, tool in enumerate(tools):
            function = tool.get("function") if isinstance(tool, Mapping) else None
            function = function if isinstance(function, Mapping) else {}
            name = function.get("name")
            if not isinstance(name, str) or not name:
                faults.append(f"tool {position} has no function name")
                continue
            schema_json = _canonical_schema(function.get("parameters"))
            if schemas.setdefault(name, schema_json) != schema_json:
                faults.append(f"'{name}' is defined twice with different parameters")
            elif fault := _schema_fault(schema_json):
                faults.append(f"'{name}': {fault}")
        if faults:
            raise DataError(
                "tool definitions in OpenAI form with JSON Schema parameters (Draft 2020-12) were expected, found "
                f"{'; '.join(faults)}. Mend the definition or drop the sample."
            )
        return cls(definitions=tuple(dict(tool) for tool in tools), _schemas=schemas)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._schemas)

    def __contains__(self, name: object) -> bool:
        return name in self._schemas

    def get(self, name: str) -> dict[str, Any] | None:
        """The definition as it was given, or None if no such tool is offered."""
        return next((tool for tool in self.definitions if tool["function"]["name"] == name), None)

    def parameters(self, name: str) -> dict[str, Any]:
        """The tool's parameters as standard JSON Schema, {} where it declares none.

        Raises:
            KeyError: no such tool is offered.
        """
        parameters: dict[str, Any] = json.loads(self._schemas[name])
        return parameters

    def is_valid(self, call: ToolCall) -> bool:
        """Whether the tool is offered and takes these arguments."""
        return call.name in self._schemas and _compile(self._schemas[call.name]).is_valid(call.arguments)

    def validate(self, call: ToolCall) -> tuple[Violation, ...]:
        """Every violation of the call, none if it is valid."""
        if call.name not in self._schemas:
            return (Violation("unknown-tool", (), f"Tool '{call.name}' is not among the offered tools."),)
        return _compile(self._schemas[call.name]).violations(call.arguments)


def _as_violation(error: jsonschema_rs.ValidationError) -> Violation:
    path = tuple(error.instance_path)
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Required):
        return Violation("missing", (*path, error.kind.property), error.message)
    return Violation("ill-typed", path, error.message)


@dataclass(frozen=True, slots=True)
class _Checker:
    """A compiled validator that is asked only what it can answer in bounded time."""

    validator: jsonschema_rs.Draft202012Validator
    bounds: Bounds

    def is_valid(self, arguments: dict[str, Any]) -> bool:
        return self.bounds.affords(arguments) and self.validator.is_valid(arguments)

    def violations(self, arguments: dict[str, Any]) -> tuple[Violation, ...]:
        if not self.bounds.affords(arguments):
            return (Violation("ill-typed", (), "These arguments are too large or too deep for the tool's recursive schema."),)
        return tuple(_as_violation(error) for error in self.validator.iter_errors(arguments))


@lru_cache(maxsize=8192)
def _compile(schema_json: str) -> _Checker:
    """UnboundedSchema, or jsonschema_rs's ValidationError, if no check can be made of it."""
    if len(schema_json) > MAX_CHARACTERS:
        raise UnboundedSchema(f"it has {len(schema_json):,} characters; at most {MAX_CHARACTERS:,} are read")
    schema = json.loads(schema_json)
    bounds = Bounds.of(schema)
    return _Checker(jsonschema_rs.Draft202012Validator(schema, validate_formats=False, offline=True), bounds)


def schema_fault(schema: Any) -> str | None:
    """Why no validator can be made of a JSON Schema, or None."""
    return _schema_fault(_canonical_schema(schema))


@lru_cache(maxsize=8192)
def _schema_fault(schema_json: str) -> str | None:
    try:
        _compile(schema_json)
    except (jsonschema_rs.ValidationError, ValueError) as error:
        return _explained(json.loads(schema_json)) or str(error).splitlines()[0]
    except RecursionError:
        return "nested too deep"
    return None


def _explained(schema: Any) -> str | None:
    """The place of a fault, which jsonschema names; a hundred times slower than the compiler, so asked for faults alone."""
    try:
        # Without formats: Python's idea of a pattern differs from ECMA's, which the compiler has checked.
        jsonschema.Draft202012Validator.check_schema(schema, format_checker=jsonschema.FormatChecker(()))
    except jsonschema.SchemaError as error:
        return f"{error.message} at {error.json_path}"
    except RecursionError:
        pass
    return None


def _canonical_schema(parameters: Any) -> str:
    return json.dumps({} if parameters is None else _standard_schema(parameters), sort_keys=True)


def _standard_schema(schema: Any) -> Any:
    """A schema with BFCL's type names replaced and `$schema` dropped.

    Follows only the places where schemas stand: a property may itself be called "type", and a default may be {"type": "dict"}.
    """
    if isinstance(schema, list):
        return [_standard_schema(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    standard: dict[str, Any] = {}
    for key, value in schema.items():
        if key in SUBSCHEMA_MAPS and isinstance(value, Mapping):
            standard[key] = {name: _standard_schema(child) for name, child in value.items()}
        elif key in SUBSCHEMAS:
            standard[key] = _standard_schema(value)
        elif key == "type" and isinstance(value, str):
            if value != "any":
                standard[key] = _BFCL_TYPES.get(value, value)
        elif key != "$schema":
            standard[key] = value
    return standard
