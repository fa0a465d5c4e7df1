"""Finished rollouts of an evaluation that is under way, one JSON line each, so that the next attempt plays only what is missing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from slca_core.failures import is_finished
from slca_core.records.json_lines import read_lines


class Journal:
    """The journal at `path`, a file that is appended to; None keeps nothing. A line that a crash cut counts for nothing."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._finished: dict[str, dict[str, Any]] = {}
        if path is None or not path.exists():
            return
        content = path.read_bytes()  # A cut may go through a character.
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            os.truncate(path, len(whole))
        for record in read_lines(path, needs=("rollout_id",)):
            self._finished[record["rollout_id"]] = record

    def __len__(self) -> int:
        return len(self._finished)

    def get(self, rollout_id: str) -> dict[str, Any] | None:
        return self._finished.get(rollout_id)

    def add(self, record: dict[str, Any]) -> dict[str, Any]:
        """Keeps a rollout that has all its answers; others the next attempt plays again. Returns the record as it is read back."""
        line = json.dumps(record, ensure_ascii=False)
        if self.path is not None and is_finished(record):
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        return dict(json.loads(line))

    def remove(self) -> None:
        if self.path is not None:
            self.path.unlink(missing_ok=True)
