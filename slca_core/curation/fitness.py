"""Whether rollouts can use a record: a validator can be made of each tool, and each gold call fits its own tool's schema.

A tool that compiles to nothing fails every rollout it is offered in; of a gold call that its schema refuses, even a perfect copy
has no full score.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from slca_core.conversation.dialogue import Dialogue, Sample, ToolCall
from slca_core.conversation.schemas import ToolSet, schema_fault
from slca_core.curation.filters import FilterReason

_KEPT = 8192


class _Checked(NamedTuple):
    """One tool: why it cannot be used, or itself as a set; the definition is held, so that its id stays its own."""

    definition: dict[str, Any]
    fault: str | None
    tools: ToolSet | None


@dataclass(slots=True)
class Fitness:
    """Checks records; what was found of a tool is kept, since the records of one server share their tools."""

    _known: dict[int, _Checked] = field(default_factory=dict)

    def finding(self, value: Dialogue | Sample) -> tuple[FilterReason, str] | None:
        """The first of the two faults, with what and where."""
        if fault := self.tool_fault(value):
            return FilterReason.UNUSABLE_TOOL, fault
        if fault := self.gold_fault(value):
            return FilterReason.INVALID_GOLD, fault
        return None

    def tool_fault(self, value: Dialogue | Sample) -> str | None:
        """Which of the tools cannot be used, and why."""
        return next((fault for tool in value.tools if (fault := self._checked(tool).fault)), None)

    def gold_fault(self, value: Dialogue | Sample) -> str | None:
        """Which call its tool's schema refuses, and where; calls of a tool that is not offered or cannot be used pass."""
        offered = {tool["function"]["name"]: tool for tool in value.tools}
        for call in _calls(value):
            tools = self._checked(offered[call.name]).tools if call.name in offered else None
            if tools is not None and not tools.is_valid(call):
                violation = tools.validate(call)[0]
                where = ".".join(map(str, violation.path)) or "arguments"
                return f"{call.name!r}, {where}: {_clip(violation.message)}"
        return None

    def _checked(self, tool: dict[str, Any]) -> _Checked:
        if (known := self._known.get(id(tool))) is not None:
            return known
        if len(self._known) >= _KEPT:
            self._known.clear()
        fault = _fault(tool["function"])
        checked = self._known[id(tool)] = _Checked(tool, fault, ToolSet.of([tool]) if fault is None else None)
        return checked


def _fault(function: dict[str, Any]) -> str | None:
    for part in ("parameters", "outputSchema"):
        if part in function and (fault := schema_fault(function[part])):
            return f"{part} of {function['name']!r}: {_clip(fault)}"
    return None


def _calls(value: Dialogue | Sample) -> Iterable[ToolCall]:
    if isinstance(value, Sample):
        return (call for step in value.gold for call in step)
    return (call for message in value.messages for call in message.tool_calls)


def _clip(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else f"{line[:197]}..."
