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
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from slca_core.curation.decomposition import decompose
from slca_core.curation.filters import INTENDED, FilterReason, filter_reason
from slca_core.curation.fitness import Fitness
from slca_core.curation.readers import Parsed, Rejected, read_source
from slca_core.curation.rows import SCHEMA, read_split, row_of, sample_of
from slca_core.curation.sloppiness import Sloppiness, spoil
from slca_core.curation.splits import Split, SplitItem, deal
from slca_core.dialogue import Dialogue, Sample
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
        findings: records that no rollout can use or whose gold call its schema refuses, whether they were left out or kept.
        repaired: tool schemas per form that was put into today's words (`curation.schema_repair`).
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
    findings: dict[str, int]
    repaired: dict[str, int]
    files: dict[str, str]


@dataclass(slots=True)
class _Tally:
    """Counts that grow while records stream by."""

    read: int = 0
    parsed: int = 0
    dialogues: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    filtered: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)
    repaired: Counter[str] = field(default_factory=Counter)
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
        with pq.ParquetWriter(spool, SCHEMA, compression="zstd") as writer, _open_quarantine(out) as quarantine:
            buffer = _RowBuffer(writer)
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


def _open_quarantine(out: Path) -> TextIO:
    return (out / QUARANTINE_FILE).open("w", encoding="utf-8")


def _samples(
    sources: Sequence[Path], tally: _Tally, quarantine: TextIO, max_prompt_chars: int | None, keep_invalid: bool
) -> Iterator[Sample]:
    fitness = Fitness()
    for outcome in (outcome for source in sources for outcome in read_source(source)):
        tally.read += 1
        if isinstance(outcome, Rejected):
            tally.rejected[str(outcome.reason)] += 1
            _quarantine(quarantine, outcome.reason, outcome.detail, outcome, outcome.record_text)
            continue
        tally.parsed += 1
        tally.repaired.update(outcome.repairs)
        for sample in _kept(outcome, tally, quarantine, fitness, keep_invalid):
            if max_prompt_chars is not None and _prompt_chars(sample) > max_prompt_chars:
                tally.filtered[str(FilterReason.PROMPT_TOO_LONG)] += 1
                continue
            tally.seen[_identity(outcome.value)].samples += 1
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
        _quarantine(quarantine, reason, detail, parsed, _as_text(value))
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
            _quarantine(quarantine, FilterReason.CONFLICTING_ID, detail, tally.disputed[name], json.dumps(row))
    kept = [item for item, is_out in zip(items, out, strict=True) if not is_out]
    return kept, [None if is_out else item.sample_id for item, is_out in zip(items, out, strict=True)]


def _prompt_chars(sample: Sample) -> int:
    row = row_of(sample)
    return len(row["tools"]) + len(row["prompt"])


def _quarantine(quarantine: TextIO, reason: str, detail: str, where: Parsed | Rejected | _Seen, record: str) -> None:
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


def _spooled(spool: Path) -> Iterator[dict[str, Any]]:
    with pq.ParquetFile(spool) as table:
        for batch in table.iter_batches(batch_size=_ROWS_PER_BATCH):
            yield from batch.to_pylist()


def _write_splits(spool: Path, out: Path, split_of_row: Sequence[Split | None], sloppiness: Sloppiness, seed: int) -> Counter[str]:
    """Write the three files; what was planted in the demonstrations of the training splits is counted."""
    planted: Counter[str] = Counter()
    spoilt = (Split.SFT, Split.RL) if any(astuple(sloppiness)) else ()
    with ExitStack() as stack:
        writers = {split: pq.ParquetWriter(out / name, SCHEMA, compression="zstd") for split, name in SPLIT_FILES.items()}
        buffers = {split: _RowBuffer(stack.enter_context(writer)) for split, writer in writers.items()}
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
        files={name: _sha256(out / name) for name in (*SPLIT_FILES.values(), QUARANTINE_FILE)},
    )
    (out / MANIFEST_FILE).write_text(json.dumps(asdict(manifest), indent=2) + "\n", encoding="utf-8")
    return manifest


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
