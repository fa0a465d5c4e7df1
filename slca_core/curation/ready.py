"""Splits that somebody has made, taken as they are: rows, order and membership do not change.

What would keep a record out of a raw source is counted here and kept; only rows that nobody can read are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO

import pyarrow.parquet as pq

from slca_core.conversation.dialogue import Dialogue, Sample
from slca_core.curation.decomposition import last_turn
from slca_core.curation.filters import FilterReason, filter_reason
from slca_core.curation.fitness import Fitness
from slca_core.curation.intake import Intake
from slca_core.curation.output import (
    QUARANTINE_FILE,
    Manifest,
    RowBuffer,
    open_quarantine,
    require_readable,
    sha256,
    write_manifest,
)
from slca_core.curation.readers import Parsed
from slca_core.curation.rows import SCHEMA, row_of
from slca_core.curation.splits import SplitItem
from slca_core.errors import DataError

LEAK = "question of a training row that the test split asks too"


@dataclass(slots=True)
class _Counts(Intake):
    rows: dict[str, dict[str, int]] = field(default_factory=dict)
    questions: dict[str, Counter[str]] = field(default_factory=dict)


def take_splits(splits: Mapping[str, Sequence[Path]], out: Path, *, quarantine_limit: float = 0.05) -> Manifest:
    """Write `<split>.parquet` for each split, a row a record, with a manifest of what was found in them.

    Raises:
        DataError: a source cannot be read, too many rows cannot be read, or a split has no row.
    """
    out.mkdir(parents=True, exist_ok=True)
    counts, fitness = _Counts(), Fitness()
    with open_quarantine(out) as quarantine:
        for split, sources in splits.items():
            _take(split, sources, out, counts, fitness, quarantine)
    require_readable(counts.rejected, counts.read, quarantine_limit, out)
    if empty := [split for split, found in counts.rows.items() if not sum(found.values())]:
        raise DataError(f"Expected rows in each ready split, found none in {', '.join(empty)}. Check data.splits.")
    asked = counts.questions["test"]
    trained_on = [found for split, found in counts.questions.items() if split != "test"]
    counts.findings[LEAK] += sum(count for found in trained_on for question, count in found.items() if question in asked)
    rows = sum(sum(found.values()) for found in counts.rows.values())
    manifest = Manifest(
        seed=0,
        read=counts.read,
        parsed=counts.parsed,
        rejected=dict(sorted(counts.rejected.items())),
        filtered={},
        dialogues=rows,
        samples=rows,
        splits=counts.rows,
        planted={},
        findings=dict(sorted((+counts.findings).items())),
        repaired=dict(sorted(counts.repaired.items())),
        files={name: sha256(out / name) for name in (*(f"{split}.parquet" for split in splits), QUARANTINE_FILE)},
    )
    return write_manifest(out, manifest)


def _take(split: str, sources: Sequence[Path], out: Path, counts: _Counts, fitness: Fitness, quarantine: TextIO) -> None:
    seen = set[str]()
    questions = counts.questions[split] = Counter()
    rows = counts.rows[split] = {"single-turn": 0, "decomposed": 0}
    with pq.ParquetWriter(out / f"{split}.parquet", SCHEMA, compression="zstd") as writer:
        buffer = RowBuffer(writer)
        for parsed in counts.take(sources, quarantine):
            counts.findings.update(_findings(parsed, fitness, seen))
            sample = _sample(parsed.value, f"{split}-{sum(rows.values()) + 1:06d}")
            rows[sample.subset] += 1
            questions[SplitItem.of(sample).question] += 1
            buffer.add(row_of(sample))
        buffer.flush()


def _findings(parsed: Parsed, fitness: Fitness, seen: set[str]) -> list[str]:
    found = [str(reason)] if (reason := filter_reason(parsed.value)) else []
    if reason is None and (finding := fitness.finding(parsed.value)):
        found.append(str(finding[0]))
    if parsed.content in seen:
        found.append(str(FilterReason.DUPLICATE))
    seen.add(parsed.content)
    return found


def _sample(value: Dialogue | Sample, name: str) -> Sample:
    """The row as one sample, under a name of its own: rows may repeat each other. A dialogue asks its last question."""
    sample = last_turn(value) if isinstance(value, Dialogue) else value
    return replace(sample, sample_id=f"{name}#{sample.turn}")
