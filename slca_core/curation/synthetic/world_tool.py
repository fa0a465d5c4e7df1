"""What a tool of the small world is: its schema, its return convention, and the ways to ask for it.

A description ends with the return convention, "Returns temp (integer).", from which the scripted mocker answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

FieldType = Literal["integer", "number", "string", "boolean"]


@dataclass(frozen=True, slots=True)
class Ask:
    """One way to ask for a call: a question with {slots}, and the arguments its wording settles without one."""

    text: str
    fixed: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorldTool:
    """One tool with the ways to ask for it.

    Attributes:
        key: the slot that the summary names: "Lagos temp is 17."
        arguments: the call's arguments; a leaf "$city" is filled from the question's slot, left out where it has none.
        returns: field -> type of the JSON object that a call answers with.
    """

    server: str
    tool: str
    purpose: str
    returns: Mapping[str, FieldType]
    parameters: Mapping[str, Any]
    arguments: Mapping[str, Any]
    key: str
    asks: tuple[Ask, ...]

    @property
    def name(self) -> str:
        return f"{self.server.lower()}-{self.tool}"

    @property
    def target(self) -> str:
        """The tool as Toucan's `target_tools` column spells it."""
        return f"{self.server}::{self.tool}"

    @property
    def definition(self) -> dict[str, Any]:
        """The tool in OpenAI form."""
        returns = ", ".join(f"{name} ({type_})" for name, type_ in self.returns.items())
        description = f"{self.purpose} Returns {returns}."
        return {
            "type": "function",
            "function": {"name": self.name, "description": description, "parameters": dict(self.parameters)},
        }


STRING = {"type": "string"}
INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
BOOLEAN = {"type": "boolean"}


def enum(values: tuple[str, ...]) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)}


def list_of(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


def object_of(optional: tuple[str, ...] = (), /, **properties: dict[str, Any]) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def asks(*texts: str | Ask) -> tuple[Ask, ...]:
    return tuple(text if isinstance(text, Ask) else Ask(text) for text in texts)
