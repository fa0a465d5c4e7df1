"""Progress bars: one a stage, with what is being done, how far it is and how long it will take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tasks.progress_artifact import mirrored

console = Console(stderr=True)


@contextmanager
def bar(title: str, total: int | None = None, done: int = 0) -> Iterator[Callable[..., None]]:
    """A bar for one stage. The yielded function takes `completed=` (absolute) or `advance=`, and `note=` for words beside it."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=console, refresh_per_second=2) as progress, mirrored(title) as mirror:
        task = progress.add_task(title, total=total, completed=done, note="")

        def update(**changes) -> None:
            progress.update(task, **changes)
            mirror(progress.tasks[0].percentage, progress.tasks[0].fields["note"])

        yield update


def say(text: str) -> None:
    """One line for the person at the keyboard."""
    console.print(text, highlight=False)
