"""BFCL's figures from the accuracies of its categories, and the report's table of them."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from slca_core.analysis.statistics import bootstrap_strata
from slca_core.benchmarks import bfcl
from slca_core.config import BFCL_SIZES, BfclConfig
from slca_core.reporting import bfcl as table
from slca_core.reporting.tables import Condition
from slca_core.results import as_table
from tests.support.frames import cells, run, texts

SLCA, GRPO = Condition("slca", "SLCA-GRPO", runs=(run(1, "run-1"), run(2, "run-2"))), Condition("grpo", "GRPO")


def lines(**right: int) -> list[dict]:
    """Ten items of each category, so many of them right."""
    return [
        {
            **{"id": f"{category}_{at}", "category": category, "valid": at < count, "overflow": at == 9, "error": None},
            "seconds": 0.5,
        }
        for category, count in right.items()
        for at in range(10)
    ]


def items_of(found: list[dict], seed: int = 1) -> pd.DataFrame:
    """Lines as SLCA's rows of a report's table."""
    return as_table(bfcl.as_trials(found), bfcl.NAME, checkpoint="c", seed=seed).assign(study="toy", condition="slca")


def test_the_paper_ran_thirteen_subsets():
    assert BfclConfig().categories == bfcl.PAPER
    assert len(bfcl.PAPER) == 13


def test_a_category_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(ValidationError, match="BFCL V3 has no category exec_simple; it has simple, java"):
        BfclConfig(categories=("exec_simple",))


def test_means_are_of_the_subsets_and_none_where_one_is_missing():
    accuracies = {name: at / 100 for at, name in enumerate(bfcl.PAPER)}
    found = bfcl.figures(accuracies)
    assert found["paper_mean"] == pytest.approx(fmean(accuracies.values()))
    assert found["single_turn"] == pytest.approx(fmean(list(accuracies.values())[:10]))
    assert found["multi_turn"] == pytest.approx(0.11)
    assert found["overall"] is None
    assert bfcl.figures({"simple": 1.0}) == {"paper_mean": None, "single_turn": None, "multi_turn": None, "overall": None}


def test_the_overall_figure_is_bfcls():
    accuracies = dict.fromkeys(BFCL_SIZES, 0.0) | {"irrelevance": 1.0, "live_irrelevance": 1.0}
    live = 882 / (258 + 1053 + 16 + 24 + 882 + 18)
    assert bfcl.figures(accuracies)["overall"] == pytest.approx((1 / 5 + live + 0) / 3)


def test_the_table_has_ours_beside_the_papers_and_says_what_was_asked():
    made = ((1, 4), (2, 6))
    items = pd.concat([items_of(lines(**dict.fromkeys(bfcl.PAPER, right)), seed) for seed, right in made])
    section = table.section(items, [SLCA, GRPO], backbone="qwen2.5-7b", limit=10, categories=bfcl.PAPER)
    slca, grpo = texts(section)["SLCA-GRPO"], texts(section)["GRPO"]
    assert slca["Mean, %"].startswith("50.0 ± 14.1 [")
    assert (slca["Paper, %"], slca["Overflows"], slca["Errors"]) == ("69.77 ± 0.47", "26", "0 of 260")
    assert (grpo["All items asked, %"], grpo["Paper, %"], grpo["Run"]) == ("–", "68.41 ± 0.11", "–")
    assert "BFCL's overall, %" not in section.head
    assert any("the first 10 items of each" in note for note in section.notes)
    assert table.to_json(items, [SLCA, GRPO], 10)["figures"]["slca"]["paper_mean"] == pytest.approx({1: 0.4, 2: 0.6})


def test_ours_carry_the_release_and_the_limit_as_footnotes_and_the_papers_do_not():
    items = items_of(lines(**dict.fromkeys(bfcl.PAPER, 4)))
    section = table.section(items, [SLCA], backbone="qwen2.5-7b", limit=10, categories=bfcl.PAPER)
    assert list(section.footnotes.values()) == [f"{bfcl.LABEL}.", "The first 10 items of each category: not BFCL's figures."]
    line = cells(section)["SLCA-GRPO"]
    assert section.marks(line["Mean, %"]) == section.marks(line["All items asked, %"]) == ["a", "b"]
    assert section.marks(line["Paper, %"]) == section.marks(line["Errors"]) == []
    assert line["Mean, %"].runs == SLCA.runs


def test_figures_of_a_trained_condition_name_the_stand_ins_of_its_training():
    trained, items = replace(SLCA, labels=("mocker: m", "judge: j")), items_of(lines(**dict.fromkeys(bfcl.PAPER, 4)))
    section = table.section(items, [trained], backbone=None, limit=None, categories=bfcl.PAPER, notes=["A toy."])
    assert list(section.footnotes.values()) == [f"{bfcl.LABEL}.", "Trained with mocker: m; judge: j."]
    assert section.notes[0] == "A toy."


@pytest.mark.parametrize("categories", [bfcl.PAPER, tuple(BFCL_SIZES), bfcl.SINGLE_TURN, ("simple",)])
def test_a_figure_is_the_weighted_sum_of_its_categories(categories):
    accuracies = dict(zip(categories, np.random.default_rng(0).random(len(categories)), strict=True))
    found = {name: np.dot(weights, list(accuracies.values())) for name, weights in table.weights(categories).items()}
    assert found == pytest.approx({name: value for name, value in bfcl.figures(accuracies).items() if value is not None})


def test_an_interval_is_of_items_drawn_within_their_category_all_seeds_of_an_item_together():
    made = {1: (2, 6), 2: (4, 8)}
    seeds = [
        items_of(lines(**dict.fromkeys(bfcl.SINGLE_TURN, a), **dict.fromkeys(bfcl.PAPER[10:], b)), seed)
        for seed, (a, b) in made.items()
    ]
    (found,) = table.intervals(pd.concat(seeds), [SLCA, GRPO], None).values()
    single, multi = [1.0] * 2 + [0.5] * 2 + [0.0] * 6, [1.0] * 6 + [0.5] * 2 + [0.0] * 2
    values = [np.array(multi if "multi_turn" in name else single) for name in sorted(bfcl.PAPER)]
    (expected,) = bootstrap_strata(values, np.full((1, 13), 1 / 13))
    assert (found["paper_mean"].low, found["paper_mean"].high) == pytest.approx((expected.low, expected.high))
    assert found["paper_mean"].low < (10 * 0.3 + 3 * 0.7) / 13 < found["paper_mean"].high
    assert found.keys() == {"paper_mean", "single_turn", "multi_turn"}


@pytest.mark.parametrize(("limit", "there"), [(None, True), (10, False)])
def test_bfcls_overall_is_of_whole_categories(limit, there):
    items = items_of(lines(**dict.fromkeys(BFCL_SIZES, 4)))
    section = table.section(items, [SLCA], backbone=None, limit=limit, categories=tuple(BFCL_SIZES))
    assert ("BFCL's overall, %" in section.head) is there
    stored = table.to_json(items, [SLCA], limit)
    assert ("overall" in stored["figures"]["slca"]) is ("overall" in stored["intervals"]["slca"]) is there


def test_an_item_that_met_an_error_enters_no_figure():
    broken = [line | {"error": "gone"} for line in lines(simple=0)[:5]] + lines(simple=10)[5:]
    section = table.section(items_of(broken), [SLCA], backbone=None, limit=None, categories=("simple",))
    assert cells(section)["SLCA-GRPO"]["All items asked, %"].text == "100.0"
    assert texts(section)["SLCA-GRPO"]["Errors"] == "5 of 10"
