"""Tool-calling dialogues as values: what the readers produce and everything after them consumes.

A `Dialogue` is one source record, whatever format it came in. A `Sample` is one user turn of it, with the calls that answer it
(gold) and, where the source has one, the demonstration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]
SampleSubset = Literal["single-turn", "decomposed"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call: the tool's name and its arguments, a JSON object."""

    name: str
    arguments: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "arguments": self.arguments}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ToolCall:
        return cls(name=value["name"], arguments=value["arguments"])


@dataclass(frozen=True, slots=True)
class Message:
    """One message. Only an assistant's has `tool_calls`; a tool message answers one call, in the order of the calls before it."""

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            value["tool_calls"] = [call.to_json() for call in self.tool_calls]
        return value

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Message:
        calls = tuple(ToolCall.from_json(call) for call in value.get("tool_calls", ()))
        return cls(role=value["role"], content=value["content"], tool_calls=calls)


@dataclass(frozen=True, slots=True)
class Dialogue:
    """One source record.

    Attributes:
        dialogue_id: the source's own id, else a digest of what was read.
        source: the format it was read from, e.g. "toucan-sft".
        subset: the source's own label ("single-turn-original", "multi-turn", "irrelevant", ...).
        tools: OpenAI form, {"type": "function", "function": {"name", "description", "parameters"}}.
        messages: system turns that only list the tools are left out; parallel calls stand in one assistant message.
    """

    dialogue_id: str
    source: str
    subset: str
    tools: tuple[dict[str, Any], ...]
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """One user turn with what came before it and the calls that answer it.

    Attributes:
        sample_id: `<dialogue_id>#<turn>`; of a row that has gold alone with a digest behind it, since several may share the turn.
        subset: "single-turn", or "decomposed" for a later turn of a multi-turn dialogue (App. B: from turn 2).
        turn: 1 for the first user turn.
        prompt: history and question; the last message is the user's.
        demonstration: assistant and tool messages that answer, the last one a summary without calls; empty if the source has none.
        gold: nested steps, each the calls of one assistant turn: ((parallel calls of step 1), (step 2), ...).
    """

    sample_id: str
    dialogue_id: str
    subset: SampleSubset
    turn: int
    tools: tuple[dict[str, Any], ...]
    prompt: tuple[Message, ...]
    demonstration: tuple[Message, ...]
    gold: tuple[tuple[ToolCall, ...], ...]

    @property
    def question(self) -> str:
        return self.prompt[-1].content
