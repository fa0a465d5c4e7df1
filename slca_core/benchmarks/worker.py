"""A benchmark's own code in an environment of its own: a subprocess that is given a job and writes one JSON line an item.

What an earlier attempt has finished is kept and not asked again; a line with an error is dropped, and its item asked again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slca_core import secrets
from slca_core.errors import ServiceError
from slca_core.processes.supervise import LOOPBACK, start, stop, tail
from slca_core.records.json_lines import keep_lines, read_lines

# All that a worker sees of our environment, beside what its benchmark needs.
INHERITED = ("PATH", "HOME", "LANG", "TMPDIR")
HIDDEN = "SLCA_HIDDEN"  # The variable that says what no line of a worker may hold.
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "SSL_CERT_FILE")


def proxies() -> dict[str, str]:
    """What it takes to reach an endpoint elsewhere; our own servers are never asked through a proxy."""
    given = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    direct = ",".join(filter(None, (given, LOOPBACK, "localhost")))
    return {"no_proxy": direct, "NO_PROXY": direct, **{name: os.environ[name] for name in _PROXIES if name in os.environ}}


@dataclass(frozen=True, slots=True)
class Worker:
    """Where a benchmark's code runs.

    Attributes:
        name: of the files it leaves in a folder: its lines, its job and its log.
        script: a module of this package that imports nothing of this project.
        python: interpreter of the benchmark's environment.
    """

    name: str
    script: Path
    python: Path

    def finished(self, folder: Path) -> list[dict[str, Any]]:
        """The lines of an earlier attempt that met no error; the others are dropped from the file."""
        out = self._lines(folder)
        keep_lines(out, lambda line: not line["error"])
        return read_lines(out)

    def run(
        self,
        folder: Path,
        job: Mapping[str, Any],
        env: Mapping[str, str],
        *,
        hidden: Collection[str] = (),
        on_poll: Callable[[int], None] = lambda _: None,
    ) -> list[dict[str, Any]]:
        """The lines of every item, earlier ones included.

        Args:
            job: what the script reads; the file it writes to is added as `out`.
            hidden: secrets that the script has in its environment: its lines are without them, whatever a server repeats.
            on_poll: hears how many items are done, now and then.

        Raises:
            ServiceError: the worker failed, with the end of its log.
        """
        out, asked, log = self._lines(folder), folder / f"{self.name}-job.json", folder / f"{self.name}.log"
        asked.write_text(json.dumps({**job, "out": str(out)}))
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        done, read = 0, 0
        own = {HIDDEN: json.dumps(sorted(hidden, key=len, reverse=True))} if hidden else {}
        process = start([str(self.python), str(self.script), str(asked)], log, {**inherited, **env, **own}, inherit=False)
        try:
            while process.poll() is None:
                if out.exists():
                    with out.open("rb") as file:
                        file.seek(read)
                        fresh = file.read()
                    done, read = done + fresh.count(b"\n"), read + len(fresh)
                on_poll(done)
                time.sleep(0.5)
        finally:
            stop(process)
            _hide(log, hidden)
        if process.returncode:
            raise ServiceError(f"The worker of {self.name} ended with code {process.returncode}. The end of {log}:\n{tail(log)}")
        lines = read_lines(out)
        on_poll(len(lines))
        return lines

    def _lines(self, folder: Path) -> Path:
        return folder / f"{self.name}.jsonl"


def _hide(log: Path, hidden: Collection[str]) -> None:
    text = log.read_text(errors="replace") if hidden else ""
    if any(secret in text for secret in hidden):
        log.write_text(secrets.hide(text, hidden))
