"""The flow function under a watch over its processes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

from slca_core.config import CpuProfile, Study
from slca_core.services.watch import watching
from tasks.progress import say

_T = TypeVar("_T")


def watched(flow: Callable[[Study], _T]) -> Callable[[Study], _T]:
    """The flow function; meanwhile a process that a signal stopped is named, and on the CPU profile the run's memory has an end."""

    @functools.wraps(flow)
    def run(study: Study) -> _T:
        with watching(say, limit_memory=isinstance(study.machine, CpuProfile)):
            return flow(study)

    return run
