"""Curation as one call (App. B): read, filter, decompose, split; three parquet files, a quarantine and a manifest come out.

The paper's funnel is 119,279 raw -> 79,279 relevant -> 78,241 valid -> 4,000 test + 42,423 SFT + 31,818 RL; the manifest has the
same stages. Samples are spooled to disk between the two passes, so that memory holds a short key of each and never all of them.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, astuple, dataclass, field
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import Any, TextIO

import pyarrow.parquet as pq

from slca_core.conversation.dialogue import Dialogue, Sample
from slca_core.curation.decomposition import decompose
from slca_core.curation.filters import INTENDED, FilterReason, filter_reason
from slca_core.curation.fitness import Fitness
from slca_core.curation.intake import Intake
from slca_core.curation.output import (
    QUARANTINE_FILE,
    ROWS_PER_BATCH,
    Manifest,
    RowBuffer,
    most_common,
    open_quarantine,
    put_away,
    require_readable,
    sha256,
    write_manifest,
)
from slca_core.curation.readers import Parsed
from slca_core.curation.rows import SCHEMA, row_of, sample_of
from slca_core.curation.splits import Split, SplitItem, deal
from slca_core.curation.synthetic.faults import Sloppiness, spoil
from slca_core.errors import DataError

__all__ = ["Manifest", "curate"]

SPLIT_FILES = {Split.SFT: "sft.parquet", Split.RL: "rl.parquet", Split.TEST: "test.parquet"}
MIN_SAMPLES = 3


@dataclass(slots=True)
class _Tally(Intake):
    dialogues: int = 0
    filtered: Counter[str] = field(default_factory=Counter)
    seen: dict[str, _Seen] = field(default_factory=dict)
    disputed: dict[str, _Seen] = field(default_factory=dict)


@dataclass(slots=True)
class _Seen:
    """A record that gave samples, by its id: another one of that id is its repetition, or puts both in doubt."""

    content: str
    source_file: str
    position: int
    samples: int = 0


def curate(
    sources: Sequence[Path],
    out: Path,
    *,
    test_size: int,
    sft_fraction: float,
    decomposed_test_fraction: float = 0.25,
    max_prompt_chars: int | None = None,
    seed: int = 0,
    quarantine_limit: float = 0.05,
    sloppiness: Sloppiness | None = None,
    keep_invalid: bool = False,
) -> Manifest:
    """Turn the sources into `sft.parquet`, `rl.parquet` and `test.parquet` below `out`.

    Args:
        test_size: at most a fifth of the samples is held out.
        sft_fraction: share of the samples after the test set (42,423 / 74,241 in the paper).
        max_prompt_chars: characters of the tools and the prompt as JSON; longer samples are left out.
        quarantine_limit: largest share of unreadable records; filtered ones do not count.
        sloppiness: faults to plant in the demonstrations of the two training splits.
        keep_invalid: keep records with a tool that no validator can be made of or a gold call that its schema refuses.

    Raises:
        DataError: a source cannot be read, too many records are broken, or fewer than three samples remain.
    """
    out.mkdir(parents=True, exist_ok=True)
    tally, items = _Tally(), []
    with tempfile.TemporaryDirectory(dir=out, prefix=".spool-") as folder:
        spool = Path(folder) / "samples.parquet"
        with pq.ParquetWriter(spool, SCHEMA, compression="zstd") as writer, open_quarantine(out) as quarantine:
            buffer = RowBuffer(writer)
            for sample in _samples(sources, tally, quarantine, max_prompt_chars, keep_invalid):
                items.append(SplitItem.of(sample))
                buffer.add(row_of(sample))
            buffer.flush()
            writer.close()
            items, rows = _without_disputed(spool, items, tally, quarantine)
        _check(tally, len(items), quarantine_limit, out)
        splits = deal(
            items,
            test_size=test_size,
            decomposed_test_fraction=decomposed_test_fraction,
            sft_fraction=sft_fraction,
            seed=seed,
        )
        split_of_row = [splits[item] if item is not None else None for item in rows]
        planted = _write_splits(spool, out, split_of_row, sloppiness or Sloppiness(), seed)
    return _write_manifest(out, seed, tally, items, splits, planted)


def _samples(
    sources: Sequence[Path], tally: _Tally, quarantine: TextIO, max_prompt_chars: int | None, keep_invalid: bool
) -> Iterator[Sample]:
    fitness = Fitness()
    for parsed in tally.take(sources, quarantine):
        for sample in _kept(parsed, tally, quarantine, fitness, keep_invalid):
            if max_prompt_chars is not None and _prompt_chars(sample) > max_prompt_chars:
                tally.filtered[str(FilterReason.PROMPT_TOO_LONG)] += 1
                continue
            tally.seen[_identity(parsed.value)].samples += 1
            yield sample
    tally.dialogues = sum(seen.samples > 0 for seen in tally.seen.values())


def _kept(parsed: Parsed, tally: _Tally, quarantine: TextIO, fitness: Fitness, keep_invalid: bool) -> tuple[Sample, ...]:
    """The record's samples, or none with the reason counted; defects are quarantined, intentions only counted."""
    value, detail = parsed.value, "filtered"
    reason = filter_reason(value)
    if reason is None and (finding := fitness.finding(value)):
        tally.findings[finding[0]] += 1
        reason, detail = (None, "") if keep_invalid else finding
    if reason is None:
        reason, detail = _known_id(parsed, tally)
    if reason is None:
        return decompose(value) if isinstance(value, Dialogue) else (value,)
    tally.filtered[str(reason)] += 1
    if reason not in INTENDED:
        put_away(quarantine, reason, detail, parsed, _as_text(value))
    return ()


