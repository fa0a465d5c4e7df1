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
from slca_core.results import as_table
from tests.reporting.frames import cells, run, texts

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
    assert (slca["Mean, %"], slca["Paper, %"], slca["Overflows"], slca["Errors"]) == (
        "50.0 ± 14.1",
        "69.77 ± 0.47",
        "26",
        "0 of 260",
    )
    assert (grpo["All items asked, %"], grpo["Paper, %"], grpo["Run"]) == ("–", "68.41 ± 0.11", "–")
    assert "BFCL's overall, %" not in section.head
    assert any("the first 10 items of each" in note for note in section.notes)
    assert table.to_json(items, [SLCA, GRPO])["figures"]["slca"]["paper_mean"] == pytest.approx({1: 0.4, 2: 0.6})


def test_ours_carry_the_release_and_the_limit_as_footnotes_and_the_papers_do_not():
    items = items_of(lines(**dict.fromkeys(bfcl.PAPER, 4)))
    section = table.section(items, [SLCA], backbone="qwen2.5-7b", limit=10, categories=bfcl.PAPER)
    assert list(section.footnotes.values()) == [f"{bfcl.LABEL}.", "The first 10 items of each category: not BFCL's figures."]
    line = cells(section)["SLCA-GRPO"]
    assert section.marks(line["Mean, %"]) == section.marks(line["All items asked, %"]) == ["a", "b"]
    assert section.marks(line["Paper, %"]) == section.marks(line["Errors"]) == []
    assert line["Mean, %"].runs == SLCA.runs


def test_an_item_that_met_an_error_enters_no_figure():
    broken = [line | {"error": "gone"} for line in lines(simple=0)[:5]] + lines(simple=10)[5:]
    section = table.section(items_of(broken), [SLCA], backbone=None, limit=None, categories=("simple",))
    assert texts(section)["SLCA-GRPO"]["All items asked, %"] == "100.0"
    assert texts(section)["SLCA-GRPO"]["Errors"] == "5 of 10"
