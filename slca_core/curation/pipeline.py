"""Curation as one call (App. B): read, filter, decompose, split; three parquet files, a quarantine and a manifest come out.

The paper's funnel is 119,279 raw -> 79,279 relevant -> 78,241 valid -> 4,000 test + 42,423 SFT + 31,818 RL; the manifest has the
same stages. Samples are spooled to disk between the two passes, so that memory holds a short key of each and never all of them.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from slca_core.curation.decomposition import decompose
from slca_core.curation.filters import INTENDED, FilterReason, filter_reason
from slca_core.curation.readers import Parsed, Rejected, read_source
from slca_core.curation.rows import SCHEMA, read_split, row_of, sample_of
from slca_core.curation.sloppiness import Sloppiness, spoil
from slca_core.curation.splits import Split, SplitItem, deal
from slca_core.dialogue import Sample
from slca_core.errors import DataError

__all__ = ["Manifest", "curate", "read_split"]

SPLIT_FILES = {Split.SFT: "sft.parquet", Split.RL: "rl.parquet", Split.TEST: "test.parquet"}
QUARANTINE_FILE = "quarantine.jsonl"
MANIFEST_FILE = "manifest.json"
MIN_SAMPLES = 3
_ROWS_PER_BATCH = 512


@dataclass(frozen=True, slots=True)
class Manifest:
    """What came in, what was left out and why, and what was written.

    Attributes:
        read, parsed: records.
        rejected, filtered: records (or, for prompts that are too long, samples) per reason.
        dialogues: records that gave at least one sample.
        splits: split -> subset -> samples; "left out" holds further turns of test dialogues.
        planted: training demonstrations per fault that was planted in them (`curation.sloppiness`).
        files: name -> sha256.
    """

    seed: int
    read: int
    parsed: int
    rejected: dict[str, int]
    filtered: dict[str, int]
    dialogues: int
    samples: int
    splits: dict[str, dict[str, int]]
    planted: dict[str, int]
    files: dict[str, str]


@dataclass(slots=True)
class _Tally:
    """Counts that grow while records stream by."""

    read: int = 0
    parsed: int = 0
    dialogues: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    filtered: Counter[str] = field(default_factory=Counter)
    seen: set[str] = field(default_factory=set)


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
) -> Manifest:
    """Turn the sources into `sft.parquet`, `rl.parquet` and `test.parquet` below `out`.

    Args:
        test_size: at most a fifth of the samples is held out.
        sft_fraction: share of the samples after the test set (42,423 / 74,241 in the paper).
        max_prompt_chars: characters of the tools and the prompt as JSON; longer samples are left out.
        quarantine_limit: largest share of unreadable records; filtered ones do not count.
        sloppiness: faults to plant in the demonstrations of the two training splits.

    Raises:
        DataError: a source cannot be read, too many records are broken, or fewer than three samples remain.
    """
    out.mkdir(parents=True, exist_ok=True)
    tally, items = _Tally(), []
    with tempfile.TemporaryDirectory(dir=out, prefix=".spool-") as folder:
        spool = Path(folder) / "samples.parquet"
        with pq.ParquetWriter(spool, SCHEMA, compression="zstd") as writer, _open_quarantine(out) as quarantine:
            buffer = _RowBuffer(writer)
            for sample in _samples(sources, tally, quarantine, max_prompt_chars):
                items.append(SplitItem.of(sample))
                buffer.add(row_of(sample))
            buffer.flush()
        _check(tally, len(items), quarantine_limit, out)
        splits = deal(
            items,
            test_size=test_size,
            decomposed_test_fraction=decomposed_test_fraction,
            sft_fraction=sft_fraction,
            seed=seed,
        )
        planted = _write_splits(spool, out, [splits[item.sample_id] for item in items], sloppiness or Sloppiness(), seed)
    return _write_manifest(out, seed, tally, items, splits, planted)


def _open_quarantine(out: Path) -> TextIO:
    return (out / QUARANTINE_FILE).open("w", encoding="utf-8")


def _samples(sources: Sequence[Path], tally: _Tally, quarantine: TextIO, max_prompt_chars: int | None) -> Iterator[Sample]:
    for source in sources:
        for outcome in read_source(source):
            tally.read += 1
            if isinstance(outcome, Rejected):
                tally.rejected[str(outcome.reason)] += 1
                _quarantine(quarantine, outcome.reason, outcome.detail, outcome, outcome.record_text)
                continue
            tally.parsed += 1
            kept = 0
            for sample in _kept(outcome, tally, quarantine):
                if max_prompt_chars is not None and _prompt_chars(sample) > max_prompt_chars:
                    tally.filtered[str(FilterReason.PROMPT_TOO_LONG)] += 1
                    continue
                kept += 1
                yield sample
            tally.dialogues += kept > 0


def _kept(parsed: Parsed, tally: _Tally, quarantine: TextIO) -> tuple[Sample, ...]:
    """The record's samples, or none with the reason counted; defects are quarantined, intentions only counted."""
    value = parsed.value
    samples: tuple[Sample, ...]
    if isinstance(value, Sample):
        reason, samples = _gold_reason(value), (value,)
    else:
        reason = filter_reason(value)
        samples = decompose(value) if reason is None else ()
    if reason is None and any(sample.sample_id in tally.seen for sample in samples):
        reason = FilterReason.DUPLICATE
    if reason is None:
        tally.seen.update(sample.sample_id for sample in samples)
        return samples
    tally.filtered[str(reason)] += 1
    if reason not in INTENDED:
        _quarantine(quarantine, reason, "filtered", parsed, json.dumps(asdict(value)))
    return ()


