"""Conversations as lists of turns: Toucan's two formats, sharegpt, OpenAI's messages, ms-swift's and messages of typed parts.

They share their parts and differ in words: who speaks stands under `role` or `from`, what is said under `content` or `value`; a
call is a turn of its own, a field of the assistant's, or a typed part; an answer names its call, or follows it. One reader reads
them all, and refuses the field it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any
from uuid import UUID

from slca_core.conversation.dialogue import Dialogue, Message, ToolCall
from slca_core.curation.readers.assembly import Answer, MessageAssembly, as_text
from slca_core.curation.readers.records import (
    Reading,
    RecordError,
    RejectReason,
    call_of,
    calls_of,
    clip,
    decode,
    decode_text,
    field_of,
    text_of,
)
from slca_core.curation.readers.system import with_system
from slca_core.curation.readers.tools import tools_of

_KINDS = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "gpt"), "assistant"),
    **dict.fromkeys(("tool_call", "function_call"), "call"),
    **dict.fromkeys(("tool", "tool_response", "function", "observation"), "answer"),
}
_TOOL_COLUMNS = ("available_tools", "tools", "functions")
_CALL_IDS = ("tool_call_id", "call_id", "tool_use_id")
_READ = frozenset({"role", "from", "content", "value", "name", "function_call", "tool_calls", *_CALL_IDS})
# Left out on purpose: thinking is no part of a demonstration, and the others say nothing of what was said.
_ASIDE = frozenset(
    {
        *(
            "reasoning",
            "reasoning_content",
            "thinking",
            "thought",
            "id",
            "message_id",
            "uuid",
            "parent_id",
            "model",
            "finish_reason",
        ),
        *("created_at", "timestamp", "date", "metadata", "annotations", "logprobs", "language", "source", "type", "status"),
    }
)
# Calls and answers written into text, which only the readers that say so take out of it.
_CALLS_IN_TEXT = re.compile(r"</?tool_calls?>|<functioncall>|<function=|<\|python_tag\|>|\[TOOL_CALLS\]|<\|tool_call")
_WRAPPED = re.compile(r"\s*<tool_(?:response|call)>")


def read_conversation(record: dict[str, Any], column: str) -> Reading:
    """A record whose turns stand in `column`; ids that it lacks are left empty."""
    listed = decode(field_of(record, column), column)
    tool_column = _tool_column(record)
    tools = tools_of(record.get(tool_column), tool_column)
    assembly = MessageAssembly()
    for place, turn in enumerate(turns_of(listed, column)):
        add_turn(assembly, turn, f"{column}[{place}]")
    messages = finished(assembly, record, tools.definitions)
    label = record.get("subset_name")
    if not isinstance(label, str | None):
        raise RecordError(RejectReason.INCONSISTENT_ROLES, f"subset_name is {clip(label)}, not text")
    turn_count = sum(message.role == "user" for message in messages)
    return Reading(
        Dialogue(
            dialogue_id=_identity(record.get("uuid")),
            source=_source(column, tool_column, label, listed),
            subset=(label or ("multi-turn" if turn_count > 1 else "single-turn")),
            tools=tools.definitions,
            messages=messages,
        ),
        tools.text,
        tools.repairs,
    )


def turns_of(listed: Any, column: str) -> list[dict[str, Any]]:
    if not isinstance(listed, list):
        raise RecordError(RejectReason.INCONSISTENT_ROLES, f"{column} is {clip(listed)}, not a list of messages")
    for place, turn in enumerate(listed):
        if not isinstance(turn, dict):
            raise RecordError(RejectReason.INCONSISTENT_ROLES, f"{column}[{place}] is {clip(turn)}, not an object")
    return listed


def finished(assembly: MessageAssembly, record: dict[str, Any], tools: tuple[dict[str, Any], ...]) -> tuple[Message, ...]:
    messages = with_system(assembly.finish(), record, tools)
    if not any(message.role == "user" for message in messages):
        raise RecordError(RejectReason.INCONSISTENT_ROLES, "no user message")
    return messages


def add_turn(assembly: MessageAssembly, turn: dict[str, Any], where: str) -> None:
    """One turn in any of the wordings."""
    _refuse_unread(turn, where)
    kind, content = kind_of(turn, where), _only_one(turn, ("content", "value"), where)
    if kind != "assistant" and (turn.get("tool_calls") or turn.get("function_call")):
        raise RecordError(RejectReason.INCONSISTENT_ROLES, f"{where}: calls of a speaker who is no assistant")
    match kind:
        case "system":
            assembly.system(_text(content, where))
        case "user":
            assembly.user(_unwrapped(_text(content, where), where))
        case "assistant":
            text, part_calls = _parts(content, where)
            calls, ids = calls_on(turn, where)
            if calls and part_calls:
                raise RecordError(RejectReason.AMBIGUOUS, f"{where}: calls stand both in the content's parts and beside it")
            assembly.assistant(_without_markup(text, where), part_calls or calls, ids)
        case "call":
            value = decode_text(content, where, RejectReason.BROKEN_CALL) if isinstance(content, str) else content
            assembly.assistant("", calls_of(value, where), _ids(value if isinstance(value, list) else [value], where))
        case _:
            text = _unwrapped(as_text(content) if isinstance(content, dict) else _text(content, where), where)
            assembly.tool(answer_of(turn, text, where))


def kind_of(turn: dict[str, Any], where: str) -> str:
    speaker = _only_one(turn, ("role", "from"), where)
    if not isinstance(speaker, str) or speaker not in _KINDS:
        raise RecordError(RejectReason.INCONSISTENT_ROLES, f"{where}: unknown role {clip(speaker)}")
    return _KINDS[speaker]


def answer_of(turn: dict[str, Any], text: str, where: str) -> Answer:
    call_id, name = _only_one(turn, _CALL_IDS, where), turn.get("name")
    if call_id is not None and not isinstance(call_id, str):
        raise RecordError(RejectReason.UNMATCHED_ANSWER, f"{where}: tool_call_id is {clip(call_id)}, not text")
    if name is not None and not isinstance(name, str):
        raise RecordError(RejectReason.UNMATCHED_ANSWER, f"{where}: name is {clip(name)}, not text")
    speaker = turn.get("role") or turn.get("from")
    return Answer(text, call_id or None, name or None, joint=speaker in ("observation", "tool"))


def calls_on(turn: dict[str, Any], where: str) -> tuple[tuple[ToolCall, ...], tuple[str | None, ...]]:
    """The calls in a turn's own fields, with their ids."""
    legacy, listed = turn.get("function_call"), decode(turn.get("tool_calls"), f"{where}.tool_calls") or []
    if legacy and listed:
        raise RecordError(RejectReason.AMBIGUOUS, f"{where}: both function_call and tool_calls hold calls")
    if legacy:
        calls = calls_of(decode(legacy, f"{where}.function_call"), f"{where}.function_call")
        return calls, (None,) * len(calls)
    if not isinstance(listed, list):
        raise RecordError(RejectReason.BROKEN_CALL, f"{where}.tool_calls is {clip(listed)}, not a list")
    items = [decode(item, f"{where}.tool_calls") for item in listed]
    calls = tuple(_listed_call(item, f"{where}.tool_calls") for item in items)
    return calls, _ids(items, f"{where}.tool_calls")


