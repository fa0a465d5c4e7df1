"""Blocks between tags, found in time linear in the text.

`<a>.*?</a>` is not: each tag that nothing closes is looked for to the text's end, and what others wrote may hold thousands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple


class Block(NamedTuple):
    """What stands between two tags, and the tags as they were found."""

    opening: re.Match[str]
    body: str
    closing: re.Match[str]


def blocks(text: str, opening: re.Pattern[str], closing: re.Pattern[str]) -> Iterator[Block]:
    """Each opening tag with the next closing one; once none follows, none follows any later opening."""
    position = 0
    while (opened := opening.search(text, position)) and (closed := closing.search(text, opened.end())):
        yield Block(opened, text[opened.end() : closed.start()], closed)
        position = closed.end()


def without_blocks(text: str, opening: re.Pattern[str], closing: re.Pattern[str]) -> str:
    """The text around the blocks."""
    kept, position = [], 0
    for block in blocks(text, opening, closing):
        kept.append(text[position : block.opening.start()])
        position = block.closing.end()
    return "".join(kept) + text[position:]


def tag_pair(name: str, flags: re.RegexFlag = re.NOFLAG) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The opening and the closing tag of `name`."""
    return re.compile(f"<{name}>", flags), re.compile(f"</{name}>", flags)
