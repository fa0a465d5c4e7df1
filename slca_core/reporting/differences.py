"""Each condition minus the baseline on every benchmark that was run: paired by item, with its interval and its p."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import pandas as pd

from slca_core.analysis.statistics import DRAWS, Interval, smallest_effect
from slca_core.benchmarks import bfcl, tau2, toucan
from slca_core.reporting.comparison import PairedDifference, Sampling, compare_all, usable
from slca_core.reporting.entries import NOTHING, measured, named
from slca_core.reporting.overview import Overview
from slca_core.reporting.paper import Benchmark
from slca_core.reporting.sections import Cell, Entry, Section
from slca_core.reporting.tables import Condition
from slca_core.reporting.tau2 import of_benchmark

BASELINE = "grpo"


@dataclass(frozen=True, slots=True)
class Column:
    """What is compared: a metric of a benchmark's items."""

    benchmark: Benchmark
    metric: str
    title: str
    sampling: Sampling


COLUMNS = (
    Column("toucan_test", "success_process", "Toucan-Test Success@0.9 (process)", "greedy"),
    Column("toucan_test", "process", "Toucan-Test process", "greedy"),
    Column("bfcl_v3", "correct", "BFCL V3 correct", "greedy"),
    Column("tau2", "success", "tau2-bench success", "sampled"),
)
# What the items of each are called.
_ITEMS: Mapping[Benchmark, str] = {"toucan_test": "Toucan-Test items", "bfcl_v3": "BFCL V3 items", "tau2": "tau2-bench tasks"}
_NOTES: Mapping[Benchmark, str] = {
    "bfcl_v3": "BFCL V3: of all items asked, each counting alike; it is no difference of means of subsets.",
    "tau2": "tau2-bench: of the tasks of the benchmark's domains, each counting alike, however many trials it had.",
}


@dataclass(frozen=True, slots=True)
class Differences:
    """All conditions against one of them.

    Attributes:
        columns: those that some condition has a difference in.
        found: metric -> condition with a run of its own -> its difference.
    """

    baseline: Condition
    conditions: tuple[Condition, ...]
    columns: tuple[Column, ...]
    found: Mapping[str, Mapping[str, PairedDifference]]

    def of(self, condition: Condition, column: Column) -> PairedDifference | None:
        """None for the baseline itself, for whoever shares its run, and where the two have no two items in common."""
        return self.found[column.metric].get(condition.source)

    @property
    def compared(self) -> list[Condition]:
        """The conditions that have a difference in some column."""
        return [one for one in self.conditions if any(self.of(one, column) for column in self.columns)]


def measure(items: pd.DataFrame, conditions: Sequence[Condition], baseline: str = BASELINE) -> Differences | None:
    """None where no condition is the baseline.

    Args:
        items: the long table of `slca_core.results`.
    """
    base = next((one for one in conditions if one.name == baseline), None)
    if base is None:
        return None
    trials: dict[Benchmark, pd.DataFrame] = {
        "toucan_test": usable(items, toucan.NAME),
        "bfcl_v3": usable(items, bfcl.NAME),
        "tau2": usable(of_benchmark(items), tau2.NAME),
    }
    sources = [one.source for one in conditions]
    found = {one.metric: compare_all(trials[one.benchmark], sources, base.source, one.metric, one.sampling) for one in COLUMNS}
    return Differences(base, tuple(conditions), tuple(column for column in COLUMNS if found[column.metric]), found)


def section(differences: Differences, overview: Overview) -> Section:
    """The report's table: a line a condition, the benchmarks side by side; no rows if nothing is compared."""
    benchmarks = dict.fromkeys(column.benchmark for column in differences.columns)
    head: list[Cell] = ["Condition"]
    rows: list[list[Cell]] = [[named(condition, differences.conditions)] for condition in differences.compared]
    for benchmark in benchmarks:
        columns = [column for column in differences.columns if column.benchmark == benchmark]
        head += [*(f"{column.title}, points" for column in columns), _ITEMS[benchmark]]
        for condition, row in zip(differences.compared, rows, strict=True):
            found = [differences.of(condition, column) for column in columns]
            row += [_entry(one, condition, differences.baseline, benchmark, overview) for one in found]
            # One number, or one a column where they differ.
            row.append(" / ".join(dict.fromkeys(f"{one.n_items:,}" for one in found if one)) or NOTHING)
    return Section(f"Differences to {differences.baseline.title}", head, rows, notes(differences))


def _entry(
    difference: PairedDifference | None, condition: Condition, baseline: Condition, benchmark: Benchmark, overview: Overview
) -> Entry:
    """In points, with its 95 % interval and its corrected p."""
    if difference is None:
        return Entry(NOTHING)
    entry = measured(difference.mean, None, signed=True, interval=Interval(*difference.interval))
    p = "" if difference.p_holm is None else f", p {format_p(difference.p_holm)}"
    return Entry(
        entry.text,
        entry.small + p,
        overview.runs_behind(condition.name, baseline.name, baseline.title),
        tuple(overview.remarks(benchmark, condition.name, baseline.name)),
    )


def format_p(p: float) -> str:
    """Two digits that count; never 0."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def notes(differences: Differences) -> list[str]:
    """The sentences that belong below the table."""
    benchmarks = dict.fromkeys(column.benchmark for column in differences.columns)
    return [
        f"Differences to {differences.baseline.title} are paired by item, of which all seeds and trials are averaged first; in "
        f"brackets the 95% interval of a bootstrap over items ({DRAWS:,} draws), then p: of the paired t-test, or of McNemar's "
        "exact test where every value is 0 or 1, corrected by Holm for all arms of the column.",
        *(_NOTES[benchmark] for benchmark in benchmarks if benchmark in _NOTES),
        *smallest_effects(differences),
    ]


def smallest_effects(differences: Differences) -> list[str]:
    """What differences these items could show, by the median standard error of each column."""
    sentences = []
    for column in differences.columns:
        errors = [one.standard_error for one in differences.found[column.metric].values()]
        effect, title = smallest_effect(median(errors), comparisons=len(errors)), differences.baseline.title
        sentences.append(
            f"{column.title}: a difference to {title} under {100 * effect:.1f} points is missed here more often than one time in "
            f"five (80% power, {len(errors)} comparisons)."
            if effect
            else f"{column.title}: most arms differ from {title} on no item or on all alike, without spread: how sure that is, "
            "neither interval nor p can say."
        )
    return sentences


def to_json(differences: Differences | None) -> dict[str, Any]:
    """The differences as plain values, by condition and metric; shares are 0 to 1."""
    if differences is None:
        return {"baseline": None, "differences_to_baseline": {}, "smallest_effects": []}
    return {
        "baseline": differences.baseline.name,
        "differences_to_baseline": {
            condition.name: {column.metric: _plain(differences.of(condition, column)) for column in differences.columns}
            for condition in differences.conditions
        },
        "smallest_effects": smallest_effects(differences),
    }


def _plain(difference: PairedDifference | None) -> dict[str, Any] | None:
    return difference_to_json(difference) if difference else None


def difference_to_json(difference: PairedDifference) -> dict[str, Any]:
    """A difference as plain values; an infinite z, which JSON has no word for, is None."""
    return {
        **asdict(difference),
        "z": difference.z if math.isfinite(difference.z) else None,
        "interval": list(difference.interval),
    }
