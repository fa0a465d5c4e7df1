"""BFCL's figures from the accuracies of its categories, and the report's table of them."""

from __future__ import annotations

from statistics import fmean

import pandas as pd
import pytest
from pydantic import ValidationError

from slca_core.benchmarks import bfcl
from slca_core.config import BFCL_SIZES, BfclConfig
from slca_core.reporting import bfcl as table
from slca_core.reporting.tables import Condition

SLCA, GRPO = Condition("slca", "SLCA-GRPO", run_id="run-1"), Condition("grpo", "GRPO")


def lines(**right: int) -> list[dict]:
    """Ten items of each category, so many of them right."""
    return [
        {"id": f"{category}_{at}", "category": category, "valid": at < count, "overflow": at == 9, "error": None}
        for category, count in right.items()
        for at in range(10)
    ]


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
    items = pd.concat(
        [bfcl.as_items(lines(**dict.fromkeys(bfcl.PAPER, right)), condition="slca", seed=seed) for seed, right in made]
    )
    section = table.section(items, [SLCA, GRPO], backbone="qwen2.5-7b", limit=10, categories=bfcl.PAPER)
    slca, grpo = (dict(zip(section.head, row, strict=True)) for row in section.rows)
    assert (slca["Mean, %"], slca["Paper, %"], slca["Overflows"], slca["Errors"]) == (
        "50.0 ± 14.1",
        "69.77 ± 0.47",
        "26",
        "0 of 260",
    )
    assert (grpo["All items asked, %"], grpo["Paper, %"], grpo["Run"]) == ("–", "68.41 ± 0.11", "–")
    assert "BFCL's overall, %" not in section.head
    assert any("the first 10 items of each: not BFCL's figures" in note for note in section.notes)
    assert bfcl.LABEL in section.notes[0]
    assert table.to_json(items, [SLCA, GRPO])["figures"]["slca"]["paper_mean"] == pytest.approx([0.4, 0.6])


def test_an_item_that_met_an_error_enters_no_figure():
    broken = [line | {"error": "gone"} for line in lines(simple=0)[:5]] + lines(simple=10)[5:]
    items = bfcl.as_items(broken, condition="slca", seed=1)
    section = table.section(items, [SLCA], backbone=None, limit=None, categories=("simple",))
    (row,) = section.rows
    assert dict(zip(section.head, row, strict=True))["All items asked, %"] == "100.0"
    assert dict(zip(section.head, row, strict=True))["Errors"] == "5 of 10"
