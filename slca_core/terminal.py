"""The terminal, where the words of users, data and models mean nothing but themselves: colour is given apart from them."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text


def terminal(*, stderr: bool = False) -> Console:
    """A console that reads no markup and no emoji codes in what it prints, tables and captions included."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def headed(head: str, text: str, style: str = "bold") -> Text:
    """A line that begins with a word in another style."""
    return Text.assemble((head, style), text)
