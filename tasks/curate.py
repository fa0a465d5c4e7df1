"""Curation: the study's source, or the shipped generator's records, into SFT, RL and test splits."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from slca_core.config import DataConfig, Study
from slca_core.curation.inspection import summary
from slca_core.curation.pipeline import curate
from slca_core.curation.readers.files import READABLE, require_regular
from slca_core.curation.ready import take_splits
from slca_core.curation.synthetic.faults import Sloppiness
from slca_core.curation.synthetic.generator import write_records
from slca_core.errors import DataError
from slca_core.records import pins
from slca_core.records.fingerprint import digest, file_digest
from slca_core.records.store import Record, Step, not_there
from slca_core.standins.mocker import mock_response
from tasks.orchestration.progress import say
from tasks.orchestration.workspace import Workspace

SPLITS = ("sft", "rl", "test")
CODE = (
    "slca_core.curation",
    "slca_core.standins.mocker",
    "slca_core.conversation.calls",
    "slca_core.conversation.dialogue",
    "slca_core.conversation.schemas",
    "slca_core.conversation.schema_bounds",
    "slca_core.conversation.tags",
)


def split_path(data: Record, split: str) -> Path:
    """DataError if the split is not as it was recorded."""
    return data.output(f"{split}.parquet")


def curation_step(study: Study, *, planned: bool = False) -> Step:
    """DataError if a source is not there; if it is only `planned`, a source may come later."""
    data, of_file = study.data, Workspace(study).inputs.file_digest
    config: dict[str, Any] = data.model_dump(mode="json", exclude={"source", "splits", "generated", "quarantine_limit"})
    inputs: dict[str, str] = {}
    if data.is_generated:
        config["generated"] = data.generated.model_dump()
    else:
        if data.splits is not None:
            config = {"ready": sorted(data.splits.sources())}
        for name, paths in _sources(data).items():
            absent = [path for path in paths if planned and not path.exists()]
            inputs[name] = not_there(absent[0]) if absent else _source_digest(paths, of_file)
    return Step(
        step="curate",
        name=study.name,
        config=config,
        inputs=inputs,
        code=CODE,
        packages=pins.pinned(study.machine, (*pins.TOOL_SCHEMAS, *pins.TABLES)),
    )


def _sources(data: DataConfig) -> dict[str, tuple[Path, ...]]:
    """Files and folders by what they are an input for; none if the data is generated."""
    if data.splits is not None:
        return data.splits.sources()
    return {} if data.source == "generated" else {"source": data.source}


def source_paths(data: DataConfig) -> list[Path]:
    return [path for paths in _sources(data).values() for path in paths]


def data_line(study: Study) -> str:
    """What the study's data is, as a look at its first records shows it; DataError for what cannot be read from."""
    if study.data.is_generated:
        return f"generated, {study.data.generated.count:,} records"
    lines = []
    for name, paths in _sources(study.data).items():
        absent = [str(path) for path in paths if not path.exists()]
        found = f"not there yet: {', '.join(absent)}" if absent else summary(paths)
        lines.append(found if name == "source" else f"{name}: {found}")
    return "; ".join(lines)


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
    if data.splits is not None:
        take_splits(data.splits.sources(), folder, quarantine_limit=data.quarantine_limit)
        return _recorded(folder)
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
    return _recorded(folder)


def _recorded(folder: Path) -> tuple[str, dict[str, Any]]:
    manifest = json.loads((folder / "manifest.json").read_text())
    splits = [split for split in (*SPLITS, "sft_full") if f"{split}.parquet" in manifest["files"]]
    return digest({split: file_digest(folder / f"{split}.parquet") for split in splits}), manifest


def _source_digest(sources: tuple[Path, ...], of_file: Callable[[Path], str] = file_digest) -> str:
    """Names and contents of all source files; DataError if a source is not there."""
    files: list[list[str]] = []
    for source in sources:
        if not source.exists():
            raise DataError(
                f"A data file or folder was expected at {source} (data.source or data.splits), there is none. "
                "Mend the path, or use `generated`."
            )
        for path in (source, *(path for path in source.rglob("*") if path.suffix in READABLE)):
            require_regular(path)
        found = sorted(path for path in source.rglob("*") if path.is_file()) if source.is_dir() else [source]
        files += [[str(path.relative_to(source.parent)), of_file(path)] for path in found]
    return digest(files)
