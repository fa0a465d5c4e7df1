"""Toucan's own record formats: the `SFT` config and the teacher configs (Kimi-K2, OSS, Qwen3).

`SFT` keeps each call and each answer as a message of its own (`tool_call`, a Python repr, and `tool_response`). The teacher
configs use the legacy `function_call` on assistant messages and the role `function`; their tools are read from `available_tools`,
because the copy in Kimi's system message is not JSON.
"""

from __future__ import annotations

from typing import Any

from slca_core.curation.readers.assembly import MessageAssembly
from slca_core.curation.readers.records import (
    RecordError,
    RejectReason,
    call_of,
    calls_of,
    decode,
    field_of,
    parse_literal,
    record_digest,
    text_of,
    tools_of,
)
from slca_core.dialogue import Dialogue, ToolCall


def read_toucan(record: dict[str, Any]) -> Dialogue:
    """A row of either format; a row without an `available_tools` or `tools` column has no tools to offer and is rejected."""
    teacher = "available_tools" in record or "tools" not in record
    tools = tools_of(record.get("available_tools") if teacher else record.get("tools"))
    messages = decode(field_of(record, "messages"), "messages")
    if not isinstance(messages, list):
        raise RecordError(RejectReason.INCONSISTENT_ROLES, "messages are not a list")
    assembly = MessageAssembly()
    for message in messages:
        _add(assembly, message)
    return Dialogue(
        dialogue_id=str(record.get("uuid") or record_digest(record)),
        source="toucan-teacher" if teacher else "toucan-sft",
        subset=str(record.get("subset_name") or "unlabelled"),
        tools=tools,
        messages=assembly.finish(tools),
    )


def _add(assembly: MessageAssembly, message: Any) -> None:
    if not isinstance(message, dict):
        raise RecordError(RejectReason.INCONSISTENT_ROLES, f"a message is a {type(message).__name__}, not an object")
    role = message.get("role")
    content = text_of(message.get("content"), f"content of a {role} message")
    match role:
        case "system":
            assembly.system(content)
        case "user":
            assembly.user(content)
        case "assistant":
            assembly.assistant(content, _calls_on(message))
        case "tool_call":
            assembly.assistant("", (call_of(parse_literal(content, "a tool_call", RejectReason.BROKEN_CALL)),))
        case "tool_response" | "function" | "tool":
            assembly.tool(content)
        case _:
            raise RecordError(RejectReason.INCONSISTENT_ROLES, f"unknown role {role!r}")


def _calls_on(message: dict[str, Any]) -> tuple[ToolCall, ...]:
    if message.get("function_call"):
        return calls_of(decode(message["function_call"], "function_call"))
    listed = message.get("tool_calls") or []
    if not isinstance(listed, list):
        raise RecordError(RejectReason.BROKEN_CALL, "tool_calls are not a list")
    return tuple(call_of(item.get("function", item) if isinstance(item, dict) else item) for item in listed)
