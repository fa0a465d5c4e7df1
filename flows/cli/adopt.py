"""`slca adopt` in the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.table import Table
from rich.text import Text

from slca_core.terminal import terminal
from tasks.adopt import Adopted

console = terminal()


def show(adopted: Iterable[Adopted]) -> None:
    """A row a step that was to run; SystemExit 1 if one has no record to adopt."""
    table = Table("step", "", "changed since it was made, or why there is nothing to adopt", box=box.SIMPLE_HEAD)
    table.columns[2].overflow = "fold"
    found = []
    for one in adopted:
        found.append(one)
        table.add_row(one.name, Text("adopted", "green") if one.record else Text("to run", "yellow"), one.note)
    if not found:
        console.print("Nothing of it would run again: there is nothing to adopt.")
        return
    console.print(table)
    if not all(one.record for one in found):
        raise SystemExit(1)
