"""Intervals that cover what they should, tests that agree with scipy's and statsmodels', and pairing that pays."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import DescrStatsW

from slca_core.analysis.statistics import (
    bootstrap_mean,
    bootstrap_strata,
    holm,
    mcnemar_p,
    paired_p,
    pass_power,
    smallest_effect,
    standard_error,
)

p_values = st.lists(st.floats(0, 1), min_size=1, max_size=6).map(lambda ps: {str(at): p for at, p in enumerate(ps)})


def simulated(rng: np.random.Generator, effect: float, items: int = 150, seeds: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Two arms' verdicts, 0 or 1, averaged over seeds: items differ in difficulty, which both arms share."""
    difficulty_I = rng.normal(size=items)
    arms = [rng.random((seeds, items)) < 1 / (1 + np.exp(-(difficulty_I * 2 + shift))) for shift in (effect, 0.0)]
    return arms[0].mean(axis=0), arms[1].mean(axis=0)


def true_difference(effect: float) -> float:
    difficulty = np.random.default_rng(99).normal(size=400_000) * 2
    return float((1 / (1 + np.exp(-(difficulty + effect))) - 1 / (1 + np.exp(-difficulty))).mean())


def test_intervals_cover_the_true_difference_and_pairing_beats_not_pairing():
    rng, effect, studies = np.random.default_rng(0), 0.5, 1_500
    truth, covered, paired_found, unpaired_found = true_difference(effect), 0, 0, 0
    for _ in range(studies):
        a_I, b_I = simulated(rng, effect)
        interval = bootstrap_mean(a_I - b_I, draws=600, seed=int(rng.integers(2**31)))
        covered += interval.low <= truth <= interval.high
        paired_found += paired_p(a_I - b_I) < 0.05
        unpaired_found += stats.ttest_ind(a_I, b_I).pvalue < 0.05
    assert covered / studies == pytest.approx(0.95, abs=0.02)
    assert paired_found / studies > unpaired_found / studies + 0.2


def test_without_a_difference_one_in_twenty_is_found():
    rng = np.random.default_rng(1)
    found = [paired_p(a_I - b_I) < 0.05 for a_I, b_I in (simulated(rng, 0.0) for _ in range(2_000))]
    assert np.mean(found) == pytest.approx(0.05, abs=0.015)


def test_the_smallest_effect_is_found_four_times_in_five():
    rng, error = np.random.default_rng(2), 1 / np.sqrt(200)
    effect = smallest_effect(error)
    found = [paired_p(rng.normal(effect, 1, 200)) < 0.05 for _ in range(2_000)]
    assert np.mean(found) == pytest.approx(0.8, abs=0.03)
    assert smallest_effect(error, comparisons=4) > effect


def test_the_interval_of_many_draws_is_the_normal_one_and_does_not_change():
    values_I = np.random.default_rng(3).normal(1.0, 2.0, 4_000)
    interval = bootstrap_mean(values_I)
    half = 1.96 * standard_error(values_I)
    assert (interval.low, interval.high) == pytest.approx((values_I.mean() - half, values_I.mean() + half), abs=0.02 * half * 2)
    assert bootstrap_mean(values_I) == interval


def test_one_item_has_no_width_and_none_is_refused():
    assert bootstrap_mean(np.array([0.5])) == bootstrap_mean(np.array([0.5, 0.5]))
    with pytest.raises(ValueError, match="at least one item"):
        bootstrap_mean(np.array([]))
    with pytest.raises(ValueError, match="finite"):
        bootstrap_mean(np.array([0.5, np.nan]))


def test_drawing_within_strata_is_drawing_their_items_one_by_one():
    rng = np.random.default_rng(5)
    values = [rng.integers(0, 3, size) / 2 for size in (12, 40, 7)]
    weights_FS = np.array([[1 / 3, 1 / 3, 1 / 3], [0.1, 0.9, 0.0]])
    drawn = [[rng.choice(values_I, len(values_I) - 1).mean() for values_I in values] for _ in range(20_000)]
    expected_FQ = np.quantile(np.array(drawn) @ weights_FS.T, (0.025, 0.975), axis=0).T
    found = bootstrap_strata(values, weights_FS, draws=20_000)
    assert np.array([(one.low, one.high) for one in found]) == pytest.approx(expected_FQ, abs=0.006)
    assert bootstrap_strata(values, weights_FS, draws=20_000) == found, "the same each time"


def test_one_stratum_of_all_items_has_the_plain_interval():
    values_I = np.random.default_rng(6).random(300)
    (interval,), plain = bootstrap_strata([values_I], np.array([[1.0]])), bootstrap_mean(values_I)
    assert (interval.low, interval.high) == pytest.approx((plain.low, plain.high), abs=0.002)


