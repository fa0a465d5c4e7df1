"""Steps of one stage side by side, as many as the machine has room for."""

from __future__ import annotations

from types import TracebackType

from prefect.task_runners import ThreadPoolTaskRunner

from slca_core.config import Study
from slca_core.services.process import stop_all
from slca_core.trainer.launchers.jobs import leave_all


class Lanes(ThreadPoolTaskRunner):
    """A thread a lane. A step that fails lets the others finish; Ctrl-C ends them all, what they have is kept."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None and not issubclass(kind, Exception):
            stop_all()
            leave_all()
        super().__exit__(kind, error, trace)


def lanes(study: Study) -> Lanes:
    return Lanes(max_workers=study.machine.parallel)
