"""The authors' processed rows for verl: a prompt and its gold calls, without a demonstration.

Gold must be nested, [[parallel calls of step 1], [step 2], ...], as in the released files. The older preview lists bare tool names
in one flat list: neither arguments nor steps can be told from it, so no reward could be computed, and such a row is rejected.
Calls and answers of the history are written into the text between tags, as the authors' template does.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from slca_core.conversation.dialogue import Message, Sample, ToolCall
from slca_core.conversation.tags import blocks, tag_pair, without_blocks
from slca_core.curation.readers.assembly import Answer, MessageAssembly
from slca_core.curation.readers.conversation import add_turn, finished, kind_of, turns_of
from slca_core.curation.readers.records import (
    Reading,
    RecordError,
    RejectReason,
    call_of,
    calls_of,
    decode,
    decode_text,
    field_of,
)
from slca_core.curation.readers.tools import tools_of

_CALL, _RESPONSE = tag_pair("tool_call"), tag_pair("tool_response")


def read_verl(record: dict[str, Any]) -> Reading:
    """One row. Rows carry no dialogue id: the first question and the tools stand for it, so that its turns stay together."""
    truth = _ground_truth(record)
    column = "tools" if record.get("tools") else "tool_schemas"
    tools = tools_of(record.get("tools") or truth.get("tool_schemas"), column)
    gold = _gold(truth)
    prompt = _prompt(record, tools.definitions)
    if prompt[-1].role != "user":
        raise RecordError(RejectReason.INCONSISTENT_ROLES, "the prompt does not end with a user message")
    questions = [message.content for message in prompt if message.role == "user"]
    dialogue_id = f"verl-{_digest([questions[0], tools.text])[:24]}"
    turn = len(questions)
    # Two rows may share question and tools and differ in history or gold: each is a sample of its own.
    content = _digest([[message.to_json() for message in prompt], [[call.to_json() for call in step] for step in gold]])
    sample = Sample(
        sample_id=f"{dialogue_id}#{turn}-{content[:8]}",
        dialogue_id=dialogue_id,
        subset="single-turn" if turn == 1 else "decomposed",
        turn=turn,
        tools=tools.definitions,
        prompt=prompt,
        demonstration=(),
        gold=gold,
    )
    return Reading(sample, tools.text, tools.repairs)


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _ground_truth(record: dict[str, Any]) -> dict[str, Any]:
    reward_model = decode(field_of(record, "reward_model"), "reward_model")
    truth = reward_model.get("ground_truth") if isinstance(reward_model, dict) else None
    # Other sets for verl, such as ToolRL's, keep the answer's text here.
    if isinstance(truth, str) and "gold_tool_calls" in truth:
        truth = decode(truth, "reward_model.ground_truth")
    if not isinstance(truth, dict):
        raise RecordError(RejectReason.UNKNOWN_FORMAT, "reward_model.ground_truth is not an object with gold_tool_calls")
    return truth


def _gold(truth: dict[str, Any]) -> tuple[tuple[ToolCall, ...], ...]:
    """Gold steps; empty for an irrelevant row, which the filters leave out."""
    steps = decode(field_of(truth, "gold_tool_calls"), "gold_tool_calls")
    if not isinstance(steps, list):
        raise RecordError(RejectReason.BROKEN_CALL, "gold_tool_calls are not a list")
    if any(not isinstance(step, list) for step in steps):
        raise RecordError(RejectReason.FLAT_GOLD, "gold_tool_calls: expected [[calls of step 1], [step 2], ...], found a flat list")
    return tuple(
        tuple(call_of(decode(call, "gold_tool_calls"), f"gold_tool_calls[{place}]") for call in step)
        for place, step in enumerate(steps)
        if step
    )


def _prompt(record: dict[str, Any], tools: tuple[dict[str, Any], ...]) -> tuple[Message, ...]:
    assembly = MessageAssembly()
    for place, turn in enumerate(turns_of(decode(field_of(record, "prompt"), "prompt"), "prompt")):
        _add(assembly, turn, f"prompt[{place}]")
    return finished(assembly, record, tools)


def _add(assembly: MessageAssembly, turn: dict[str, Any], where: str) -> None:
    """A turn; one with tags in its text is taken apart."""
    content, kind = turn.get("content"), kind_of(turn, where)
    if isinstance(content, str) and kind == "assistant" and "tool_call>" in content:
        if turn.get("tool_calls") or turn.get("function_call"):
            raise RecordError(RejectReason.AMBIGUOUS, f"{where}: calls stand both in the text and beside it")
        rest = without_blocks(content, *_CALL).strip()
        add_turn(assembly, {**turn, "content": rest, "tool_calls": None}, where)
        assembly.assistant("", _calls_in(content, where))
    elif isinstance(content, str) and kind in ("user", "answer") and "tool_response>" in content:
        if without_blocks(content, *_RESPONSE).strip():
            raise RecordError(RejectReason.INCONSISTENT_ROLES, f"{where}: text around <tool_response> blocks")
        for block in blocks(content, *_RESPONSE):
            assembly.tool(Answer(block.body.removeprefix("\n").removesuffix("\n")))
    else:
        add_turn(assembly, turn, where)


def _calls_in(content: str, where: str) -> tuple[ToolCall, ...]:
    values = (decode_text(block.body, where, RejectReason.BROKEN_CALL) for block in blocks(content, *_CALL))
    return tuple(call for value in values for call in calls_of(value, where))
