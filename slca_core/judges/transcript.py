"""A rollout's calls and responses as text for a frozen model: what the completeness checker and the outcome judge read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from html import escape

from slca_core.conversation.calls import ParsedTurn
from slca_core.conversation.dialogue import ToolCall

NOTHING = "(none)"
_LINE_BREAK = re.compile(r"\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


def fill(template: str, values: Mapping[str, str]) -> str:
    """`template` with each {name} replaced once; a value that looks like a name stays as it is."""
    names = {"{" + name + "}": value for name, value in values.items()}
    return re.sub("|".join(map(re.escape, names)), lambda match: names[match.group()], template)


def as_data(text: str) -> str:
    """`text` with nothing in it that closes or opens a tag of the prompt it goes into."""
    return escape(text, quote=False)


def as_entry(text: str) -> str:
    """`text` as data within a list: further lines, however they are parted, are indented: none looks like the next entry."""
    return _LINE_BREAK.sub("\n      ", as_data(text))


def numbered(texts: Sequence[str]) -> str:
    """The texts as data, one below the other under their numbers."""
    return "\n".join(f"{number}. {as_entry(text)}" for number, text in enumerate(texts, 1)) or NOTHING


def transcript(turns: Sequence[ParsedTurn], observations: Sequence[str]) -> str:
    """Every call with its response, in order; a block that could not be read stands as it was written.

    Args:
        turns: of the assistant, all of them.
        observations: one a call, in order, as the policy saw them; a rollout that was cut lacks the last ones.
    """
    attempts = [attempt for turn in turns for attempt in _attempts(turn)]
    answers = [*observations, *[NOTHING] * len(attempts)]
    lines = [
        f"{number}. call: {as_entry(attempt)}\n   response: {as_entry(answer)}"
        for number, (attempt, answer) in enumerate(zip(attempts, answers, strict=False), 1)
    ]
    return "\n".join(lines) or NOTHING


def _attempts(turn: ParsedTurn) -> list[str]:
    """The calls of one turn, one entry for each that is answered."""
    if turn.n_open == 0:
        return []
    read = [text for block in turn.blocks for text in ([block.raw] if block.refusal is not None else map(_as_json, block.calls))]
    return read or [turn.text.strip()]


def _as_json(call: ToolCall) -> str:
    """One line, also where a value has a line break that JSON need not escape."""
    text = json.dumps(call.to_json(), ensure_ascii=False)
    return _LINE_BREAK.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
