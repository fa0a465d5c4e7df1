"""Curation: the study's source, or the shipped generator's records, into SFT, RL and test splits."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from slca_core.config import Study
from slca_core.curation.generator import write_records
from slca_core.curation.inspection import summary
from slca_core.curation.pipeline import curate
from slca_core.curation.readers.files import require_regular
from slca_core.curation.sloppiness import Sloppiness
from slca_core.errors import DataError
from slca_core.fingerprint import digest, file_digest
from slca_core.records import Record, Step, not_there
from slca_core.services.mocking import mock_response
from tasks.progress import say
from tasks.workspace import Workspace

SPLITS = ("sft", "rl", "test")
CODE = (
    "slca_core.curation",
    "slca_core.services.mocking",
    "slca_core.calls",
    "slca_core.dialogue",
    "slca_core.schemas",
    "slca_core.schema_bounds",
)


def split_path(data: Record, split: str) -> Path:
    """DataError if the split is not as it was recorded."""
    return data.output(f"{split}.parquet")


def curation_step(study: Study, *, planned: bool = False) -> Step:
    """DataError if a source is not there; if it is only `planned`, a source may come later."""
    data = study.data
    config: dict[str, Any] = data.model_dump(mode="json", exclude={"source", "generated", "quarantine_limit"})
    if data.source == "generated":
        config["generated"] = data.generated.model_dump()
        inputs = {}
    else:
        absent = [source for source in data.source if planned and not source.exists()]
        inputs = {"source": not_there(absent[0]) if absent else _source_digest(data.source, Workspace(study).inputs.file_digest)}
    return Step(step="curate", name=study.name, config=config, inputs=inputs, code=CODE)


def data_line(study: Study) -> str:
    """What the study's source is, as a look at its first records shows it; DataError for one that cannot be read from."""
    source = study.data.source
    if source == "generated":
        return f"generated, {study.data.generated.count:,} records"
    absent = [str(path) for path in source if not path.exists()]
    return f"not there yet: {', '.join(absent)}" if absent else summary(source)


@task(name="curate", cache_policy=NO_CACHE)
def curate_data(study: Study) -> Record:
    """Parse, filter, hold out the test set, decompose, split; the record's facts are the manifest."""
    record = Workspace(study).store.run(curation_step(study), lambda folder: _curate(study, folder))
    counts = ", ".join(f"{split} {sum(record.facts['splits'][split].values()):,}" for split in SPLITS)
    say(f"{counts}  ({record.folder})", "curate")
    return record


def _curate(study: Study, folder: Path) -> tuple[str, dict[str, Any]]:
    for left in folder.glob(".spool-*"):  # By an attempt that was killed.
        shutil.rmtree(left)
    data = study.data
    sources, sloppiness = data.source, Sloppiness()
    if sources == "generated":
        sloppiness = Sloppiness(data.generated.dropped_argument, data.generated.bare_summary)
        raw = folder / "generated" / "records.parquet"
        write_records(raw, data.generated.count, data.generated.seed, mock_response)
        sources = (raw.parent,)
    curate(
        sources,
        folder,
        test_size=data.test_size,
        sft_fraction=data.sft_fraction,
        decomposed_test_fraction=data.test_decomposed_fraction,
        seed=data.seed,
        quarantine_limit=data.quarantine_limit,
        sloppiness=sloppiness,
        keep_invalid=data.keep_invalid,
    )
    manifest = json.loads((folder / "manifest.json").read_text())
    return digest({split: file_digest(folder / f"{split}.parquet") for split in SPLITS}), manifest


def _source_digest(sources: tuple[Path, ...], of_file: Callable[[Path], str] = file_digest) -> str:
    """Names and contents of all source files; DataError if a source is not there."""
    files: list[list[str]] = []
    for source in sources:
        if not source.exists():
            raise DataError(
                f"A data file or folder was expected at {source} (data.source), there is none. Mend the path, or use `generated`."
            )
        require_regular(source)
        found = sorted(path for path in source.rglob("*") if path.is_file()) if source.is_dir() else [source]
        files += [[str(path.relative_to(source.parent)), of_file(path)] for path in found]
    return digest(files)
