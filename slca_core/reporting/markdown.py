"""Sections as Markdown (GitHub's)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from slca_core.reporting.sections import Cell, Run, Section, as_entry

# A single underscore inside a word is no emphasis.
_SPECIAL = re.compile(r"[\\`*\[\]|~$]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)|<")


# What makes a heading, a quotation, a list or a rule of a line that begins with it.
_FIRST = re.compile(r"^(?=#{1,6}(?:\s|$)|>|[-+](?:\s|$)|[-=]{2,}$)|^(?P<number>\d{1,9})(?=[.)](?:\s|$))")


def escaped(text: str) -> str:
    """Text that means nothing but itself: it opens no tag, link, emphasis, cell, heading or list."""
    words = _SPECIAL.sub(lambda found: {"<": "&lt;", "&": "&amp;"}.get(found[0], "\\" + found[0]), " ".join(text.split()))
    return _FIRST.sub(lambda found: f"{found['number'] or ''}\\", words, count=1)


def bullets(lines: Sequence[str]) -> str:
    """A list of sentences."""
    return "\n".join(f"- {escaped(line)}" for line in lines if line)


def to_markdown(section: Section) -> str:
    """Heading, table, footnotes, notes and terms, and the addresses of the runs, which the table names only."""
    footnotes = [f"- \\[{mark}\\] {escaped(sentence)}" for mark, sentence in section.footnotes.items()]
    terms = [f"- **{escaped(term)}**: {escaped(meaning)}" for term, meaning in section.terms.items()]
    runs = {_name(run): f"[{_name(run)}]: {run.url}" for row in section.rows for cell in row for run in as_entry(cell).runs}
    below = ("\n".join(footnotes), bullets(section.notes), "\n".join(terms), "\n".join(runs.values()))
    return "\n\n".join(part for part in (f"## {escaped(section.title)}", table(section), *below) if part)


def table(section: Section) -> str:
    """The table alone: first column to the left, the others to the right."""
    rule = ["---", *["---:"] * (len(section.head) - 1)]
    lines = [[_cell(section, cell) for cell in line] for line in (section.head, *section.rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (lines[0], rule, *lines[1:]))


def _cell(section: Section, cell: Cell) -> str:
    entry = as_entry(cell)
    first, others = entry.runs[:1], entry.runs[1:]
    text = escaped(entry.text)
    parts = [f"[{text}][{_name(first[0])}]" if first else text, escaped(entry.small)]
    if marks := section.marks(entry):
        parts.append(f"\\[{', '.join(marks)}\\]")
    if others:
        parts.append(f"({', '.join(f'[{escaped(run.mark)}][{_name(run)}]' for run in others)})")
    return " ".join(part for part in parts if part)


def _name(run: Run) -> str:
    return run.run_id[:8]
