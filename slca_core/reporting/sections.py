"""A table of a report that is not the main one: text in cells, with what must be said beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Section:
    """`rows` are lines of cells under `head`, the first cell the line's name; `notes` are sentences below."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
