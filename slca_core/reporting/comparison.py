"""What the tables are computed with: means over seeds of means over items, and differences paired by item.

Works on the long table of `slca_core.results` alone, on one benchmark's rows; an item is known by its subset and its name together.
A trial that met an infrastructure error enters no metric; values keep their natural scale (shares 0 to 1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import pandas as pd

from slca_core.analysis.statistics import bootstrap_mean, holm, mcnemar_p, paired_p, standard_error
from slca_core.errors import DataError

ITEM = ["subset", "item"]
_TRIAL = ["condition", "seed", *ITEM, "trial", "sampling"]

Sampling = Literal["greedy", "sampled"]


@dataclass(frozen=True, slots=True)
class Cell:
    """Mean over seeds of the per-seed mean over items, its sample std over seeds (None for one seed), and the counts behind it."""

    mean: float
    std: float | None
    n_items: int
    n_seeds: int


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Condition a minus condition b, paired by item.

    Attributes:
        standard_error: sample std of the items' differences / sqrt(n_items), as in the paired t-test.
        z: mean / standard error; infinite, with the sign of the mean, where every item differs alike, 0 where none differs.
        interval: two-sided 95 % percentile interval of a bootstrap over items.
        p: of the paired t-test, two-sided; of McNemar's exact test where every value is a verdict, 0 or 1.
        p_holm: p corrected by Holm for all arms that a table compares; None outside one.
    """

    benchmark: str
    condition_a: str
    condition_b: str
    metric: str
    sampling: Sampling
    mean: float
    standard_error: float
    n_items: int
    z: float
    interval: tuple[float, float]
    p: float
    p_holm: float | None = None


def usable(items: pd.DataFrame, benchmark: str) -> pd.DataFrame:
    """A benchmark's rows of trials that met no infrastructure error; values that are not there (NaN) are left out."""
    rows = items[items["benchmark"] == benchmark]
    failed = pd.MultiIndex.from_frame(failed_trials(rows)[_TRIAL])
    return rows[~pd.MultiIndex.from_frame(rows[_TRIAL]).isin(failed) & rows["value"].notna()]


def failed_trials(rows: pd.DataFrame) -> pd.DataFrame:
    """One row a trial that met an infrastructure error."""
    return rows[(rows["metric"] == "error") & (rows["value"] > 0)]


def count_trials(rows: pd.DataFrame) -> int:
    """How many trials the rows of one benchmark belong to."""
    return len(rows[_TRIAL].drop_duplicates())


def cell(trials: pd.DataFrame, condition: str, metric: str, sampling: Sampling) -> Cell | None:
    """One condition's figure from the rows of `usable`; None where it has no such value."""
    values = _by_seed_and_item(trials, condition, metric, sampling)
    if values.empty:
        return None
    means = values.groupby("seed").mean()
    std = float(means.std(ddof=1)) if len(means) > 1 else None
    return Cell(float(means.mean()), std, values.groupby(ITEM).ngroups, len(means))


def by_seed(trials: pd.DataFrame, condition: str, metric: str, sampling: Sampling) -> dict[int, float]:
    """Seed -> mean over its items, from the rows of `usable`."""
    means = _by_seed_and_item(trials, condition, metric, sampling).groupby("seed").mean()
    return {int(seed): float(mean) for seed, mean in zip(means.index, means, strict=True)}


def by_item(trials: pd.DataFrame, condition: str, metric: str, sampling: Sampling) -> pd.Series:
    """(Subset, item) -> mean over seeds of the mean over trials, from the rows of `usable`."""
    return _by_seed_and_item(trials, condition, metric, sampling).groupby(ITEM).mean()


def paired_difference(
    items: pd.DataFrame,
    condition_a: str,
    condition_b: str,
    metric: str,
    sampling: Sampling,
    *,
    benchmark: str,
    seed: int | None = None,
) -> PairedDifference:
    """Condition a minus condition b on a benchmark's items that both have: per item the mean over trials and seeds first.

    Args:
        items: the long table of `slca_core.results`.
        seed: one seed only; by default an item's value is the mean over the seeds its condition has.

    Raises:
        DataError: the two have fewer than two items in common, so that there is no spread to judge the difference by.
    """
    trials = usable(items if seed is None else items[items["seed"] == seed], benchmark)
    difference = compare(trials, condition_a, condition_b, metric, sampling)
    if difference is None:
        raise DataError(
            f"{condition_a} and {condition_b} were expected to have at least two {benchmark} items in common with a {sampling} "
            f"{metric!r}{'' if seed is None else f' under seed {seed}'}; they have not. Evaluate both on the same items."
        )
    return difference


def compare(trials: pd.DataFrame, condition_a: str, condition_b: str, metric: str, sampling: Sampling) -> PairedDifference | None:
    """`paired_difference` on the rows of `usable`; None where fewer than two items are in common."""
    a, b = (by_item(trials, name, metric, sampling) for name in (condition_a, condition_b))
    both = pd.DataFrame({"a": a, "b": b}).dropna().sort_index()
    if len(both) < 2:
        return None
    differences = (both.a - both.b).to_numpy()
    mean, error = float(differences.mean()), standard_error(differences)
    z = mean / error if error else math.copysign(math.inf, mean) if mean else 0.0
    interval = bootstrap_mean(differences)
    verdicts = both.isin([0.0, 1.0]).all(axis=None)
    return PairedDifference(
        benchmark=str(trials["benchmark"].iloc[0]),
        condition_a=condition_a,
        condition_b=condition_b,
        metric=metric,
        sampling=sampling,
        mean=mean,
        standard_error=error,
        n_items=len(differences),
        z=z,
        interval=(interval.low, interval.high),
        p=mcnemar_p(both.a.to_numpy(), both.b.to_numpy()) if verdicts else paired_p(differences),
    )


def compare_all(
    trials: pd.DataFrame, conditions: Iterable[str], baseline: str, metric: str, sampling: Sampling
) -> dict[str, PairedDifference]:
    """Condition -> its difference to the baseline, p corrected by Holm for all of them; who has no two common items is left out."""
    others = dict.fromkeys(name for name in conditions if name != baseline)
    found = {name: one for name in others if (one := compare(trials, name, baseline, metric, sampling))}
    corrected = holm({name: one.p for name, one in found.items()})
    return {name: replace(one, p_holm=corrected[name]) for name, one in found.items()}


def _by_seed_and_item(trials: pd.DataFrame, condition: str, metric: str, sampling: Sampling) -> pd.Series:
    chosen = (trials["condition"] == condition) & (trials["metric"] == metric) & (trials["sampling"] == sampling)
    return trials[chosen].groupby(["seed", *ITEM])["value"].mean()
