"""`slca run` with scripted training and a scripted policy server; all else, down to MLflow, is real.

python -m tests.chaos.scripted STUDY
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path

from slca_core.config import load_study
from slca_core.processes.supervise import free_port, serve
from slca_core.services.policy_server import PolicyServer
from tasks.orchestration.workspace import quiet_environment


def run_scripted(module: str, argv, *, python: str, **options) -> None:
    from slca_core.trainer.launch import run_module

    run_module("tests.chaos.trainer", [module.rpartition(".")[2], *argv], **options)


@contextmanager
def served(_checkpoint: Path, name: str, *_: object, log: Path, **__: object):
    port = free_port()
    with serve("policy server", [sys.executable, "-m", "tests.chaos.policy_server", str(port)], port=port, log=log) as url:
        yield PolicyServer(url=url, model=name)


def main() -> None:
    # Prefect and MLflow settle where their state lies when they are imported.
    os.environ.update(quiet_environment(load_study(Path(sys.argv[1])).root))
    from flows.cli import main
    from slca_core.trainer import launchers
    from tasks import evaluate, finetune

    for module in (finetune, launchers):
        module.run_module = run_scripted
        module.python_for = lambda *_: sys.executable
    evaluate.served = served
    # A background job of a shell, as these tests may be, ignores it and lets its children ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv[1:1] = ["run"]
    main.main()


if __name__ == "__main__":
    main()
