"""`slca verify` in the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.table import Table
from rich.text import Text

from slca_core.terminal import terminal
from tasks.verify import Verified

console = terminal()
_COLOURS = {"as recorded": "green", "partly": "yellow", "differs": "red"}
_PARTLY = (
    "partly: recorded before each file's digest was kept; the main output is as recorded. --stamp adds the digests of the files "
    "that are there now."
)


def show(verified: Iterable[Verified]) -> None:
    """A row a step, then what is not as recorded; SystemExit 1 if anything is not."""
    found = list(verified)
    if not found:
        console.print("No step is finished here: there is nothing to verify.")
        return
    table = Table("step", "output", "files", "MB", box=box.SIMPLE_HEAD)
    for column in table.columns[2:]:
        column.justify = "right"
    for one in found:
        counts = (f"{one.files:,}", f"{one.bytes / 1e6:,.1f}") if one.files else ()
        table.add_row(one.name, Text(one.state, _COLOURS[one.state]), *counts)
    console.print(table)
    if any(one.state == "partly" for one in found):
        console.print(_PARTLY)
    faults = [f"{one.name}: {fault}" for one in found for fault in one.faults]
    for fault in faults:
        console.print(fault, soft_wrap=True)
    if faults:
        console.print(
            "Put back what was recorded, or delete a step's folder below artifacts/: the next run then makes that step again.",
            soft_wrap=True,
        )
        raise SystemExit(1)
