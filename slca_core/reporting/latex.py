"""Sections as LaTeX: a `table` environment each, which needs booktabs, graphicx and hyperref, and a document of all."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Sequence
from urllib.parse import quote

from slca_core.reporting.sections import LINKS, Cell, Section, as_entry

_HEAD_WIDTH = 16  # Characters at which a column's title is broken.

_PREAMBLE = r"""\documentclass[10pt]{article}
\usepackage[utf8]{inputenc}
\usepackage[T1]{fontenc}
\usepackage{textcomp}
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
\usepackage[a4paper,landscape,margin=15mm]{geometry}
\usepackage{booktabs}
\usepackage{graphicx}
\usepackage[colorlinks,urlcolor=blue]{hyperref}
"""

_WRITTEN = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    **{letter: "\\" + letter for letter in "&%$#_"},
    # A line that begins with one of these would give it to the \\\\ before.
    **{letter: f"{{{letter}}}" for letter in "[]*"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    "–": "--",
    "—": "---",
    "−": "$-$",
    "…": r"\ldots{}",
    "‘": "`",
    "’": "'",
    "“": "``",
    "”": "''",
    "→": r"$\rightarrow$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "≈": r"$\approx$",
    "λ": r"$\lambda$",
    "μ": r"$\mu$",
    "π": r"$\pi$",
    "σ": r"$\sigma$",
    "τ": r"$\tau$",
}


def escaped(text: str) -> str:
    """Text that means nothing but itself and that pdflatex can set: letters it has none of lose their accents, or are a "?"."""
    return "".join(_WRITTEN.get(letter) or _settable(letter) for letter in " ".join(text.split()))


def _settable(letter: str) -> str:
    if "\xa1" <= letter <= "\xff" or " " <= letter <= "\x7e":
        return letter
    plain = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return "".join(_WRITTEN.get(part, part) for part in plain if part.isprintable()) or "?"


def to_latex(section: Section) -> str:
    """A `table` environment: caption, table no wider than the line, footnotes, notes and terms."""
    head, *rows = ([_cell(section, cell, head=at == 0) for cell in line] for at, line in enumerate((section.head, *section.rows)))
    below = [
        *(rf"\textsuperscript{{{mark}}} {escaped(sentence)}" for mark, sentence in section.footnotes.items()),
        *(escaped(note) for note in section.notes),
        *(rf"\emph{{{escaped(term)}}}: {escaped(meaning)}." for term, meaning in section.terms.items()),
    ]
    lines = [
        r"\begin{table}[htbp]",
        r"\centering",
        rf"\caption{{{escaped(section.title)}}}",
        rf"\label{{tab:{re.sub('[^a-z0-9]+', '-', section.title.lower()).strip('-')}}}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
        r"\toprule",
        _line(head),
        r"\midrule",
        *(_line(row) for row in rows),
        r"\bottomrule",
        r"\end{tabular}}",
        *([r"\par\smallskip\footnotesize\raggedright", " \\par\n".join(below), r"\par"] if below else []),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def to_document(title: str, sections: Sequence[Section]) -> str:
    """A document of its own, for pdflatex."""
    tables = "\n".join(to_latex(section) for section in sections)
    start = f"\\begin{{document}}\n\\section*{{{escaped(title)}}}\n{escaped(LINKS)}\n\n"
    return f"{_PREAMBLE}{start}{tables}\n\\end{{document}}\n"


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _cell(section: Section, cell: Cell, *, head: bool) -> str:
    entry = as_entry(cell)
    text = _stacked(entry.text) if head else escaped(entry.text)
    if entry.published:
        text = rf"\textit{{{text}}}"
    first, others = entry.runs[:1], entry.runs[1:]
    if first:
        text = _link(first[0].url, text)
    if marks := section.marks(entry):
        text += rf"\textsuperscript{{{','.join(marks)}}}"
    seeds = f"({', '.join(_link(run.url, escaped(run.mark)) for run in others)})" if others else ""
    beside = " ".join(part for part in (escaped(entry.small), seeds) if part)
    return rf"{text} {{\scriptsize {beside}}}" if beside else text


def _stacked(title: str) -> str:
    lines = [escaped(line) for line in textwrap.wrap(title, _HEAD_WIDTH, break_long_words=False)]
    return r"\shortstack[r]{" + r"\\".join(lines) + "}" if len(lines) > 1 else escaped(title)


def _link(url: str, text: str) -> str:
    # Inside of another macro's argument hyperref takes these two only escaped.
    address = quote(url, safe="/:#").replace("%", r"\%").replace("#", r"\#")
    return rf"\href{{{address}}}{{{text}}}"
