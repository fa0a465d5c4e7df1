"""One measured comparison: ours and its peers on the same input, side by side in one process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from torch.utils.benchmark import Timer


@dataclass(frozen=True, slots=True)
class Row:
    """One competitor on one workload.

    Attributes:
        seconds: median of a call.
        ratio: its time over ours: above 1, ours is faster.
        largest_difference: of its result from ours, where both compute the same thing.
        note: what it computes, where that is less or other than ours.
    """

    workload: str
    threads: int
    name: str
    seconds: float
    ratio: float
    largest_difference: float | None = None
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Peer:
    run: Callable[[], Any]
    difference: Callable[[], float] | None = None
    note: str = ""


def compare(
    workload: str, ours: Callable[[], Any], peers: Mapping[str, Peer], *, threads: int = 1, seconds: float = 2.0
) -> list[Row]:
    """Median times of ours and each peer; each is given `seconds` of runs, at least one."""
    mine = _median(ours, threads, seconds)
    rows = [Row(workload, threads, "slca", mine, 1.0)]
    for name, peer in peers.items():
        theirs = _median(peer.run, threads, seconds)
        difference = peer.difference() if peer.difference else None
        rows.append(Row(workload, threads, name, theirs, theirs / mine, difference, peer.note))
    return rows


def _median(run: Callable[[], Any], threads: int, seconds: float) -> float:
    run()
    return Timer("run()", globals={"run": run}, num_threads=threads).blocked_autorange(min_run_time=seconds).median
