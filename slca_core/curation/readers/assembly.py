"""From source turns to `Message`s: parallel calls join in one assistant message, and each answer stands at its call's place."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, NamedTuple

from slca_core.conversation.calls import RefusedJson, load_strict_json
from slca_core.conversation.dialogue import Message, ToolCall
from slca_core.curation.readers.records import MAX_JSON_CHARS, RecordError, RejectReason


class Answer(NamedTuple):
    """A tool's answer as the source has it.

    Attributes:
        call_id, name: of the call it answers, where the source says so.
        joint: one message may answer several parallel calls, as a JSON list.
    """

    content: str
    call_id: str | None = None
    name: str | None = None
    joint: bool = False


class MessageAssembly:
    """Takes a record's turns one by one, in order, and refuses an order in which no dialogue could have happened."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._call_ids: list[str | None] = []
        self._answers: list[Answer] = []

    def system(self, content: str) -> None:
        if self._messages:
            raise RecordError(RejectReason.INCONSISTENT_ROLES, "a system message stands inside the dialogue")
        self._messages.append(Message("system", content))

    def user(self, content: str) -> None:
        self._settle()
        if self._last_role() == "user":
            raise RecordError(RejectReason.INCONSISTENT_ROLES, "two user messages in a row")
        self._messages.append(Message("user", content))

    def assistant(self, content: str, calls: tuple[ToolCall, ...] = (), ids: tuple[str | None, ...] = ()) -> None:
        """Text, calls, or both; `ids` are the calls'. Calls right after assistant text or calls belong to that message."""
        self._settle()
        if self._last_role() not in ("user", "tool", "assistant"):
            raise RecordError(RejectReason.INCONSISTENT_ROLES, "an assistant message before any user message")
        ids = ids or (None,) * len(calls)
        if self._last_role() != "assistant":
            self._messages.append(Message("assistant", content, calls))
            self._call_ids = list(ids)
            return
        before = self._messages[-1]
        if not calls:
            found = "text after calls that nobody answered" if before.tool_calls else "two assistant texts in a row"
            raise RecordError(RejectReason.INCONSISTENT_ROLES, found)
        joined = "\n".join(part for part in (before.content, content) if part.strip())
        self._messages[-1] = replace(before, content=joined, tool_calls=before.tool_calls + calls)
        self._call_ids += ids

    def tool(self, answer: Answer) -> None:
        if not (self._messages and self._messages[-1].tool_calls):
            raise RecordError(RejectReason.INCONSISTENT_ROLES, "a tool's answer without a call before it")
        self._answers.append(answer)

    def finish(self) -> list[Message]:
        self._settle()
        return self._messages

    def _last_role(self) -> str:
        return self._messages[-1].role if self._messages else ""

    def _settle(self) -> None:
        """Put the answers to the last calls into the order of these."""
        if not self._answers:
            return
        calls = self._messages[-1].tool_calls
        answers = _taken_apart(self._answers, len(calls))
        self._messages += [Message("tool", answer.content) for answer in _in_order(answers, calls, self._call_ids)]
        self._answers, self._call_ids = [], []


def _in_order(answers: list[Answer], calls: tuple[ToolCall, ...], ids: list[str | None]) -> list[Answer]:
    # Where no call bears an id, as in some converted sets, the answers' ids lead nowhere.
    if any(answer.call_id is not None for answer in answers) and any(name is not None for name in ids):
        return _by_id(answers, ids)
    if any(answer.name is not None for answer in answers):
        return _by_name(answers, [call.name for call in calls])
    return answers


def _by_id(answers: list[Answer], ids: list[str | None]) -> list[Answer]:
    known = [name for name in ids if name is not None]
    if len(set(known)) < len(known):
        raise RecordError(RejectReason.UNMATCHED_ANSWER, "two parallel calls have the same id")
    found: dict[str, Answer] = {}
    for answer in answers:
        if answer.call_id is None or answer.call_id not in known:
            raise RecordError(
                RejectReason.UNMATCHED_ANSWER, f"tool_call_id {answer.call_id!r} is the id of none of the calls before it"
            )
        if answer.call_id in found:
            raise RecordError(RejectReason.UNMATCHED_ANSWER, f"tool_call_id {answer.call_id!r} is answered twice")
        found[answer.call_id] = answer
    return [found[name] for name in known if name in found]


def _by_name(answers: list[Answer], names: list[str]) -> list[Answer]:
    """Answers of one name keep their order; one without a name beside named ones could be anybody's."""
    for answer in answers:
        if answer.name not in names:
            raise RecordError(
                RejectReason.UNMATCHED_ANSWER, f"an answer's name {answer.name!r} is the name of none of the calls before it"
            )
    if len(answers) != len(names):
        # Which call was not answered cannot be told; the filters leave such a record out.
        return answers
    waiting = {name: [answer for answer in answers if answer.name == name] for name in names}
    if any(len(waiting[name]) != names.count(name) for name in names):
        raise RecordError(RejectReason.UNMATCHED_ANSWER, "the answers' names are not those of the calls before them")
    return [waiting[name].pop(0) for name in names]


def _taken_apart(answers: list[Answer], call_count: int) -> list[Answer]:
    """A single answer to several calls, if it is a JSON list of one for each."""
    if len(answers) > 1 or call_count < 2 or not answers[0].joint or answers[0].call_id is not None:
        return answers
    try:
        listed = load_strict_json(answers[0].content, MAX_JSON_CHARS)
    except RefusedJson:
        return answers
    if not isinstance(listed, list) or len(listed) != call_count:
        return answers
    return [_answer_of(item) for item in listed]


def _answer_of(item: Any) -> Answer:
    """One of a list's answers, whole: only where nothing but whose it is stands beside `content`, that is the answer."""
    if isinstance(item, dict) and "content" in item and item.keys() <= {"content", "name", "role", "tool_call_id"}:
        return Answer(as_text(item["content"]), call_id=_text_or_none(item, "tool_call_id"), name=_text_or_none(item, "name"))
    return Answer(as_text(item))


def _text_or_none(item: dict[str, Any], key: str) -> str | None:
    value = item.get(key)
    if not isinstance(value, str | None):
        raise RecordError(RejectReason.UNMATCHED_ANSWER, f"an answer's {key} is {value!r}, not text")
    return value


def as_text(value: Any) -> str:
    """An answer's text: text as it is, nothing for null, anything else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