def _gold_reason(sample: Sample) -> FilterReason | None:
    """The filters that apply to a row of gold calls."""
    offered = {tool["function"]["name"] for tool in sample.tools}
    if not sample.gold:
        return FilterReason.IRRELEVANT
    if not sample.question.strip():
        return FilterReason.EMPTY_QUESTION
    if len(offered) < len(sample.tools):
        return FilterReason.CONFLICTING_TOOLS
    return FilterReason.UNKNOWN_TOOL if any(call.name not in offered for step in sample.gold for call in step) else None


def _prompt_chars(sample: Sample) -> int:
    row = row_of(sample)
    return len(row["tools"]) + len(row["prompt"])


def _quarantine(quarantine: TextIO, reason: str, detail: str, where: Parsed | Rejected, record: str) -> None:
    entry = {"reason": reason, "detail": detail, "file": where.source_file, "position": where.position, "record": record}
    quarantine.write(json.dumps(entry) + "\n")


def _check(tally: _Tally, sample_count: int, quarantine_limit: float, out: Path) -> None:
    rejected = tally.rejected.total()
    if rejected > quarantine_limit * tally.read:
        raise DataError(
            f"Expected at most {quarantine_limit:.1%} unreadable records, found {rejected} of {tally.read}: "
            f"{_top(tally.rejected)}. They are listed in {out / QUARANTINE_FILE}; mend the source or raise the quarantine limit."
        )
    if sample_count < MIN_SAMPLES:
        raise DataError(
            f"Expected at least {MIN_SAMPLES} samples, one for each split, found {sample_count} in {tally.read} records "
            f"(left out: {_top(tally.rejected + tally.filtered) or 'none'}). Add records with tool calls to the sources."
        )


def _top(reasons: Counter[str]) -> str:
    return ", ".join(f"{reason} ({count})" for reason, count in reasons.most_common(3))


@dataclass(slots=True)
class _RowBuffer:
    """Collects rows into batches: a row group a row would make a parquet file of mostly headers."""

    writer: pq.ParquetWriter
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        if len(self.rows) >= _ROWS_PER_BATCH:
            self.flush()

    def flush(self) -> None:
        if self.rows:
            self.writer.write_table(pa.Table.from_pylist(self.rows, schema=SCHEMA))
            self.rows.clear()


def _write_splits(spool: Path, out: Path, split_of_row: Sequence[Split], sloppiness: Sloppiness, seed: int) -> Counter[str]:
    """Write the three files; what was planted in the demonstrations of the training splits is counted."""
    planted: Counter[str] = Counter()
    spoilt = (Split.SFT, Split.RL) if any(astuple(sloppiness)) else ()
    with ExitStack() as stack:
        writers = {split: pq.ParquetWriter(out / name, SCHEMA, compression="zstd") for split, name in SPLIT_FILES.items()}
        buffers = {split: _RowBuffer(stack.enter_context(writer)) for split, writer in writers.items()}
        table = stack.enter_context(pq.ParquetFile(spool))
        rows = (row for batch in table.iter_batches(batch_size=_ROWS_PER_BATCH) for row in batch.to_pylist())
        for row, split in zip(rows, split_of_row, strict=True):
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
        files={name: _sha256(out / name) for name in (*SPLIT_FILES.values(), QUARANTINE_FILE)},
    )
    (out / MANIFEST_FILE).write_text(json.dumps(asdict(manifest), indent=2) + "\n", encoding="utf-8")
    return manifest


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