def test_intervals_of_a_mean_over_strata_of_bfcls_sizes_cover_it():
    rng, studies = np.random.default_rng(7), 1_500
    sizes = (400, 100, 50, 200, 258, 1053, 16, 24)
    rates, weights_FS = rng.uniform(0.1, 0.9, len(sizes)), np.full((1, len(sizes)), 1 / len(sizes))
    covered = 0
    for _ in range(studies):
        values = [rng.random(size) < rate for size, rate in zip(sizes, rates, strict=True)]
        (interval,) = bootstrap_strata(values, weights_FS, draws=600, seed=int(rng.integers(2**31)))
        covered += interval.low <= rates.mean() <= interval.high
    assert covered / studies == pytest.approx(0.95, abs=0.015)


def test_a_stratum_of_one_item_has_no_width():
    (interval,) = bootstrap_strata([np.array([0.5])], np.array([[1.0]]))
    assert (interval.low, interval.high) == (0.5, 0.5)


@pytest.mark.parametrize(("differences", "p"), [([0.0, 0.0], 1.0), ([0.5, 0.5], 0.0)])
def test_differences_without_spread_are_certain(differences, p):
    assert paired_p(np.array(differences)) == p


def test_the_paired_p_is_scipys():
    rng = np.random.default_rng(4)
    a_I, b_I = rng.random(50), rng.random(50)
    assert paired_p(a_I - b_I) == pytest.approx(stats.ttest_rel(a_I, b_I).pvalue)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_mcnemar_is_the_exact_binomial_test_of_the_disagreements(pairs):
    a_I, b_I = np.array(pairs).T
    wins, losses = sum(a and not b for a, b in pairs), sum(b and not a for a, b in pairs)
    # Twice the smaller tail, as statsmodels' mcnemar(exact=True) has it.
    expected = min(1.0, 2 * stats.binom.cdf(min(wins, losses), wins + losses, 0.5)) if wins + losses else 1.0
    assert mcnemar_p(a_I, b_I) == pytest.approx(expected)
    assert mcnemar_p(b_I, a_I) == pytest.approx(expected)


def test_holm_is_its_textbook_example():
    found = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert found == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02})


@given(p_values)
def test_holm_never_lowers_a_p_keeps_their_order_and_is_no_worse_than_bonferroni(given_p):
    found = holm(given_p)
    assert all(given_p[name] <= p <= min(1.0, len(given_p) * given_p[name]) + 1e-12 for name, p in found.items())
    for one, other in itertools.combinations(given_p, 2):
        assert (given_p[one] <= given_p[other]) <= (found[one] <= found[other])


@pytest.mark.parametrize(
    ("successes", "trials", "k", "expected"), [(4, 4, 4, 1.0), (3, 4, 4, 0.0), (2, 4, 2, 1 / 6), (3, 4, 1, 0.75)]
)
def test_pass_k_is_the_share_of_k_trials_that_all_succeeded(successes, trials, k, expected):
    verdicts = [1] * successes + [0] * (trials - successes)
    counted = np.mean([all(chosen) for chosen in itertools.combinations(verdicts, k)])
    assert pass_power([successes], trials, k)[0] == pytest.approx(expected) == pytest.approx(counted)


@pytest.mark.parametrize(("successes", "trials", "k"), [([1], 4, 0), ([1], 4, 5), ([5], 4, 1), ([-1], 4, 1)])
def test_pass_k_of_what_cannot_be_is_refused(successes, trials, k):
    with pytest.raises(ValueError, match="were expected"):
        pass_power(successes, trials, k)


@pytest.mark.parametrize("seed", range(20))
def test_on_random_data_statsmodels_says_the_same(seed):
    rng = np.random.default_rng(seed)
    p_values = {str(at): float(p) for at, p in enumerate(rng.random(rng.integers(1, 9)) ** 3)}
    assert list(holm(p_values).values()) == pytest.approx(multipletests(list(p_values.values()), method="holm")[1])
    a_I, b_I = rng.random((2, 40)) < rng.random((2, 1))
    pairs = [[sum((a_I == a) & (b_I == b)) for b in (True, False)] for a in (True, False)]
    assert mcnemar_p(a_I, b_I) == pytest.approx(mcnemar(pairs, exact=True).pvalue)
    differences_I = rng.normal(0.2, 1.0, 50)
    assert paired_p(differences_I) == pytest.approx(DescrStatsW(differences_I).ttest_mean(0.0)[1])


@pytest.mark.parametrize("seed", range(5))
def test_a_bootstrap_interval_is_near_statsmodels_t_interval(seed):
    values_I = np.random.default_rng(seed).exponential(size=2_000)
    interval, (low, high) = bootstrap_mean(values_I), DescrStatsW(values_I).tconfint_mean()
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=0.05 * (high - low))
