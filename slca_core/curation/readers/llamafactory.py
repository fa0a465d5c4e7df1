"""The two tool-calling formats of LLaMA-Factory's data folder: sharegpt conversations (glaive) and messages of typed parts.

Both may answer several parallel calls in one message whose text is a JSON list; it is taken apart when it has an answer a call.
"""

from __future__ import annotations

import json
from typing import Any

from slca_core.curation.readers.assembly import MessageAssembly
from slca_core.curation.readers.records import (
    RecordError,
    RejectReason,
    calls_of,
    decode,
    field_of,
    record_digest,
    text_of,
    tools_of,
)
from slca_core.dialogue import Dialogue


def read_sharegpt(record: dict[str, Any]) -> Dialogue:
    """`conversations` of {"from", "value"}, with `tools` as JSON text; the ids are digests of the record."""
    tools = tools_of(record.get("tools"))
    assembly = MessageAssembly()
    for turn in _turns(record, "conversations"):
        text = text_of(turn.get("value"), "a turn's value")
        match turn.get("from"):
            case "system":
                assembly.system(text)
            case "human" | "user":
                assembly.user(text)
            case "gpt" | "assistant":
                assembly.assistant(text)
            case "function_call":
                assembly.assistant("", calls_of(_call_json(text)))
            case "observation" | "tool":
                _add_answers(assembly, text)
            case speaker:
                raise RecordError(RejectReason.INCONSISTENT_ROLES, f"unknown speaker {speaker!r}")
    return _dialogue(record, "sharegpt", tools, assembly)


def read_parts(record: dict[str, Any]) -> Dialogue:
    """`messages` whose content is a list of {"type": text | reasoning | tool_call, "value"}; reasoning is left out."""
    tools = tools_of(record.get("tools"))
    assembly = MessageAssembly()
    for message in _turns(record, "messages"):
        parts = _parts(message.get("content"))
        text = "\n".join(text_of(part.get("value"), "a text part") for part in parts if part.get("type") == "text")
        call_texts = [text_of(part.get("value"), "a call part") for part in parts if part.get("type") == "tool_call"]
        calls = tuple(call for call_text in call_texts for call in calls_of(_call_json(call_text)))
        match message.get("role"):
            case "system":
                assembly.system(text)
            case "user":
                assembly.user(text)
            case "assistant":
                assembly.assistant(text, calls)
            case "tool":
                _add_answers(assembly, text)
            case role:
                raise RecordError(RejectReason.INCONSISTENT_ROLES, f"unknown role {role!r}")
    return _dialogue(record, "llamafactory-parts", tools, assembly)


def _turns(record: dict[str, Any], name: str) -> list[dict[str, Any]]:
    turns = decode(field_of(record, name), name)
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise RecordError(RejectReason.INCONSISTENT_ROLES, f"{name} are not a list of objects")
    return turns


def _parts(content: Any) -> list[dict[str, Any]]:
    """Typed parts; plain text among them counts as one text part."""
    listed = content if isinstance(content, list) else [{"type": "text", "value": content}]
    if not all(isinstance(part, dict) for part in listed):
        raise RecordError(RejectReason.INCONSISTENT_ROLES, "a message's content is not a list of typed parts")
    return listed


def _call_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordError(RejectReason.BROKEN_CALL, f"a call is not JSON: {text[:120]}") from error


def _add_answers(assembly: MessageAssembly, text: str) -> None:
    for answer in _split_answers(text, assembly.last_call_count()):
        assembly.tool(answer)


def _split_answers(text: str, call_count: int) -> list[str]:
    if call_count < 2:
        return [text]
    try:
        answers = json.loads(text)
    except (ValueError, RecursionError):
        return [text]
    if not isinstance(answers, list) or len(answers) != call_count:
        return [text]
    return [_answer_text(answer) for answer in answers]


def _answer_text(answer: Any) -> str:
    content = answer.get("content", answer) if isinstance(answer, dict) else answer
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _dialogue(record: dict[str, Any], source: str, tools: tuple[dict[str, Any], ...], assembly: MessageAssembly) -> Dialogue:
    messages = assembly.finish(tools)
    turn_count = sum(message.role == "user" for message in messages)
    return Dialogue(
        dialogue_id=f"{source}-{record_digest(record)}",
        source=source,
        subset="multi-turn" if turn_count > 1 else "single-turn",
        tools=tools,
        messages=messages,
    )
