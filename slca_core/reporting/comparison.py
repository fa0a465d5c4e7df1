"""What the tables are computed with: means over seeds of means over items, and differences paired by item.

Works on the long table of `slca_core.results` alone, on its Toucan-Test rows. A rollout that met an infrastructure error enters no
metric; values keep their natural scale (shares 0 to 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from slca_core.errors import DataError
from slca_core.statistics import bootstrap_mean, mcnemar_p, paired_p, standard_error

BENCHMARK = "toucan_test"
_ROLLOUT = ["condition", "seed", "item", "trial", "sampling"]

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


def toucan_rollouts(items: pd.DataFrame) -> pd.DataFrame:
    """The Toucan-Test rows of rollouts that met no infrastructure error; values that are not there (NaN) are left out."""
    rows = items[items["benchmark"] == BENCHMARK]
    failed = pd.MultiIndex.from_frame(failed_rollouts(rows)[_ROLLOUT])
    return rows[~pd.MultiIndex.from_frame(rows[_ROLLOUT]).isin(failed) & rows["value"].notna()]


def failed_rollouts(rows: pd.DataFrame) -> pd.DataFrame:
    """One row a rollout that met an infrastructure error."""
    return rows[(rows["metric"] == "error") & (rows["value"] > 0)]


def count_rollouts(rows: pd.DataFrame) -> int:
    """How many rollouts the rows belong to."""
    return len(rows[_ROLLOUT].drop_duplicates())


def cell(rollouts: pd.DataFrame, condition: str, metric: str, sampling: Sampling) -> Cell | None:
    """One condition's figure from the rows of `toucan_rollouts`; None where it has no such value."""
    values = _by_seed_and_item(rollouts, condition, metric, sampling)
    if values.empty:
        return None
    means = values.groupby("seed").mean()
    std = float(means.std(ddof=1)) if len(means) > 1 else None
    return Cell(float(means.mean()), std, values.index.get_level_values("item").nunique(), len(means))


def by_seed(rollouts: pd.DataFrame, condition: str, metric: str, sampling: Sampling) -> dict[int, float]:
    """Seed -> mean over its items, from the rows of `toucan_rollouts`."""
    means = _by_seed_and_item(rollouts, condition, metric, sampling).groupby("seed").mean()
    return {int(seed): float(mean) for seed, mean in zip(means.index, means, strict=True)}


def paired_difference(
    items: pd.DataFrame,
    condition_a: str,
    condition_b: str,
    metric: str,
    sampling: Sampling,
    seed: int | None = None,
) -> PairedDifference:
    """Condition a minus condition b on the Toucan-Test items both have: per item the mean over trials and seeds first.

    Args:
        items: the long table of `slca_core.results`.
        seed: one seed only; by default an item's value is the mean over the seeds its condition has.

    Raises:
        DataError: the two have fewer than two items in common, so that there is no spread to judge the difference by.
    """
    rollouts = toucan_rollouts(items if seed is None else items[items["seed"] == seed])
    difference = compare(rollouts, condition_a, condition_b, metric, sampling)
    if difference is None:
        raise DataError(
            f"{condition_a} and {condition_b} were expected to have at least two {BENCHMARK} items in common with a {sampling} "
            f"{metric!r}{'' if seed is None else f' under seed {seed}'}; they have not. Evaluate both on the same items."
        )
    return difference


def compare(rollouts: pd.DataFrame, condition_a: str, condition_b: str, metric: str, sampling: Sampling) -> PairedDifference | None:
    """`paired_difference` on the rows of `toucan_rollouts`; None where fewer than two items are in common."""
    a, b = (_by_seed_and_item(rollouts, name, metric, sampling).groupby("item").mean() for name in (condition_a, condition_b))
    both = pd.DataFrame({"a": a, "b": b}).dropna().sort_index()
    if len(both) < 2:
        return None
    differences = (both.a - both.b).to_numpy()
    mean, error = float(differences.mean()), standard_error(differences)
    z = mean / error if error else math.copysign(math.inf, mean) if mean else 0.0
    interval = bootstrap_mean(differences)
    p = mcnemar_p(both.a.to_numpy(), both.b.to_numpy()) if both.isin([0.0, 1.0]).all(axis=None) else paired_p(differences)
    return PairedDifference(
        condition_a, condition_b, metric, sampling, mean, error, len(differences), z, (interval.low, interval.high), p
    )


def _by_seed_and_item(rollouts: pd.DataFrame, condition: str, metric: str, sampling: Sampling) -> pd.Series:
    chosen = (rollouts["condition"] == condition) & (rollouts["metric"] == metric) & (rollouts["sampling"] == sampling)
    return rollouts[chosen].groupby(["seed", "item"])["value"].mean()
