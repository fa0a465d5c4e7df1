"""Which dialogues become samples (App. B): the reasons for leaving one out, each with the test for it.

Some reasons are intentions rather than defects: a record without any call teaches no tool use, a dialogue whose later turns call
nothing has nothing to decompose. The others are the paper's strict filtering of broken and hallucinated trajectories.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import pairwise

from slca_core.conversation.dialogue import Dialogue, Message, Sample


class FilterReason(StrEnum):
    """Why a readable record gives no sample."""

    IRRELEVANT = "irrelevant or without a call"
    NO_LATER_CALL = "multi-turn without a call after turn 1"
    EMPTY_QUESTION = "empty question"
    CONFLICTING_TOOLS = "conflicting definitions of one tool"
    UNKNOWN_TOOL = "call of a tool that is not offered"
    UNANSWERED_CALL = "calls and answers differ in number"
    EMPTY_TOOL_RESPONSE = "empty tool response"
    NO_FINAL_ANSWER = "no final answer after a call"
    PROMPT_TOO_LONG = "prompt too long"
    DUPLICATE = "duplicate record"
    CONFLICTING_ID = "different records under one id"
    UNUSABLE_TOOL = "tool definition that no validator can be made of"
    INVALID_GOLD = "gold call that its tool's schema refuses"


# Left out by design, not because something is wrong with the record.
INTENDED = frozenset({FilterReason.IRRELEVANT, FilterReason.NO_LATER_CALL, FilterReason.PROMPT_TOO_LONG, FilterReason.DUPLICATE})


def filter_reason(value: Dialogue | Sample) -> FilterReason | None:
    """The first reason to leave the record out, or None to keep it; intentions come before defects."""
    return _dialogue_reason(value) if isinstance(value, Dialogue) else _sample_reason(value)


def _dialogue_reason(dialogue: Dialogue) -> FilterReason | None:
    if dialogue.subset == "irrelevant" or not any(message.tool_calls for message in dialogue.messages):
        return FilterReason.IRRELEVANT
    turns = user_turns(dialogue.messages)
    if len(turns) > 1 and not any(_calls(turn) for turn in turns[1:]):
        return FilterReason.NO_LATER_CALL
    if not all(turn[0].content.strip() for turn in turns):
        return FilterReason.EMPTY_QUESTION
    return _tool_defect(dialogue) or _answer_defect(dialogue.messages, turns)


def _sample_reason(sample: Sample) -> FilterReason | None:
    """The filters that apply to a row of gold calls."""
    offered = {tool["function"]["name"] for tool in sample.tools}
    if not sample.gold:
        return FilterReason.IRRELEVANT
    if not sample.question.strip():
        return FilterReason.EMPTY_QUESTION
    if len(offered) < len(sample.tools):
        return FilterReason.CONFLICTING_TOOLS
    return FilterReason.UNKNOWN_TOOL if any(call.name not in offered for step in sample.gold for call in step) else None


def user_turns(messages: tuple[Message, ...]) -> list[tuple[Message, ...]]:
    """The messages cut before each user message; what stands before the first one is left out."""
    starts = [index for index, message in enumerate(messages) if message.role == "user"]
    return [messages[start:end] for start, end in pairwise([*starts, len(messages)])]


def _calls(turn: tuple[Message, ...]) -> bool:
    return any(message.tool_calls for message in turn)


def _tool_defect(dialogue: Dialogue) -> FilterReason | None:
    offered = {tool["function"]["name"] for tool in dialogue.tools}
    # Exact repetitions are gone by now.
    if len(offered) < len(dialogue.tools):
        return FilterReason.CONFLICTING_TOOLS
    called = {call.name for message in dialogue.messages for call in message.tool_calls}
    return FilterReason.UNKNOWN_TOOL if called - offered else None


def _answer_defect(messages: tuple[Message, ...], turns: list[tuple[Message, ...]]) -> FilterReason | None:
    answers = [message for message in messages if message.role == "tool"]
    if any(
        _answer_count(messages, index) != len(message.tool_calls) for index, message in enumerate(messages) if message.tool_calls
    ):
        return FilterReason.UNANSWERED_CALL
    if not all(answer.content.strip() for answer in answers):
        return FilterReason.EMPTY_TOOL_RESPONSE
    calling = [turn for turn in turns if _calls(turn)]
    if any(turn[-1].role != "assistant" or turn[-1].tool_calls or not turn[-1].content.strip() for turn in calling):
        return FilterReason.NO_FINAL_ANSWER
    return None


def _answer_count(messages: tuple[Message, ...], index: int) -> int:
    count = 0
    while index + 1 + count < len(messages) and messages[index + 1 + count].role == "tool":
        count += 1
    return count
