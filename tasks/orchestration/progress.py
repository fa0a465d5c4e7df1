"""Progress bars: one a running step, with what is being done, how far it is and how long it will take."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from slca_core.terminal import headed, terminal

console = terminal(stderr=True)


class _Display:
    """One live display for all bars: a terminal has room for one, and steps run side by side."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.bars = 0
        self.progress: Progress

    @contextmanager
    def shown(self, title: str, total: int | None, done: int) -> Iterator[tuple[Progress, Task]]:
        with self.lock:
            if not self.bars:
                self.progress = _progress()
                self.progress.start()
            self.bars += 1
            progress = self.progress
            task = progress.add_task(title, total=total, completed=done, note="")
        try:
            yield progress, progress.tasks[progress.task_ids.index(task)]
        finally:
            with self.lock:
                self.bars -= 1
                if not self.bars:
                    progress.stop()


_display = _Display()


def _progress() -> Progress:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
    )
    return Progress(*columns, console=console, refresh_per_second=2)


@contextmanager
def bar(title: str, total: int | None = None, done: int = 0) -> Iterator[Callable[..., None]]:
    """A bar for one step. The yielded function takes `completed=` (absolute) or `advance=`, and `note=` for words beside it."""
    # Here, since commands that show no bar need no Prefect, which settles where its state lies when it is imported.
    from tasks.orchestration.progress_artifact import mirrored

    with mirrored(title) as mirror, _display.shown(title, total, done) as (progress, task):

        def update(**changes) -> None:
            progress.update(task.id, **changes)
            mirror(task.percentage, task.fields["note"])

        yield update


def say(text: str, step: str = "") -> None:
    """One line for the person at the keyboard; the step it is about comes first."""
    console.print(headed(f"{step:<10}" if step else "", text))
