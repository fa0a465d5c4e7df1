"""Training as a batch job of Slurm: a script that starts Ray over the allocation and runs the training module on its first node.

Untested on a real cluster. The job says by a file how it ended, since not every cluster keeps accounts; whether it still waits or
runs, `squeue` says.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from slca_core.config import CpuProfile, SlurmLauncher
from slca_core.errors import ConfigError, ServiceError
from slca_core.records.store import write_atomically
from slca_core.trainer.launch import DECLARED, failure
from slca_core.trainer.launchers.jobs import follow, job_environment
from slca_core.trainer.spec import TrainSpec

TEMPLATE = Path(__file__).with_name("slurm.sh.jinja")
SCRIPT, EXIT_CODE = "train.sbatch", "train.exit"
# Of Ray's head: outside 10002-19999, Ray's own worker ports.
PORT = 6379
_DECLARED = "".join(f" --{name.replace('_', '-')}={count}" for name, count in DECLARED.items())


def batch_script(spec: TrainSpec, name: str, module: str, argv: Sequence[str], *, env: Mapping[str, str], log: Path) -> str:
    """The script that runs `python -m module argv` over the nodes of the study's machine."""
    machine, launcher = spec.machine, spec.machine.launcher
    if not isinstance(launcher, SlurmLauncher):
        raise ValueError(f"a study with `machine.launcher.kind: slurm` was expected, found {launcher.kind}")
    cpu = isinstance(machine, CpuProfile)
    templates = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True, autoescape=False)
    templates.filters["quote"] = lambda value: shlex.quote(str(value))
    folder = spec.folder.resolve()
    return templates.from_string(TEMPLATE.read_text()).render(
        name=name,
        launcher=launcher,
        nodes=launcher.nodes or (1 if cpu else machine.actor_nodes),
        gpus=0 if cpu else machine.actor_gpus_per_node,
        resources=_DECLARED if cpu else "",
        folder=folder,
        log=log.resolve(),
        exit_code=folder / EXIT_CODE,
        env=job_environment(env),
        bin=Path(sys.executable).parent,
        port=PORT,
        command=shlex.join([sys.executable, "-m", module, *argv]),
    )


class SlurmJob:
    """The job of one run folder, found again by its name and working directory."""

    def __init__(self, name: str, folder: Path, log: Path) -> None:
        self.name, self.folder, self.log = name, folder.resolve(), log
        self.script, self.exit_code = self.folder / SCRIPT, self.folder / EXIT_CODE

    def run(
        self, module: str, script: str, *, on_poll: Callable[[], None], say: Callable[[str], None], poll_s: float = 15.0
    ) -> None:
        """Submits the script unless its job is on its way or ended well, and follows the job to its end.

        Raises:
            ConfigError: there is no Slurm here; says where the script lies and what to do with it.
            SlcaError: the job failed: its own sentence if it left one, else the end of its log.
            ServiceError: Slurm refused the script, or ended the job itself.
        """
        if self._code() == 0:
            return
        write_atomically(self.script, script)
        self.script.chmod(0o600)
        if shutil.which("sbatch") is None:
            raise ConfigError(
                f"Slurm was expected here (machine.launcher.kind: slurm), there is no sbatch. The script is {self.script}: submit "
                f"it with `sbatch {self.script}` where there is one, and run again when its job has ended."
            )
        job = self._find()
        if job:
            say(f"follows Slurm's job {job}, {self.name}")
        else:
            self.exit_code.unlink(missing_ok=True)
            job = _ask("sbatch", "--parsable", str(self.script)).partition(";")[0]
            say(f"submitted Slurm's job {job}, {self.name}; to stop it: scancel {job}")
        goes_on = f"Slurm's job {job} goes on; the next run follows it. To stop it: scancel {job}"
        follow(lambda: self._find() is not None, on_poll=on_poll, on_leave=lambda: say(goes_on), poll_s=poll_s)
        on_poll()
        self._require_success(module, job)

    def _require_success(self, module: str, job: str) -> None:
        code = self._code()
        if code is None:
            raise ServiceError(
                f"Slurm's job {job} ({self.name}) has gone without an end of its own: cancelled, out of time, or a node failed. "
                f"Run again to go on from its last checkpoint. (log: {self.log})"
            )
        if code:
            raise failure(module, code, self.log)

    def _code(self) -> int | None:
        """The exit code the job left; None if it left none."""
        return int(self.exit_code.read_text()) if self.exit_code.is_file() else None

    def _find(self) -> str | None:
        """Slurm's number of this folder's job, if it waits or runs."""
        listed = _ask("squeue", "--noheader", "--name", self.name, "--format", "%i %Z")
        jobs = [line.split(maxsplit=1) for line in listed.splitlines()]
        return next((number for number, folder in jobs if Path(folder) == self.folder), None)


def _ask(*argv: str) -> str:
    found = subprocess.run(argv, capture_output=True, text=True, check=False)
    if found.returncode:
        raise ServiceError(f"`{shlex.join(argv)}` ended with code {found.returncode}: {found.stderr.strip()}")
    return found.stdout.strip()
