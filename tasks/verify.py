"""`slca verify`: every output of finished steps read again and compared with its record, whatever size and times say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from slca_core.config import Study
from slca_core.errors import DataError
from slca_core.records.digests import DigestCache
from slca_core.records.fingerprint import checkpoint_digest, digest, file_digest
from slca_core.records.outputs import differences
from slca_core.records.store import RECORD, Record, digest_cache_path, read_record, stamp
from slca_core.results import read_results, results_digest
from tasks import finetune, train
from tasks.benchmarks import JOURNAL
from tasks.curate import SPLITS
from tasks.evaluate import ITEMS
from tasks.planning.plan import make_plan

SCRATCH = (*finetune.SCRATCH, *train.SCRATCH, JOURNAL)


@dataclass(frozen=True, slots=True)
class Verified:
    """One finished step.

    Attributes:
        name: step and name, as its folder has them.
        state: "partly" of a record of earlier versions, which has one digest for its main output and none for each file.
        files, bytes: that were compared.
        faults: what is not as recorded, a sentence each.
    """

    name: str
    state: Literal["as recorded", "partly", "differs"]
    files: int = 0
    bytes: int = 0
    faults: tuple[str, ...] = ()


def verify_root(root: Path, *, stamping: bool = False) -> Iterator[Verified]:
    """Every record below a root, finished steps of whatever study.

    Args:
        stamping: records of earlier versions get the digests of the files that are there, where their main output is as recorded.
    """
    root = root.resolve()
    yield from _verify(sorted((root / "artifacts").glob(f"*/*/{RECORD}")), root, stamping)


def verify_study(study: Study, *, stamping: bool = False) -> Iterator[Verified]:
    """Likewise, the records of a study's own steps."""
    folders = dict.fromkeys(planned.record.folder for planned in make_plan(study).steps if planned.record)
    yield from _verify([folder / RECORD for folder in folders], study.root.resolve(), stamping)


def _verify(paths: Iterable[Path], root: Path, stamping: bool) -> Iterator[Verified]:
    cache = DigestCache(digest_cache_path(root))
    for path in paths:
        name = f"{path.parent.parent.name}/{path.parent.name}"
        try:
            record = read_record(path)
            found = _of_earlier_version(name, record) if record.outputs is None else _verified(name, record, cache)
        except DataError as error:
            found = Verified(name, "differs", faults=(str(error),))
        if stamping and found.state == "partly":
            found = _verified(name, stamp(record, cache, SCRATCH), cache)
        yield found


def _verified(name: str, record: Record, cache: DigestCache) -> Verified:
    def read(file: Path) -> str:
        return cache.file_digest(file, again=True)

    outputs = record.outputs or {}
    parts = dict.fromkeys(Path(output).parts[0] for output in outputs)
    found = [one for part in parts for one in differences(record.folder, outputs, read, part)]
    size = sum(output.bytes for output in outputs.values())
    return Verified(name, "differs" if found else "as recorded", len(outputs), size, tuple(map(str, found)))


def _of_earlier_version(name: str, record: Record) -> Verified:
    """By the digest of its main output, which is all that such a record has."""
    folder = record.folder
    try:
        if record.step == "curate":
            files = [folder / f"{split}.parquet" for split in SPLITS]
            found = digest({file.stem: file_digest(file) for file in files})
        elif record.step in ("policy", "finetune", "train"):
            files = [path for path in (folder / "model").iterdir() if path.is_file()]
            found = checkpoint_digest(folder / "model")
        else:
            files = [folder / ITEMS]
            found = results_digest(read_results(folder / ITEMS))
    except OSError as error:
        return Verified(name, "differs", faults=(f"{error.filename} cannot be read: {error.strerror}",))
    if found != record.output_digest:
        said = f"{files[0].parent} was recorded with digest {record.output_digest[:12]} and has {found[:12]}"
        return Verified(name, "differs", len(files), faults=(said,))
    return Verified(name, "partly", len(files), sum(file.stat().st_size for file in files))
