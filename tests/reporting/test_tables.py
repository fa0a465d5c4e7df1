"""The main table and the paired differences, against values worked out by hand and against scipy."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from slca_core.errors import DataError
from slca_core.reporting import differences
from slca_core.reporting.comparison import PairedDifference
from slca_core.reporting.comparison import paired_difference as paired_difference_of
from slca_core.reporting.paper import published, published_difference, published_gain
from slca_core.reporting.sections import Entry
from slca_core.reporting.tables import COLUMNS, Condition, main_table
from slca_core.reporting.toucan import by_subset, section, to_json
from slca_core.results import TOUCAN_METRICS
from tests.support.frames import cells, run, table_of, texts

GRPO = Condition("grpo", "GRPO", runs=(run(1, "run-grpo"), run(2, "run-grpo-2")), labels=("stand-in judge",))
SLCA = Condition("slca", "SLCA-GRPO", runs=(run(1, "run-slca"),))
WO_SLCA = Condition("wo_slca", "w/o SLCA", shares_run_of="grpo")


def results(
    *rows: tuple[str, int, str, float], metric: str = "process", trial: int = 0, benchmark: str = "toucan_test"
) -> pd.DataFrame:
    """Rows of (condition, seed, item, value) as the long table."""
    sampling = "sampled" if trial else "greedy"
    return table_of(
        (condition, seed, benchmark, "single-turn", item, trial, sampling, metric, value) for condition, seed, item, value in rows
    )


def paired_difference(items: pd.DataFrame, *compared: str, seed: int | None = None) -> PairedDifference:
    return paired_difference_of(items, *compared, benchmark="toucan_test", seed=seed)


def cell_of(items: pd.DataFrame, condition: str = "grpo", column: str = "process"):
    table = main_table(items, [GRPO, SLCA], backbone=None)
    row = next(row for row in table.rows if row.condition.name == condition)
    return row.cells[[each.key for each in table.columns].index(column)]


def random_pair(n_items: int = 30) -> pd.DataFrame:
    values = np.random.default_rng(3).random((2, n_items))
    return results(*((name, 1, f"i{i}", values[row, i]) for row, name in enumerate(("slca", "grpo")) for i in range(n_items)))


def test_a_cell_is_the_mean_over_seeds_of_means_over_items_with_the_sample_std_of_seeds():
    cell = cell_of(
        results(("grpo", 1, "a", 0.0), ("grpo", 1, "b", 1.0), ("grpo", 2, "a", 0.8), ("grpo", 3, "a", 0.2), ("grpo", 3, "b", 0.0))
    )
    assert cell.mean == pytest.approx((0.5 + 0.8 + 0.1) / 3)
    assert cell.std == pytest.approx(np.std([0.5, 0.8, 0.1], ddof=1))
    assert (cell.n_items, cell.n_seeds) == (2, 3)


def test_one_seed_has_no_spread():
    assert cell_of(results(("grpo", 1, "a", 0.5), ("grpo", 1, "b", 1.0))).std is None


def test_an_items_trials_count_once_however_many_there_are():
    many = [results(("grpo", 1, "a", value), trial=trial) for trial, value in enumerate((1.0, 1.0, 1.0), start=1)]
    items = pd.concat([*many, results(("grpo", 1, "b", 0.0), trial=1)])
    assert cell_of(items, column="process@T=1").mean == pytest.approx(0.5)
    assert cell_of(items, column="process") is None


def test_sampled_column_is_there_only_with_sampled_trials_and_named_by_temperature():
    greedy, sampled = results(("grpo", 1, "a", 1.0)), results(("grpo", 1, "a", 1.0), trial=1)
    assert main_table(greedy, [GRPO], backbone=None).columns == COLUMNS
    assert main_table(sampled, [GRPO], backbone=None, temperature=0.7).columns[-1].key == "process@T=0.7"


def test_columns_follow_the_contract_and_errors_are_a_count():
    assert [column.key for column in COLUMNS] == [metric for metric in TOUCAN_METRICS if metric != "error"]


def test_infrastructure_errors_enter_no_metric_and_are_counted():
    items = pd.concat(
        [
            results(("grpo", 1, "a", 0.4), ("grpo", 1, "b", 0.0), ("slca", 1, "b", 0.0)),
            results(("grpo", 1, "a", 0.0), ("grpo", 1, "b", 1.0), ("slca", 1, "b", 0.0), metric="error"),
        ]
    )
    row = main_table(items, [GRPO, SLCA, WO_SLCA], backbone=None).rows[0]
    assert cell_of(items).mean == pytest.approx(0.4)
    assert cell_of(items, "slca").mean == 0.0
    assert (row.n_errors, row.n_rollouts) == (1, 2)


def test_errors_of_a_shared_run_are_reported_once():
    items = results(("grpo", 1, "a", 1.0), metric="error")
    notes = main_table(items, [GRPO, WO_SLCA], backbone=None).notes
    assert any("infrastructure error: 1." in note for note in notes)


def test_other_benchmarks_are_left_out():
    items = pd.concat([results(("grpo", 1, "a", 0.4)), results(("grpo", 1, "a", 1.0), benchmark="bfcl_v3")])
    assert cell_of(items).mean == pytest.approx(0.4)


def test_a_shared_arm_shows_the_run_it_shares_and_says_so():
    table = main_table(random_pair(), [GRPO, SLCA, WO_SLCA], backbone="qwen2.5-7b")
    grpo, _, shared = table.rows
    assert shared.cells == grpo.cells
    line = cells(section(table))["w/o SLCA"]
    assert line["Condition"] == Entry("w/o SLCA", "(shares the run of GRPO)")
    assert line["Process, %"].runs == line["Run"].runs == GRPO.runs
    assert any(note.startswith("w/o SLCA is a shared run") for note in table.notes)


@pytest.mark.parametrize("conditions", [[WO_SLCA], [GRPO, WO_SLCA, Condition("other", "Other", shares_run_of="wo_slca")]])
def test_sharing_with_a_condition_without_a_run_is_refused(conditions):
    with pytest.raises(DataError, match="expected to share the run"):
        main_table(random_pair(), conditions, backbone=None)


def test_a_condition_without_results_is_an_empty_row_with_a_note():
    table = main_table(results(("grpo", 1, "a", 1.0)), [GRPO, SLCA], backbone=None)
    assert not any(table.rows[1].cells)
    assert "No results yet: SLCA-GRPO." in table.notes


def test_paired_difference_agrees_with_the_paired_t_test():
    items = random_pair()
    difference = paired_difference(items, "slca", "grpo", "process", "greedy")
    ours, theirs = (items.loc[items["condition"] == name, "value"].to_numpy() for name in ("slca", "grpo"))
    expected = stats.ttest_rel(ours, theirs)
    assert difference.z == pytest.approx(expected.statistic)
    assert difference.standard_error == pytest.approx(expected._standard_error)
    assert difference.interval[0] < difference.mean < difference.interval[1]


def test_paired_difference_ignores_the_order_of_rows_and_flips_its_sign_with_the_conditions():
    items = random_pair()
    forward = paired_difference(items, "slca", "grpo", "process", "greedy")
    assert paired_difference(items.sample(frac=1, random_state=0), "slca", "grpo", "process", "greedy") == forward
    assert paired_difference(items, "grpo", "slca", "process", "greedy").mean == -forward.mean


def test_paired_difference_takes_the_items_both_have():
    items = results(
        ("slca", 1, "a", 1.0), ("slca", 1, "b", 0.5), ("slca", 1, "c", 0.9), ("grpo", 1, "a", 0.0), ("grpo", 1, "b", 0.1)
    )
    difference = paired_difference(items, "slca", "grpo", "process", "greedy")
    assert (difference.mean, difference.n_items) == (pytest.approx(0.7), 2)


def test_paired_difference_of_one_seed_sees_no_other():
    items = pd.concat(
        [random_pair(), random_pair().assign(seed=2, value=lambda frame: (frame["condition"] == "slca").astype(float))]
    )
    assert paired_difference(items, "slca", "grpo", "process", "greedy", seed=2).mean == 1.0


@pytest.mark.parametrize(("ours", "z"), [(0.5, 0.0), (1.0, math.inf), (0.0, -math.inf)])
def test_items_that_differ_alike_have_an_infinite_z_which_json_leaves_out(ours, z):
    items = results(*(("grpo", 1, item, 0.5) for item in "abc"), *(("slca", 1, item, ours) for item in "abc"))
    assert paired_difference(items, "slca", "grpo", "process", "greedy").z == z
    json.dumps(differences.to_json(differences.measure(items, [GRPO, SLCA])), allow_nan=False)


def test_fewer_than_two_common_items_are_refused():
    with pytest.raises(DataError, match="at least two"):
        paired_difference(results(("slca", 1, "a", 1.0), ("grpo", 1, "a", 0.0)), "slca", "grpo", "process", "greedy")


def test_json_names_values_runs_and_labels_by_condition():
    values = to_json(main_table(random_pair(), [GRPO, SLCA, WO_SLCA], backbone="qwen2.5-7b"))
    assert json.loads(json.dumps(values)) == values
    assert values["values"]["wo_slca"] == values["values"]["grpo"]
    assert values["spread"]["grpo"]["process"] is None
    assert values["run_ids"] == {"grpo": "run-grpo", "slca": "run-slca", "wo_slca": "run-grpo"}
    assert [one["seed"] for one in values["runs"]["wo_slca"]] == [1, 2]
    assert values["labels"] == ["stand-in judge"]
    assert values["paper"]["values"]["slca"]["mean"] == 79.13


def test_the_table_has_shares_in_per_cent_linked_to_their_runs_with_the_stand_ins_as_footnotes():
    items, labels = results(("grpo", 1, "a", 0.25), ("grpo", 2, "a", 0.75)), ("stand-in mocker", "stand-in judge")
    made = section(main_table(items, [GRPO], backbone=None, labels=labels))
    found = cells(made)["GRPO"]
    assert found["Process, %"] == Entry("50.0", "± 35.4", GRPO.runs, labels), "those of training are named once"
    assert made.footnotes == {"a": "stand-in mocker", "b": "stand-in judge"}
    assert made.marks(found["Process, %"]) == ["a", "b"]
    assert made.marks(found["Errors"]) == made.marks(found["Paper"]) == []
    assert found["Run"] == Entry("run-grpo", runs=GRPO.runs)


def test_each_subset_has_a_table_of_its_own_in_the_order_of_the_paper():
    shares = {"decomposed": (0.0, 1.0, 1.0), "single-turn": (0.25, 0.75)}
    items = table_of(
        ("grpo", seed, "toucan_test", subset, f"{subset}{at}", 0, "greedy", metric, value * seed / 2)
        for seed in (1, 2)
        for subset, values in shares.items()
        for metric in ("process", "success_process")
        for at, value in enumerate(values)
    )
    single, decomposed = by_subset(items, main_table(items, [GRPO, SLCA], backbone=None))
    assert [single.title, decomposed.title] == ["Toucan-Test by subset: single-turn", "Toucan-Test by subset: decomposed"]
    # Means under the two seeds: 0.25 and 0.5, 1/3 and 2/3.
    assert texts(single)["GRPO"]["Process, %"] == "37.5 ± 17.7"
    assert texts(decomposed)["GRPO"]["Success@0.9 (process), %"] == "50.0 ± 23.6"
    assert (texts(single)["GRPO"]["Items"], texts(decomposed)["GRPO"]["Items"]) == ("2", "3")
    assert texts(single)["SLCA-GRPO"] == dict.fromkeys(single.head, "–") | {"Condition": "SLCA-GRPO"}


def test_the_papers_grpo_is_its_row_without_slca():
    for benchmark in ("toucan_test", "bfcl_v3", "tau2"):
        assert published("qwen2.5-7b", "wo_slca", benchmark) == published("qwen2.5-7b", "grpo", benchmark)


def test_published_gains_agree_with_the_published_figures():
    for backbone in ("qwen2.5-7b", "qwen3-8b"):
        for benchmark in ("toucan_test", "bfcl_v3", "tau2"):
            slca, grpo = (published(backbone, name, benchmark) for name in ("slca", "grpo"))
            if slca and grpo:
                assert published_gain(backbone, benchmark).mean == pytest.approx(slca.mean - grpo.mean)


def test_what_the_method_gains_over_the_papers_run_without_slca_is_its_published_gain():
    assert published_difference("qwen2.5-3b", "slca", "wo_slca", "toucan_test") == published_gain("qwen2.5-3b", "toucan_test")
    assert published_difference("qwen2.5-3b", "slca", "wo_sgls", "tau2") is None
    assert published_difference("qwen2.5-7b", "slca", "wo_sgls", "tau2").mean == pytest.approx(41.02 - 36.19)


@pytest.mark.parametrize(
    ("backbone", "condition"), [(None, "slca"), ("qwen2.5-7b", "sft"), ("qwen2.5-7b", "sft_full"), ("other", "slca")]
)
def test_what_was_not_published_is_none(backbone, condition):
    assert published(backbone, condition, "toucan_test") is None


def test_an_unknown_backbone_is_named_below_the_table():
    assert any("'other'" in note for note in main_table(random_pair(), [GRPO], backbone="other").notes)


def test_the_p_of_a_mean_is_the_paired_t_tests_and_of_verdicts_mcnemars():
    shares = results(*[("slca", 1, item, 0.1 * at) for at, item in enumerate("abcd")], *[("grpo", 1, item, 0.2) for item in "abcd"])
    difference = paired_difference(shares, "slca", "grpo", "process", "greedy")
    assert difference.p == pytest.approx(stats.ttest_rel([0, 0.1, 0.2, 0.3], [0.2] * 4).pvalue)
    verdicts = results(*[("slca", 1, item, 1.0) for item in "abcd"], *[("grpo", 1, item, float(item == "a")) for item in "abcd"])
    assert paired_difference(verdicts, "slca", "grpo", "process", "greedy").p == pytest.approx(stats.binomtest(3, 3).pvalue)
    assert difference.p_holm is None, "alone it is no family"
