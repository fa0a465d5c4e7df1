"""Steps of one stage side by side, as many as the machine has room for, and what becomes of the others when one fails."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from types import TracebackType
from typing import Any, TypeVar

from prefect.context import FlowRunContext
from prefect.futures import PrefectConcurrentFuture, PrefectFuture, as_completed
from prefect.task_runners import ThreadPoolTaskRunner

from slca_core.config import Study
from slca_core.processes.supervise import stop_all
from slca_core.trainer.launchers.jobs import leave_all
from tasks.orchestration.notify import tell_of_failure
from tasks.orchestration.progress import say

Key = TypeVar("Key", bound=Hashable)


class Lanes(ThreadPoolTaskRunner):
    """A thread a lane. Ctrl-C ends the steps of all; what they have is kept."""

    def __init__(self, max_workers: int) -> None:
        super().__init__(max_workers=max_workers)
        self._submitted: list[PrefectConcurrentFuture[Any]] = []

    def submit(self, *args: Any, **kwargs: Any) -> PrefectConcurrentFuture[Any]:
        self._submitted.append(super().submit(*args, **kwargs))
        return self._submitted[-1]

    def abandon(self, because: str) -> None:
        """Start no further step, end those that run, and wait for them; `because` is what they leave as their reason."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
        # A lane that was free a moment ago may start the process of the step it took up only now.
        while not all(future.wrapped_future.done() for future in self._submitted):
            stop_all(because=because)
            leave_all()
            time.sleep(0.2)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None and not issubclass(kind, Exception):
            self.abandon("The run was interrupted.")
        super().__exit__(kind, error, trace)


def lanes(study: Study) -> Lanes:
    return Lanes(max_workers=study.machine.parallel)


def gather(study: Study, stage: str, running: Mapping[Key, PrefectFuture[Any]]) -> dict[Key, Any]:
    """Wait for the steps of a stage; return what each left, in the order given.

    The first that fails is told of at once, at the keyboard and to whom `notify` names; as `on_failure` says, the others go on
    to their end, or are ended too. Then its exception is raised.
    """
    names = {future: " ".join([stage, *map(str, key if isinstance(key, tuple) else (key,))]) for key, future in running.items()}
    failed: PrefectFuture[Any] | None = None
    for future in as_completed(list(names)):
        future.wait()  # Until then its state is what the server has heard, which may be late.
        if failed is not None or future.state.is_completed():
            continue
        failed = future
        stopping = study.on_failure == "stop"
        error = " ".join(str(future.result(raise_on_failure=False)).split())
        others = "the other steps are ended (on_failure: stop)" if stopping else "the other steps go on (on_failure: finish_others)"
        say(f"{names[future]} failed, {others}: {error}")
        tell_of_failure(study, names[future], error)
        if stopping:
            runner = FlowRunContext.get().task_runner
            assert isinstance(runner, Lanes)
            runner.abandon(f"Ended, since {names[future]} had failed (on_failure: stop).")
            break
    if failed is not None:
        failed.result()
    return {key: future.result() for key, future in running.items()}
