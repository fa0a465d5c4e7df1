"""Tables of a report as values: what stands in each cell, the MLflow runs it comes from, the remarks that hold for it.

`markdown`, `latex` and the page's template write the same value, each in its own way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_lowercase

from slca_core.services.process import LOOPBACK

MLFLOW = f"http://{LOOPBACK}:5000"  # Where `slca ui` serves it.
LINKS = f"A figure is linked to the MLflow run of its first seed, small numbers beside it to those of the other seeds ({MLFLOW})."


def run_url(experiment_id: str, run_id: str) -> str:
    """The page of an MLflow run."""
    return f"{MLFLOW}/#/experiments/{experiment_id}/runs/{run_id}"


@dataclass(frozen=True, slots=True)
class Run:
    """The MLflow run of one seed."""

    seed: int
    run_id: str
    url: str

    @property
    def title(self) -> str:
        return f"seed {self.seed}, run {self.run_id}"


@dataclass(frozen=True, slots=True)
class Entry:
    """A cell that is more than a word.

    Attributes:
        text: the figure or word itself.
        small: what belongs beside it: a spread, an interval.
        runs: where it comes from, a run a seed.
        remarks: sentences that hold for this cell; its section shows each once, as a footnote.
        published: whether it is the paper's.
    """

    text: str
    small: str = ""
    runs: tuple[Run, ...] = ()
    remarks: tuple[str, ...] = ()
    published: bool = False


Cell = str | Entry


def as_entry(cell: Cell) -> Entry:
    """A word is an entry with nothing beside it."""
    return Entry(cell) if isinstance(cell, str) else cell


@dataclass(frozen=True, slots=True)
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

    @property
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
