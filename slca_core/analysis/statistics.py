"""What an evaluation of this size can say: intervals and tests paired by item, corrected for several arms.

Items are the clusters: what one item gave under all seeds and trials is drawn together. Functions take arrays and return numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

DRAWS = 10_000
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """Two-sided, of `level`."""

    low: float
    high: float
    level: float = LEVEL


def bootstrap_mean(values_I: np.ndarray, *, draws: int = DRAWS, level: float = LEVEL, seed: int = 0) -> Interval:
    """Percentile interval of the mean of values over items, items drawn with replacement.

    Args:
        values_I: one value an item, at least one; what an item gave under several seeds or trials is averaged before.

    Raises:
        ValueError: no values, or one that is not finite.
    """
    values_I = np.asarray(values_I, dtype=float)
    if not values_I.size or not np.isfinite(values_I).all():
        raise ValueError(f"finite values of at least one item were expected, found {values_I.size} of which not all are finite.")
    if values_I.size == 1:
        return Interval(float(values_I[0]), float(values_I[0]), level)
    interval = stats.bootstrap(
        (values_I,),
        np.mean,
        n_resamples=draws,
        batch=max(1, 2_000_000 // values_I.size),
        confidence_level=level,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Interval(float(interval.low), float(interval.high), level)


def bootstrap_strata(
    values: Sequence[np.ndarray], weights_FS: np.ndarray, *, draws: int = DRAWS, level: float = LEVEL, seed: int = 0
) -> list[Interval]:
    """Percentile intervals of figures that are weighted sums of strata's means, items drawn with replacement within each stratum.

    Of n items n - 1 are drawn: with n, the variance of a stratum's mean comes out too small by (n - 1) / n (McCarthy and Snowden).

    Args:
        values: of each of the S strata one value an item, at least one.
        weights_FS: what each stratum's mean counts in each of the F figures, which are all made of the same draws.
    """
    rng = np.random.default_rng(seed)
    means_SD = np.empty((len(values), draws))
    for at, values_I in enumerate(values):
        # Drawing items is drawing how often each value comes.
        levels, counts = np.unique(np.asarray(values_I, dtype=float), return_counts=True)
        drawn = max(1, counts.sum() - 1)
        means_SD[at] = rng.multinomial(drawn, counts / counts.sum(), size=draws) @ levels / drawn
    lows_F, highs_F = np.quantile(np.asarray(weights_FS) @ means_SD, ((1 - level) / 2, (1 + level) / 2), axis=1)
    return [Interval(float(low), float(high), level) for low, high in zip(lows_F, highs_F, strict=True)]


def paired_p(differences_I: np.ndarray) -> float:
    """Two-sided p of the paired t-test on the items' differences; 1 where none differs, 0 where all differ alike."""
    differences_I = np.asarray(differences_I, dtype=float)
    if not differences_I.std():
        return float(not differences_I.any())
    return float(stats.ttest_1samp(differences_I, 0.0).pvalue)


def mcnemar_p(a_I: np.ndarray, b_I: np.ndarray) -> float:
    """Exact two-sided p of McNemar's test on paired verdicts, each 0 or 1: whether either wins where they disagree."""
    a_I, b_I = np.asarray(a_I).astype(bool), np.asarray(b_I).astype(bool)
    wins, losses = int((a_I & ~b_I).sum()), int((~a_I & b_I).sum())
    return float(stats.binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """p-values of a family of comparisons, corrected by Holm's step-down method."""
    corrected, floor = {}, 0.0
    for rank, (name, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        floor = max(floor, min(1.0, (len(p_values) - rank) * p))
        corrected[name] = floor
    return {name: corrected[name] for name in p_values}


def pass_power(successes_I: np.ndarray | Sequence[int], trials: int, k: int) -> np.ndarray:
    """Each task's estimate that k of k trials succeed: C(c, k) / C(n, k); their mean is Pass^k (tau2-bench).

    Args:
        successes_I: c, successes of each task in `trials` trials.

    Raises:
        ValueError: k is not in 1 ... trials, or a task has more successes than trials.
    """
    successes_I = np.asarray(successes_I)
    if not 1 <= k <= trials or np.any(successes_I > trials) or np.any(successes_I < 0):
        raise ValueError(f"1 <= k <= trials and 0 <= successes <= trials were expected, found k {k}, trials {trials}.")
    return np.asarray(special.comb(successes_I, k) / special.comb(trials, k))


def smallest_effect(standard_error: float, *, comparisons: int = 1, level: float = LEVEL, power: float = 0.8) -> float:
    """The difference that a two-sided test at `level`, Bonferroni's for so many comparisons, would find with this power."""
    alpha = (1 - level) / comparisons
    return float(standard_error * (stats.norm.ppf(1 - alpha / 2) + stats.norm.ppf(power)))


def standard_error(values_I: np.ndarray) -> float:
    """Of the mean over items."""
    values_I = np.asarray(values_I, dtype=float)
    return float(values_I.std(ddof=1) / math.sqrt(values_I.size))