def _listed_call(item: Any, where: str) -> ToolCall:
    if not isinstance(item, dict) or "function" not in item:
        return call_of(item, where)
    _refuse_unread(item, where, ("function",))
    return call_of(item["function"], where)


def _ids(calls: list[dict[str, Any]], where: str) -> tuple[str | None, ...]:
    ids = [call.get("id") for call in calls]
    if any(name is not None and not isinstance(name, str) for name in ids):
        raise RecordError(RejectReason.BROKEN_CALL, f"{where}: an id is not text")
    return tuple(name or None for name in ids)


def _only_one(turn: dict[str, Any], names: tuple[str, ...], where: str) -> Any:
    found = {name: turn[name] for name in names if turn.get(name) is not None}
    values = list(found.values())
    if any(value != values[0] for value in values[1:]):
        raise RecordError(RejectReason.AMBIGUOUS, f"{where}: {' and '.join(found)} differ")
    return values[0] if values else None


def _refuse_unread(turn: dict[str, Any], where: str, read: Collection[str] = _READ) -> None:
    """Numbers and flags beside a message are weights and masks; text, lists and objects may be part of what was said."""
    for key, value in turn.items():
        if key not in read and key not in _ASIDE and value and isinstance(value, str | dict | list):
            raise RecordError(RejectReason.UNREAD_FIELD, f"{where}.{key} is not read: {clip(value)}")


