"""`slca data inspect`: what would be trained on, record by record, before anyone pays for it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from slca_core.curation.inspection import Inspected

app = typer.Typer(no_args_is_help=True, help="Look at data before it is curated.")
_WIDTH = 72


@app.command()
def inspect(
    source: Annotated[Path, typer.Argument(help="a data file or folder, as in data.source")],
    limit: Annotated[int | None, typer.Option(min=1, help="records to look at; all by default")] = None,
    format: Annotated[
        Literal["text", "json"], typer.Option(help="json has everything, one object a line; text is shortened")
    ] = "text",
) -> None:
    """Print one line a record: what the reader made of it, or why it is left out."""
    from slca_core.curation.inspection import inspect as inspect_source

    read = left_out = 0
    try:
        for one in inspect_source(source, limit):
            read, left_out = read + 1, left_out + (one.left_out is not None)
            print(json.dumps(one.to_json()) if format == "json" else as_line(one))
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the lines has seen enough; what is still buffered has no reader.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    print(f"{read:,} records: {read - left_out:,} taken, {left_out:,} left out", file=sys.stderr)


def as_line(one: Inspected) -> str:
    """The record in one line of plain text."""
    from slca_core.curation.inspection import printable

    return "  ".join(printable(part) for part in _parts(one))


def _parts(one: Inspected) -> Iterator[str]:
    yield f"{one.file}:{one.position}"
    if one.left_out is not None:
        yield f"LEFT OUT ({one.left_out})"
    if not one.format:
        return
    yield f"{one.format} {one.id}"
    if one.system:
        yield f"system {_short(one.system)}"
    yield "question " + " / ".join(map(_short, one.question))
    yield f"tools {_short(', '.join(tool['function']['name'] for tool in one.tools), quoted=False)}"
    steps = (" + ".join(f"{call.name}({json.dumps(call.arguments, ensure_ascii=False)})" for call in step) for step in one.gold)
    yield f"gold {_short('; '.join(steps), quoted=False)}"
    if one.answers:
        yield "answers " + ", ".join(map(_short, one.answers))
    if one.final:
        yield f"final {_short(one.final)}"


def _short(text: str, *, quoted: bool = True) -> str:
    line = " ".join(text.split())
    line = line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..."
    return f'"{line}"' if quoted else line
