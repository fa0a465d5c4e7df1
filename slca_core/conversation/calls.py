"""Strict reading and writing of `<tool_call>` blocks.

A block is what stands between an opening tag and the next closing tag, once thinking is removed; it counts only if it is strict
JSON of the right form. The writer escapes the `<` of a tag inside an argument, so that what it writes is read back as it was.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple, NoReturn

from slca_core.conversation.dialogue import ToolCall
from slca_core.errors import DataError

OPEN_TAG = "<tool_call>"
CLOSE_TAG = "</tool_call>"

# Fixed limits: Python's own depth depends on how deep the caller's stack already is, and the same text must always get the same
# verdict; and a block longer than any real call is not worth parsing.
MAX_DEPTH = 200
MAX_CHARACTERS = 1_000_000

_THINKING_OPENS = re.compile(r"<(think|thinking)>")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_TAG_START = re.compile(r"<(?=/?(?:tool_call|tool_response|think|thinking)>|\|(?:im_start|im_end|endoftext)\|>)")


class Refusal(StrEnum):
    """Why a block holds no calls."""

    BROKEN_JSON = "broken-json"
    DUPLICATE_KEY = "duplicate-key"
    NON_FINITE = "non-finite"
    TOO_DEEP = "too-deep"
    TOO_LONG = "too-long"
    NOT_UNICODE = "not-unicode"
    NOT_A_CALL = "not-a-call"


class RefusedJson(ValueError):
    """JSON that is not strict; `refusal` says in which way."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(f"strict JSON was expected, found {refusal.value}.")
        self.refusal = refusal


class Block(NamedTuple):
    """One block: its text between the tags, and either its calls or why it has none."""

    raw: str
    calls: tuple[ToolCall, ...] = ()
    refusal: Refusal | None = None


class ParsedTurn(NamedTuple):
    """One assistant turn.

    Attributes:
        text: the turn without its thinking; every count is over this text.
        blocks: in order, refused ones too.
        n_open: number of opening tags, those inside a block's JSON included.
        n_close: number of closing tags.
    """

    text: str
    blocks: tuple[Block, ...]
    n_open: int
    n_close: int

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls of all parsed blocks, in order."""
        return tuple(call for block in self.blocks for call in block.calls)

    @property
    def n_unclosed(self) -> int:
        """Opening tags without a closing tag of their own."""
        return self.n_open - len(self.blocks)


def parse_turn(text: str) -> ParsedTurn:
    """Read the blocks of one assistant turn, in time linear in its length. Never raises: what the policy wrote is data."""
    text = strip_thinking(text)
    blocks = tuple(_parse_block(body) for body in _block_bodies(text))
    return ParsedTurn(text=text, blocks=blocks, n_open=text.count(OPEN_TAG), n_close=text.count(CLOSE_TAG))


def parse_turns(texts: Iterable[str]) -> list[ParsedTurn]:
    """Read all assistant texts of a rollout, the summary included. Whoever needs them more than once hands them on."""
    return [parse_turn(text) for text in texts]


def strip_thinking(text: str) -> str:
    """The text without `<think>...</think>` and `<thinking>...</thinking>`; an unclosed one stays."""
    if "<think" not in text:
        return text
    kept, position, unclosed = [], 0, set[str]()
    while opening := _THINKING_OPENS.search(text, position):
        tag = opening.group(1)
        # Once a tag's closing is not found, no later one can be: looking again each time would be quadratic.
        close = -1 if tag in unclosed else text.find(f"</{tag}>", opening.end())
        if close < 0:
            unclosed.add(tag)
            kept.append(text[position : opening.end()])
            position = opening.end()
        else:
            kept.append(text[position : opening.start()])
            position = close + len(f"</{tag}>")
    return "".join(kept) + text[position:] if kept else text


def render_call(call: ToolCall) -> str:
    """Write one call as a block that `parse_turn` reads back unchanged.

    Raises:
        DataError: an argument is NaN, infinite, or not JSON.
    """
    try:
        body = json.dumps(call.to_json(), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"the call of '{call.name}' cannot be written: JSON arguments with finite numbers were expected ({error})."
        ) from error
    return f"{OPEN_TAG}\n{_TAG_START.sub(_escape, body)}\n{CLOSE_TAG}"


def load_strict_json(text: str, max_characters: int = MAX_CHARACTERS) -> Any:
    """Parse strict JSON: no NaN or infinity (written out, or as a number too large), no duplicate key, no lone surrogate, at most
    `MAX_DEPTH` levels and `max_characters` characters.

    Raises:
        RefusedJson: with the reason.
    """
    if len(text) > max_characters:
        raise RefusedJson(Refusal.TOO_LONG)
    try:
        value = _STRICT.decode(text)
    except RefusedJson:
        raise
    except RecursionError as error:
        raise RefusedJson(Refusal.TOO_DEEP) from error
    except ValueError as error:
        raise RefusedJson(Refusal.BROKEN_JSON) from error
    if text.count("[") + text.count("{") > MAX_DEPTH and json_depth(value) > MAX_DEPTH:
        raise RefusedJson(Refusal.TOO_DEEP)
    if _may_hold_surrogate(text) and not _is_unicode(value):
        raise RefusedJson(Refusal.NOT_UNICODE)
    return value


def _block_bodies(text: str) -> Iterator[str]:
    """What stands between each opening tag and the next closing tag."""
    position = 0
    while (start := text.find(OPEN_TAG, position)) >= 0:
        start += len(OPEN_TAG)
        end = text.find(CLOSE_TAG, start)
        if end < 0:
            return
        yield text[start:end]
        position = end + len(CLOSE_TAG)


def _parse_block(raw: str) -> Block:
    try:
        value = load_strict_json(raw)
    except RefusedJson as error:
        return Block(raw=raw, refusal=error.refusal)
    entries = value if isinstance(value, list) else [value]
    calls = [call for entry in entries if (call := _as_call(entry)) is not None]
    if not entries or len(calls) < len(entries):
        return Block(raw=raw, refusal=Refusal.NOT_A_CALL)
    return Block(raw=raw, calls=tuple(calls))


def _as_call(entry: Any) -> ToolCall | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        return None
    arguments = entry.get("arguments", entry.get("parameters", {}))
    return ToolCall(name=entry["name"], arguments=arguments) if isinstance(arguments, dict) else None


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise RefusedJson(Refusal.DUPLICATE_KEY)
    return value


def _refuse_constant(_: str) -> NoReturn:
    raise RefusedJson(Refusal.NON_FINITE)


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise RefusedJson(Refusal.NON_FINITE)
    return value


# Made once: `json.loads` with hooks would build a decoder for every block.
_STRICT = json.JSONDecoder(object_pairs_hook=_object_without_duplicates, parse_constant=_refuse_constant, parse_float=_finite_float)


def json_depth(value: Any) -> int:
    """Levels of lists and objects, counted without recursion."""
    depth, level = 0, [value]
    while level := [node for node in level if isinstance(node, (list, dict))]:
        depth += 1
        level = [child for node in level for child in (node.values() if isinstance(node, dict) else node)]
    return depth


def _may_hold_surrogate(text: str) -> bool:
    """Told quickly of the many texts that cannot: a search for characters would be the slowest part of parsing."""
    if "\\u" in text and _SURROGATE_ESCAPE.search(text):
        return True
    return not (text.isascii() or _is_unicode(text))


def _is_unicode(value: Any) -> bool:
    """Whether all strings can be written as UTF-8. A lone surrogate cannot: it would fail far from here, in a request."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _escape(_: re.Match[str]) -> str:
    return "\\u003c"