def _as_text(value: Dialogue | Sample) -> str:
    fields = {item.name: getattr(value, item.name) for item in dataclass_fields(value)}
    return json.dumps(fields, default=asdict)


def _identity(value: Dialogue | Sample) -> str:
    return value.dialogue_id if isinstance(value, Dialogue) else value.sample_id


def _known_id(parsed: Parsed, tally: _Tally) -> tuple[FilterReason | None, str]:
    """Whether a record of this id was there before: its like, or another one, in which case neither can be told to be right."""
    name = _identity(parsed.value)
    before = tally.seen.get(name) or tally.disputed.get(name)
    if before is None:
        tally.seen[name] = _Seen(parsed.content, parsed.source_file, parsed.position)
        return None, ""
    if before.content == parsed.content and name in tally.seen:
        return FilterReason.DUPLICATE, ""
    if name in tally.seen:
        tally.disputed[name] = tally.seen.pop(name)
    return FilterReason.CONFLICTING_ID, f"{name!r} is also the id of record {before.position} of {before.source_file}"


def _without_disputed(
    spool: Path, items: list[SplitItem], tally: _Tally, quarantine: TextIO
) -> tuple[list[SplitItem], list[str | None]]:
    """The items to deal and the sample id of each spooled row, None for those whose id another record has too."""
    if not tally.disputed:
        return items, [item.sample_id for item in items]
    tally.filtered[str(FilterReason.CONFLICTING_ID)] += len(tally.disputed)
    out = [item.dialogue_id in tally.disputed or item.sample_id in tally.disputed for item in items]
    told = set[str]()
    for row, is_out in zip(_spooled(spool), out, strict=True):
        name = row["dialogue_id"] if row["dialogue_id"] in tally.disputed else row["sample_id"]
        if is_out and name not in told:
            told.add(name)
            detail = f"{name!r} is also the id of another record"
            put_away(quarantine, FilterReason.CONFLICTING_ID, detail, tally.disputed[name], json.dumps(row))
    kept = [item for item, is_out in zip(items, out, strict=True) if not is_out]
    return kept, [None if is_out else item.sample_id for item, is_out in zip(items, out, strict=True)]


def _prompt_chars(sample: Sample) -> int:
    row = row_of(sample)
    return len(row["tools"]) + len(row["prompt"])


def _check(tally: _Tally, sample_count: int, quarantine_limit: float, out: Path) -> None:
    require_readable(tally.rejected, tally.read, quarantine_limit, out)
    if sample_count < MIN_SAMPLES:
        raise DataError(
            f"Expected at least {MIN_SAMPLES} samples, one for each split, found {sample_count} in {tally.read} records "
            f"(left out: {most_common(tally.rejected + tally.filtered) or 'none'}). Add records with tool calls to the sources."
        )


def _spooled(spool: Path) -> Iterator[dict[str, Any]]:
    with pq.ParquetFile(spool) as table:
        for batch in table.iter_batches(batch_size=ROWS_PER_BATCH):
            yield from batch.to_pylist()


def _write_splits(spool: Path, out: Path, split_of_row: Sequence[Split | None], sloppiness: Sloppiness, seed: int) -> Counter[str]:
    """Write the three files; what was planted in the demonstrations of the training splits is counted."""
    planted: Counter[str] = Counter()
    spoilt = (Split.SFT, Split.RL) if any(astuple(sloppiness)) else ()
    with ExitStack() as stack:
        writers = {split: pq.ParquetWriter(out / name, SCHEMA, compression="zstd") for split, name in SPLIT_FILES.items()}
        buffers = {split: RowBuffer(stack.enter_context(writer)) for split, writer in writers.items()}
        for row, split in zip(_spooled(spool), split_of_row, strict=True):
            if split in spoilt:
                sample, faults = spoil(sample_of(row), sloppiness, seed)
                row = row_of(sample)
                planted.update(faults)
            if split in buffers:
                buffers[split].add(row)
        for buffer in buffers.values():
            buffer.flush()
    return planted


def _write_manifest(
    out: Path, seed: int, tally: _Tally, items: Sequence[SplitItem], splits: dict[str, Split], planted: Counter[str]
) -> Manifest:
    counts = {str(split): {"single-turn": 0, "decomposed": 0} for split in Split}
    for item in items:
        counts[splits[item.sample_id]][item.subset] += 1
    manifest = Manifest(
        seed=seed,
        read=tally.read,
        parsed=tally.parsed,
        rejected=dict(sorted(tally.rejected.items())),
        filtered=dict(sorted(tally.filtered.items())),
        dialogues=tally.dialogues,
        samples=len(items),
        splits=counts,
        planted=dict(sorted(planted.items())),
        findings=dict(sorted(tally.findings.items())),
        repaired=dict(sorted(tally.repaired.items())),
        files={name: sha256(out / name) for name in (*SPLIT_FILES.values(), QUARANTINE_FILE)},
    )
    return write_manifest(out, manifest)
