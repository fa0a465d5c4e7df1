"""From source turns to `Message`s: parallel calls join in one assistant message, and text before calls is its content."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from slca_core.curation.readers.records import RecordError, RejectReason
from slca_core.dialogue import Message, ToolCall


class MessageAssembly:
    """Takes a record's turns one by one, in order, and refuses an order in which no dialogue could have happened."""

    def __init__(self) -> None:
        self._messages: list[Message] = []

    def system(self, content: str) -> None:
        if self._messages:
            raise RecordError(RejectReason.INCONSISTENT_ROLES, "a system message stands inside the dialogue")
        self._messages.append(Message("system", content))

    def user(self, content: str) -> None:
        if self._last_role() == "user":
            raise RecordError(RejectReason.INCONSISTENT_ROLES, "two user messages in a row")
        self._messages.append(Message("user", content))

    def assistant(self, content: str, calls: tuple[ToolCall, ...] = ()) -> None:
        """Text, calls, or both. Calls right after assistant text or calls belong to that message."""
        if self._last_role() not in ("user", "tool", "assistant"):
            raise RecordError(RejectReason.INCONSISTENT_ROLES, "an assistant message before any user message")
        if self._last_role() != "assistant":
            self._messages.append(Message("assistant", content, calls))
            return
        before = self._messages[-1]
        if not calls:
            found = "text after calls that nobody answered" if before.tool_calls else "two assistant texts in a row"
            raise RecordError(RejectReason.INCONSISTENT_ROLES, found)
        joined = "\n".join(part for part in (before.content, content) if part.strip())
        self._messages[-1] = replace(before, content=joined, tool_calls=before.tool_calls + calls)

    def tool(self, content: str) -> None:
        last = self._messages[-1] if self._messages else None
        if last is None or not (last.role == "tool" or last.tool_calls):
            raise RecordError(RejectReason.INCONSISTENT_ROLES, "a tool's answer without a call before it")
        self._messages.append(Message("tool", content))

    def last_call_count(self) -> int:
        return len(self._messages[-1].tool_calls) if self._messages else 0

    def finish(self, tools: tuple[dict[str, Any], ...]) -> tuple[Message, ...]:
        """The messages, without a system message that only lists the tools: the chat template writes that list itself."""
        messages = self._messages
        if messages and messages[0].role == "system" and _lists_tools(messages[0].content, tools):
            messages = messages[1:]
        if not any(message.role == "user" for message in messages):
            raise RecordError(RejectReason.INCONSISTENT_ROLES, "no user message")
        return tuple(messages)

    def _last_role(self) -> str:
        return self._messages[-1].role if self._messages else ""


def _lists_tools(content: str, tools: tuple[dict[str, Any], ...]) -> bool:
    return not content.strip() or (bool(tools) and all(tool["function"]["name"] in content for tool in tools))
