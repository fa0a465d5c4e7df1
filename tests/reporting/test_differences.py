"""Differences to the baseline on every benchmark: what is paired, what is left out, and what is said beside them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from slca_core.analysis.statistics import holm
from slca_core.reporting import differences
from slca_core.reporting.comparison import compare, compare_all, usable
from slca_core.reporting.differences import COLUMNS, Differences, format_p
from slca_core.reporting.overview import Overview
from slca_core.reporting.tables import Condition
from tests.support.frames import Row, cells, run, table_of, texts

GRPO, SLCA = Condition("grpo", "GRPO", (run(1, "r1"),)), Condition("slca", "SLCA-GRPO", (run(1, "r2"), run(2, "r3")))
SFT, WO_SLCA = Condition("sft", "SFT", (run(1, "r0"),)), Condition("wo_slca", "w/o SLCA", shares_run_of="grpo")
CONDITIONS = [SFT, GRPO, SLCA, WO_SLCA]
OVERVIEW = Overview(
    study="toy",
    backbone=None,
    values={},
    labels={"toucan_test": ["judge: j"], "bfcl_v3": ["as released"], "tau2": ["as packed"]},
    user=["user: u"],
    training={"grpo": ["judge: j"], "slca": ["judge: j"]},
    runs={one.name: one.runs for one in CONDITIONS},
)
OF = {
    "toucan_test": ("single-turn", "greedy", ("process", "success_process")),
    "bfcl_v3": ("simple", "greedy", ("correct",)),
    "tau2": ("airline", "sampled", ("success",)),
}


def rows(benchmark: str, condition: str, values: dict[str, float], *, seed: int = 1, trial: int = 0, subset: str = "") -> list[Row]:
    """Item -> the value that all metrics of a benchmark have."""
    named, sampling, metrics = OF[benchmark]
    return [
        (condition, seed, benchmark, subset or named, item, trial, sampling, metric, value)
        for item, value in values.items()
        for metric in metrics
    ]


def verdicts(text: str) -> dict[str, float]:
    return {str(at): float(verdict) for at, verdict in enumerate(text)}


def measured(lines: list[Row], conditions: list[Condition] = CONDITIONS) -> Differences:
    found = differences.measure(table_of(lines), conditions)
    assert found
    return found


@pytest.fixture(scope="module")
def everything() -> list[Row]:
    rng = np.random.default_rng(0)
    return [
        row
        for benchmark in OF
        for condition in ("sft", "grpo", "slca")
        for row in rows(benchmark, condition, verdicts("".join(rng.choice(["0", "1"], 40))))
    ]


def test_every_benchmark_that_was_run_has_its_columns_and_its_items(everything):
    section = differences.section(measured(everything), OVERVIEW)
    assert section.head == [
        "Condition",
        "Toucan-Test Success@0.9 (process), points",
        "Toucan-Test process, points",
        "Toucan-Test items",
        "BFCL V3 correct, points",
        "BFCL V3 items",
        "tau2-bench success, points",
        "tau2-bench tasks",
    ]
    assert list(texts(section)) == ["SFT", "SLCA-GRPO"], "the baseline and its shared run are no lines"
    assert {texts(section)["SFT"][column] for column in section.head if column.endswith(("items", "tasks"))} == {"40"}
    assert sum("not one" in note or "power" in note for note in section.notes) == 4
    assert any("BFCL V3: of all items asked" in note and "no difference of means of subsets" in note for note in section.notes)
    assert sum(note.startswith("tau2-bench:") for note in section.notes) == 1


def test_a_benchmark_that_was_not_run_has_no_column(everything):
    found = measured([row for row in everything if row[2] == "toucan_test"])
    assert differences.section(found, OVERVIEW).head[-1] == "Toucan-Test items"
    assert not any("tau2" in note or "BFCL" in note for note in differences.notes(found))


def test_a_cell_has_its_interval_its_corrected_p_the_runs_of_both_and_what_concerns_both(everything):
    found = measured(everything)
    column = COLUMNS[3]
    one = found.of(SLCA, column)
    entry = cells(differences.section(found, OVERVIEW))["SLCA-GRPO"]["tau2-bench success, points"]
    low, high = (f"{100 * bound:+.1f}" for bound in one.interval)
    assert (entry.text, entry.small) == (f"{100 * one.mean:+.1f}", f"[{low}, {high}], p {format_p(one.p_holm)}")
    assert [run.mark for run in entry.runs] == ["1", "2", "GRPO 1"]
    assert entry.remarks == ("as packed", "user: u", "Trained with judge: j.")
    toucan = cells(differences.section(found, OVERVIEW))["SFT"]["Toucan-Test process, points"]
    assert toucan.remarks == ("judge: j",)


@pytest.mark.parametrize("benchmark", OF)
def test_verdicts_are_judged_by_mcnemar_and_corrected_for_the_arms_of_the_column(benchmark):
    given = {"grpo": "1100110000", "slca": "1111111100", "sft": "1000110000"}
    found = measured([row for name, text in given.items() for row in rows(benchmark, name, verdicts(text))])
    for column in found.columns:
        raw = {name: stats.binomtest(wins, disagreements).pvalue for name, wins, disagreements in (("slca", 4, 4), ("sft", 0, 1))}
        assert {name: one.p for name, one in found.found[column.metric].items()} == pytest.approx(raw)
        assert {name: one.p_holm for name, one in found.found[column.metric].items()} == pytest.approx(holm(raw))
        assert found.of(SLCA, column).mean == pytest.approx(0.4)


def test_seeds_and_trials_of_a_task_are_averaged_before_tasks_are_paired():
    lines = rows("tau2", "grpo", verdicts("0101"))
    given = {(1, 0): "1111", (1, 1): "0111", (2, 0): "0101"}
    for (seed, trial), text in given.items():
        lines += rows("tau2", "slca", verdicts(text), seed=seed, trial=trial)
    one = measured(lines).of(SLCA, COLUMNS[3])
    differing = np.array([0.25, 0.0, 0.5, 0.0])  # Means of seed 1 are 0.5, 1, 1, 1, of seed 2 0, 1, 0, 1.
    assert (one.n_items, one.mean) == (4, pytest.approx(differing.mean()))
    assert one.p == pytest.approx(stats.ttest_1samp(differing, 0).pvalue), "shares are no verdicts"


def test_equal_names_in_two_subsets_are_two_items():
    lines = [
        row
        for condition, values in (("grpo", ("00", "11")), ("slca", ("11", "11")))
        for subset, text in zip(("airline", "retail"), values, strict=True)
        for row in rows("tau2", condition, verdicts(text), subset=subset)
    ]
    one = measured(lines).of(SLCA, COLUMNS[3])
    assert (one.n_items, one.mean) == (4, 0.5)


def test_failed_trials_enter_nothing():
    lines = rows("bfcl_v3", "grpo", verdicts("0000")) + rows("bfcl_v3", "slca", verdicts("1100"))
    failed = [("slca", 1, "bfcl_v3", "simple", "0", 0, "greedy", "error", 1.0)]
    one = measured(lines + failed).of(SLCA, COLUMNS[2])
    assert (one.n_items, one.mean) == (3, pytest.approx(1 / 3))


def test_the_mock_domain_enters_no_difference_unless_it_is_alone():
    mock = [row for name, text in (("grpo", "00"), ("slca", "11")) for row in rows("tau2", name, verdicts(text), subset="mock")]
    airline = [row for name, text in (("grpo", "00"), ("slca", "01")) for row in rows("tau2", name, verdicts(text))]
    assert measured(mock).of(SLCA, COLUMNS[3]).mean == 1.0
    assert measured(mock + airline).of(SLCA, COLUMNS[3]).mean == 0.5


def test_a_shared_run_is_no_comparison_of_its_own():
    lines = [
        row for name, text in (("grpo", "0011"), ("slca", "0111"), ("sft", "1011")) for row in rows("bfcl_v3", name, verdicts(text))
    ]
    again = Condition("again", "Again", shares_run_of="slca")
    found = measured(lines, [*CONDITIONS, again])
    assert found.of(again, COLUMNS[2]) == found.of(SLCA, COLUMNS[2])
    assert "2 comparisons" in differences.smallest_effects(found)[0]


def test_without_a_baseline_or_common_items_nothing_is_compared():
    assert differences.measure(table_of([]), [SLCA]) is None
    assert differences.to_json(None)["differences_to_baseline"] == {}
    apart = rows("bfcl_v3", "grpo", {"a": 0, "b": 1}) + rows("bfcl_v3", "slca", {"b": 1, "c": 1})
    assert measured(apart).compared == []


def test_what_size_would_be_missed_is_said_and_where_nothing_differs_that_nothing_can_be(everything):
    sentences = differences.smallest_effects(measured(everything))
    assert [sentence.partition(":")[0] for sentence in sentences] == [column.title for column in COLUMNS]
    assert all("80% power, 2 comparisons" in sentence for sentence in sentences)
    same = measured(rows("bfcl_v3", "grpo", verdicts("0011")) + rows("bfcl_v3", "slca", verdicts("0011")))
    (sentence,) = differences.smallest_effects(same)
    assert "without spread" in sentence


def test_the_order_of_rows_changes_nothing(everything):
    items: pd.DataFrame = table_of(everything)
    assert differences.measure(items.sample(frac=1, random_state=0), CONDITIONS) == differences.measure(items, CONDITIONS)


def test_json_has_each_difference_of_each_condition(everything):
    stored = json.loads(json.dumps(differences.to_json(measured(everything)), allow_nan=False))
    assert stored["baseline"] == "grpo"
    assert stored["differences_to_baseline"]["wo_slca"] == dict.fromkeys(column.metric for column in COLUMNS)
    assert {one["benchmark"] for one in stored["differences_to_baseline"]["slca"].values()} == OF.keys()
    assert len(stored["smallest_effects"]) == 4


def test_all_at_once_are_each_alone_but_for_the_correction(everything):
    trials = usable(table_of(everything), "bfcl_v3")
    found = compare_all(trials, ["slca", "grpo", "sft", "slca"], "grpo", "correct", "greedy")
    assert {name: replace(one, p_holm=None) for name, one in found.items()} == {
        name: compare(trials, name, "grpo", "correct", "greedy") for name in ("slca", "sft")
    }


@pytest.mark.parametrize(("p", "text"), [(0.0, "< 0.001"), (0.0312, "0.031"), (0.25, "0.25"), (1.0, "1.00")])
def test_a_p_is_never_written_as_zero(p, text):
    assert format_p(p) == text
