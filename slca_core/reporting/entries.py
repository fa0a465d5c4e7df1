"""Figures as cells: ours with what they are worth, the runs they come from and what a reader must know; the paper's beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from slca_core.analysis.statistics import Interval
from slca_core.reporting.paper import Published
from slca_core.reporting.sections import Entry, Run
from slca_core.reporting.tables import Condition, Unit

NOTHING = "–"
# Unit -> factor and decimals.
_WRITTEN: Mapping[Unit, tuple[int, int]] = {"percent": (100, 1), "score": (1, 2), "turns": (1, 2)}


def measured(
    mean: float,
    std: float | None,
    *,
    unit: Unit = "percent",
    signed: bool = False,
    interval: Interval | None = None,
    runs: Sequence[Run] = (),
    remarks: Sequence[str] = (),
) -> Entry:
    """A figure of ours, its sample std over seeds (None for one seed) and its interval beside it; `signed` for differences."""
    scale, digits = _WRITTEN[unit]
    sign = "+" if signed else ""
    beside = [] if std is None else [f"± {scale * std:.{digits}f}"]
    if interval:
        beside.append(f"[{scale * interval.low:{sign}.{digits}f}, {scale * interval.high:{sign}.{digits}f}]")
    return Entry(f"{scale * mean:{sign}.{digits}f}", " ".join(beside), tuple(runs), tuple(remarks))


def over_seeds(
    by_seed: Mapping[int, float],
    *,
    signed: bool = False,
    interval: Interval | None = None,
    runs: Sequence[Run] = (),
    remarks: Sequence[str] = (),
) -> Entry:
    """Mean and sample std over seeds of a share, in per cent; `NOTHING` if there is no seed."""
    if not by_seed:
        return Entry(NOTHING)
    of_seeds = list(by_seed.values())
    std = stdev(of_seeds) if len(of_seeds) > 1 else None
    return measured(fmean(of_seeds), std, signed=signed, interval=interval, runs=runs, remarks=remarks)


def plain(by_seed: Mapping[int, float]) -> dict[str, Any]:
    """The same for JSON, as shares."""
    of_seeds = list(by_seed.values())
    return {
        "seeds": {str(seed): value for seed, value in by_seed.items()},
        "mean": fmean(of_seeds) if of_seeds else None,
        "std": stdev(of_seeds) if len(of_seeds) > 1 else None,
    }


def reference(figure: Published | None, *, signed: bool = False) -> Entry:
    """A figure of the paper's, which is in per cent or points; what is derived has a "~" and says from what."""
    if figure is None:
        return Entry(NOTHING, published=True)
    text = f"{'~' if figure.derived else ''}{figure.mean:{'+' if signed else ''}.2f}"
    spread = "" if figure.std is None else f"± {figure.std:.2f}"
    return Entry(text, spread, remarks=(f"Derived: {figure.source}.",) if figure.derived else (), published=True)


def named(condition: Condition, conditions: Sequence[Condition]) -> Entry:
    """The name of a condition's line, and whose run it shares."""
    titles = {one.name: one.title for one in conditions}
    shared = condition.shares_run_of
    return Entry(condition.title, f"(shares the run of {titles.get(shared, shared)})" if shared else "")


def runs_of(condition: Condition, conditions: Sequence[Condition]) -> tuple[Run, ...]:
    """The runs behind a condition's figures: its own, or those it shares."""
    return next((one.runs for one in conditions if one.name == condition.source), ())


def trained_with(*labels_of_conditions: Sequence[str]) -> list[str]:
    """What must be said of conditions that stand-ins trained, beside figures of benchmarks that those had no part in."""
    return list(dict.fromkeys(f"Trained with {'; '.join(labels)}." for labels in labels_of_conditions if labels))


def linked(runs: Sequence[Run]) -> Entry:
    """The column Run: the first run's id, shortened, and a link to each."""
    return Entry(runs[0].run_id[:8], runs=tuple(runs)) if runs else Entry(NOTHING)


def part_of(part: float, whole: int) -> str:
    """A count beside what it is a part of."""
    return f"{part:.0f} of {whole:,}" if whole else NOTHING
