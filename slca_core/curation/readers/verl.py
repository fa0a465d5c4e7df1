"""The authors' processed rows for verl: a prompt and its gold calls, without a demonstration.

Gold must be nested, [[parallel calls of step 1], [step 2], ...], as in the released files. The older preview lists bare tool names
in one flat list: neither arguments nor steps can be told from it, so no reward could be computed, and such a row is rejected.
"""

from __future__ import annotations

import json
import re
from typing import Any

from slca_core.curation.readers.assembly import MessageAssembly
from slca_core.curation.readers.records import (
    RecordError,
    RejectReason,
    call_of,
    calls_of,
    decode,
    field_of,
    record_digest,
    text_of,
    tools_of,
)
from slca_core.dialogue import Message, Sample, ToolCall

_CALL_BLOCK = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_RESPONSE_BLOCK = re.compile(r"<tool_response>(.*?)</tool_response>", re.DOTALL)


def read_verl(record: dict[str, Any]) -> Sample:
    """One row. Rows carry no dialogue id: the first question and the tools stand for it, so that its turns stay together."""
    truth = _ground_truth(record)
    tools = tools_of(record.get("tools") or truth.get("tool_schemas"))
    gold = _gold(truth)
    prompt = _prompt(record, tools)
    if prompt[-1].role != "user":
        raise RecordError(RejectReason.INCONSISTENT_ROLES, "the prompt does not end with a user message")
    questions = [message.content for message in prompt if message.role == "user"]
    dialogue_id = f"verl-{record_digest({'question': questions[0], 'tools': tools})}"
    turn = len(questions)
    return Sample(
        sample_id=f"{dialogue_id}#{turn}",
        dialogue_id=dialogue_id,
        subset="single-turn" if turn == 1 else "decomposed",
        turn=turn,
        tools=tools,
        prompt=prompt,
        demonstration=(),
        gold=gold,
    )


def _ground_truth(record: dict[str, Any]) -> dict[str, Any]:
    reward_model = decode(field_of(record, "reward_model"), "reward_model")
    truth = reward_model.get("ground_truth") if isinstance(reward_model, dict) else None
    # Other sets for verl, such as ToolRL's, keep the answer's text here.
    if isinstance(truth, str) and "gold_tool_calls" in truth:
        truth = decode(truth, "ground_truth")
    if not isinstance(truth, dict):
        raise RecordError(RejectReason.UNKNOWN_FORMAT, "reward_model.ground_truth is not an object with gold_tool_calls")
    return truth


def _gold(truth: dict[str, Any]) -> tuple[tuple[ToolCall, ...], ...]:
    """Gold steps; empty for an irrelevant row, which the filters leave out."""
    steps = decode(field_of(truth, "gold_tool_calls"), "gold_tool_calls")
    if not isinstance(steps, list):
        raise RecordError(RejectReason.BROKEN_CALL, "gold_tool_calls are not a list")
    if any(not isinstance(step, list) for step in steps):
        raise RecordError(RejectReason.FLAT_GOLD, "expected [[calls of step 1], [step 2], ...], found a flat list")
    return tuple(tuple(call_of(decode(call, "a gold call")) for call in step) for step in steps if step)


def _prompt(record: dict[str, Any], tools: tuple[dict[str, Any], ...]) -> tuple[Message, ...]:
    turns = decode(field_of(record, "prompt"), "prompt")
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise RecordError(RejectReason.INCONSISTENT_ROLES, "the prompt is not a list of messages")
    assembly = MessageAssembly()
    for turn in turns:
        content = text_of(turn.get("content"), "a prompt message")
        match turn.get("role"):
            case "system":
                assembly.system(content)
            case "assistant":
                assembly.assistant(_CALL_BLOCK.sub("", content).strip(), _calls_in(content))
            case "tool":
                assembly.tool(content)
            case "user":
                _add_user(assembly, content)
            case role:
                raise RecordError(RejectReason.INCONSISTENT_ROLES, f"unknown role {role!r}")
    return assembly.finish(tools)


def _add_user(assembly: MessageAssembly, content: str) -> None:
    """A user message, or the tools' answers, which the authors' template writes as one."""
    answers = _RESPONSE_BLOCK.findall(content) if content.lstrip().startswith("<tool_response>") else []
    for answer in answers:
        assembly.tool(answer.strip("\n"))
    if not answers:
        assembly.user(content)


def _calls_in(content: str) -> tuple[ToolCall, ...]:
    calls: list[ToolCall] = []
    for block in _CALL_BLOCK.findall(content):
        try:
            calls.extend(calls_of(json.loads(block)))
        except (ValueError, RecursionError) as error:
            if isinstance(error, RecordError):
                raise
            raise RecordError(RejectReason.BROKEN_CALL, f"a <tool_call> block is not JSON: {block[:120]}") from error
    return tuple(calls)