def _without_markup(text: str, where: str) -> str:
    """An assistant's text; RecordError if it holds calls."""
    if found := _CALLS_IN_TEXT.search(text):
        raise RecordError(RejectReason.BROKEN_CALL, f"{where}: {found[0]} in the text, whose calls this reader does not take out")
    return text


def _unwrapped(text: str, where: str) -> str:
    """What a user or a tool says; either may talk of tags, but a message that opens with one is something else."""
    if found := _WRAPPED.match(text):
        raise RecordError(
            RejectReason.INCONSISTENT_ROLES, f"{where}: the text is a {found[0].strip()} block, which this reader leaves alone"
        )
    return text


def _text(content: Any, where: str) -> str:
    text, calls = _parts(content, where)
    if calls:
        raise RecordError(RejectReason.INCONSISTENT_ROLES, f"{where}: a tool_call part of a speaker who is no assistant")
    return text


def _parts(content: Any, where: str) -> tuple[str, tuple[ToolCall, ...]]:
    """Text and calls of a content that may be a list of typed parts; reasoning is left out."""
    if not isinstance(content, list):
        return text_of(content, f"{where}: content"), ()
    texts: list[str] = []
    calls: list[ToolCall] = []
    for place, part in enumerate(content):
        at = f"{where}.content[{place}]"
        if not isinstance(part, dict):
            raise RecordError(RejectReason.INCONSISTENT_ROLES, f"{at} is {clip(part)}, not a typed part")
        match part.get("type"):
            case "text" | "input_text" | "output_text":
                texts.append(text_of(_only_one(part, ("value", "text"), at), at))
            case "tool_call":
                value = _only_one(part, ("value", "text"), at)
                calls += calls_of(decode_text(value, at, RejectReason.BROKEN_CALL) if isinstance(value, str) else value, at)
            case "reasoning" | "thinking":
                pass
            case other:
                raise RecordError(RejectReason.UNREAD_FIELD, f"{at}: parts of type {clip(other)} are not read")
    return "\n".join(texts), tuple(calls)


def _tool_column(record: dict[str, Any]) -> str:
    found = [name for name in _TOOL_COLUMNS if record.get(name) is not None]
    found = [name for name in found if record[name]] or found
    if any(record[name] != record[found[0]] for name in found[1:]):
        raise RecordError(RejectReason.AMBIGUOUS, f"the columns {' and '.join(found)} differ")
    return found[0] if found else "tools"


def _identity(value: Any) -> str:
    if value is not None and (not isinstance(value, str | int | UUID) or isinstance(value, bool)):
        raise RecordError(RejectReason.INCONSISTENT_ROLES, f"uuid is {clip(value)}, not text")
    return "" if value is None else str(value)


def _source(column: str, tool_column: str, label: Any, listed: Any) -> str:
    if column == "conversations":
        return "sharegpt"
    if tool_column == "available_tools":
        return "toucan-teacher"
    if any(isinstance(turn.get("content"), list) for turn in listed):
        return "llamafactory-parts"
    return "toucan-sft" if label else "messages"
