"""The work of a study under a watch over its processes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from slca_core.config import CpuProfile, Study
from slca_core.services.watch import watching
from tasks.orchestration.progress import say

_T = TypeVar("_T")
_P = ParamSpec("_P")


def watched(work: Callable[Concatenate[Study, _P], _T]) -> Callable[Concatenate[Study, _P], _T]:
    """A function of a study; meanwhile a stopped process is named, and on the CPU profile the run's memory has an end."""

    @functools.wraps(work)
    def run(study: Study, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        with watching(say, limit_memory=isinstance(study.machine, CpuProfile)):
            return work(study, *args, **kwargs)

    return run
