"""Tables of a report as values: what stands in each cell, the MLflow runs it comes from, the remarks that hold for it.

`markdown`, `latex` and the page's template write the same value, each in its own way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from string import ascii_lowercase

from slca_core.processes.supervise import LOOPBACK

MLFLOW = f"http://{LOOPBACK}:5000"  # Where `slca ui` serves it.
LINKS = (
    "A figure is linked to the MLflow run of its first seed, small numbers beside it to those of the other seeds, and beside a "
    f"difference to the other condition's ({MLFLOW})."
)


def run_url(experiment_id: str, run_id: str) -> str:
    """The page of an MLflow run."""
    return f"{MLFLOW}/#/experiments/{experiment_id}/runs/{run_id}"


@dataclass(frozen=True, slots=True)
class Run:
    """The MLflow run of one seed.

    Attributes:
        of: the condition it is of, where a figure has those of two.
    """

    seed: int
    run_id: str
    url: str
    of: str = ""

    @property
    def title(self) -> str:
        return f"{f'{self.of}, ' if self.of else ''}seed {self.seed}, run {self.run_id}"

    @property
    def mark(self) -> str:
        """What stands for it beside a figure."""
        return f"{self.of} {self.seed}".lstrip()


@dataclass(frozen=True, slots=True)
class Entry:
    """A cell that is more than a word.

    Attributes:
        text: the figure or word itself.
        small: what belongs beside it: a spread, an interval.
        runs: where it comes from, a run a seed; those of another condition follow, if it is a difference.
        remarks: sentences that hold for this cell; its section shows each once, as a footnote.
        published: whether it is the paper's.
    """

    text: str
    small: str = ""
    runs: tuple[Run, ...] = ()
    remarks: tuple[str, ...] = ()
    published: bool = False

    @property
    def read(self) -> str:
        """What is read in the cell."""
        return f"{self.text} {self.small}".rstrip()


Cell = str | Entry


def as_entry(cell: Cell) -> Entry:
    """A word is an entry with nothing beside it."""
    return Entry(cell) if isinstance(cell, str) else cell


@dataclass(frozen=True)  # Without slots, which leave no room for what is computed once.
class Section:
    """One table.

    Attributes:
        rows: lines of cells under `head`; the first cell of each names the line.
        notes: sentences below the table.
        terms: word -> what it means here.
    """

    title: str
    head: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    terms: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def footnotes(self) -> dict[str, str]:
        """Mark -> sentence: the remarks of all cells, each once, in reading order."""
        remarks = dict.fromkeys(remark for entry in self._entries() for remark in entry.remarks)
        return {ascii_lowercase[at % 26] * (at // 26 + 1): remark for at, remark in enumerate(remarks)}

    def marks(self, cell: Cell) -> list[str]:
        """The footnotes that hold for a cell."""
        remarks = as_entry(cell).remarks
        return [mark for mark, sentence in self.footnotes.items() if sentence in remarks] if remarks else []

    def _entries(self) -> Iterator[Entry]:
        for line in (self.head, *self.rows):
            yield from (as_entry(cell) for cell in line)
