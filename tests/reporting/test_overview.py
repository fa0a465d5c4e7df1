"""The paper's main, ablation and cross-scale tables: every published figure is in them, ours stands beside it."""

from __future__ import annotations

import json

import pytest

from slca_core.benchmarks import bfcl
from slca_core.errors import ConfigError
from slca_core.reporting import cross_scale, overview
from slca_core.reporting.overview import Overview
from slca_core.reporting.paper import BACKBONES
from slca_core.reporting.tables import Condition
from tests.support.frames import cells, run, table_of, texts

TOUCAN, BFCL, TAU2 = "Toucan-Test Success@0.9", "BFCL V3 accuracy", "tau2-bench Pass^1"
HEAD = [
    "Condition",
    *(f"{figure}{paper}, %" for figure in (TOUCAN, BFCL, TAU2) for paper in ("", ", paper")),
]
# Section 2.1 of the paper's page: Toucan, BFCL, tau2.
PUBLISHED = {
    "qwen2.5-7b": {
        "GRPO": ("76.60 ± 1.27", "68.41 ± 0.11", "31.87 ± 2.97"),
        "w/o SLCA": ("76.60 ± 1.27", "68.41 ± 0.11", "31.87 ± 2.97"),
        "SLCA-GRPO": ("79.13 ± 1.05", "69.77 ± 0.47", "41.02 ± 1.01"),
        "w/o SGLS": ("78.02 ± 1.12", "68.75 ± 0.48", "36.19 ± 1.95"),
        "w/o HierR": ("73.44 ± 1.21", "69.07 ± 0.46", "34.50 ± 1.44"),
        "ToolPO (LLM judge)": ("20.00 ± 1.36", "24.59 ± 0.87", "30.44 ± 2.15"),
        "ToolPO (reference rule)": ("77.35 ± 1.19", "68.86 ± 0.43", "34.18 ± 2.42"),
        "RLTR": ("–", "–", "33.72"),
        "SLCA, execution reward": ("76.43 ± 1.21", "67.61 ± 0.51", "30.18 ± 1.76"),
        "GRPO, execution reward": ("73.51 ± 1.45", "66.28 ± 0.32", "25.54 ± 2.13"),
        "SLCA, HierR uniform": ("–", "~69.18", "~38.62"),
    },
    "qwen2.5-3b": {"SLCA-GRPO": ("–", "–", "35.63"), "RLTR": ("–", "–", "28.50")},
    "qwen3-8b": {"SLCA-GRPO": ("–", "70.31", "–"), "GRPO": ("–", "66.96", "–"), "w/o SLCA": ("–", "66.96", "–")},
}
# Section 2.2.
GAINS = {
    "Qwen2.5-3B-Instruct": ("+2.35", "+0.40", "+1.09"),
    "Qwen2.5-7B-Instruct": ("+2.53", "+1.36", "+9.15"),
    "Qwen3-8B-Base": ("+2.05", "+3.35", "+10.03"),
}
SLCA = Condition("slca", "SLCA-GRPO", runs=(run(1, "run-1"), run(2, "run-2")))
GRPO, SGLS = Condition("grpo", "GRPO"), Condition("wo_sgls", "w/o SGLS")
LABELS = {"toucan_test": ("mocker: stand-in", "judge: stand-in"), "bfcl_v3": (bfcl.LABEL,), "tau2": ("as packed",)}
TRAINING = {"slca": ("mocker: stand-in", "judge: stand-in"), "grpo": ("mocker: stand-in", "judge: stand-in")}
TRAINED = "Trained with mocker: stand-in; judge: stand-in."
RUNS = {"slca": SLCA.runs, "grpo": (run(1, "run-3"), run(2, "run-4")), "wo_sgls": (run(1, "run-5"), run(2, "run-6"))}


def study(backbone: str | None = "qwen2.5-7b", name: str = "toy", **changes) -> Overview:
    """SLCA-GRPO under two seeds on all three, GRPO and w/o SGLS on Toucan-Test alone, and the floor."""
    values = {
        "slca": {"toucan_test": {1: 0.5, 2: 0.7}, "bfcl_v3": {1: 0.25, 2: 0.25}, "tau2": {1: 0.125, 2: 0.125}},
        "grpo": {"toucan_test": {1: 0.4, 2: 0.5}, "bfcl_v3": {}, "tau2": {}},
        "wo_sgls": {"toucan_test": {1: 0.45}, "bfcl_v3": {}, "tau2": {}},
        "do_nothing": {"toucan_test": {}, "bfcl_v3": {}, "tau2": {0: 0.3}},
    }
    known = {"labels": LABELS, "user": ("user: stand-in",), "training": TRAINING, "runs": RUNS}
    return Overview(name, backbone, values, **{**known, **changes})


@pytest.mark.parametrize("backbone", PUBLISHED)
def test_every_published_figure_can_be_read_though_nothing_was_run(backbone):
    section = overview.section(Overview("toy", backbone, {}), [])
    assert [getattr(cell, "text", cell) for cell in section.head] == HEAD
    found = {name: tuple(line[column] for column in HEAD if "paper" in column) for name, line in texts(section).items()}
    assert found == PUBLISHED[backbone]
    assert {line[column] for line in texts(section).values() for column in HEAD[1:] if "paper" not in column} == {"–"}


def test_a_derived_figure_says_from_what_and_no_other_does():
    section = overview.section(Overview("toy", "qwen2.5-7b", {}), [])
    line = cells(section)["SLCA, HierR uniform"]
    (mark,) = section.marks(line[f"{BFCL}, paper, %"])
    assert section.footnotes[mark] == "Derived: GRPO's 68.41 and the published gain over it of +0.77 points."
    assert "31.87 and the published gain over it of +6.75 points" in " ".join(section.footnotes.values())
    assert len(section.footnotes) == 2


def test_ours_stand_beside_the_papers_with_spread_runs_and_what_concerns_their_benchmark():
    section = overview.section(study(), [GRPO, SLCA])
    line = cells(section)["SLCA-GRPO"]
    assert texts(section)["SLCA-GRPO"][f"{TOUCAN}, %"] == "60.0 ± 14.1"
    marked = {column: [section.footnotes[mark] for mark in section.marks(cell)] for column, cell in line.items()}
    assert marked == {
        **{column: [] for column in HEAD},
        f"{TOUCAN}, %": ["mocker: stand-in", "judge: stand-in"],
        f"{BFCL}, %": [bfcl.LABEL, TRAINED],
        f"{TAU2}, %": [TRAINED, "as packed", "user: stand-in"],
    }
    assert {column for column, cell in line.items() if cell.runs} == {f"{TOUCAN}, %", f"{BFCL}, %", f"{TAU2}, %"}
    assert line[f"{TOUCAN}, %"].runs == SLCA.runs
    assert list(cells(section))[:2] == ["GRPO", "SLCA-GRPO"], "ours come first, in their order"
    assert texts(section)["RLTR"][f"{TAU2}, paper, %"] == "33.72"


def test_without_a_backbone_the_papers_columns_are_there_and_empty():
    section = overview.section(study(None), [SLCA, GRPO])
    assert list(texts(section)) == ["SLCA-GRPO", "GRPO", "Do-nothing agent (floor)"]
    assert not any("paper" in note for note in section.notes)
    assert {line[column] for line in texts(section).values() for column in HEAD if "paper" in column} == {"–"}


def test_an_ablation_is_the_method_minus_it_under_the_same_seeds_beside_the_papers_means():
    section = overview.ablation(study(), [SLCA, SGLS])
    found = texts(section)
    assert list(found) == ["minus w/o SLCA", "minus w/o SGLS", "minus w/o HierR"]
    assert found["minus w/o SGLS"][f"{TOUCAN}, points"] == "+5.0", "of the one seed that both have"
    papers = [tuple(line[f"{figure}, paper, points"] for figure in (TOUCAN, BFCL, TAU2)) for line in found.values()]
    assert papers == [("+2.53", "+1.36", "+9.15"), ("+1.11", "+1.02", "+4.83"), ("+5.69", "+0.70", "+6.52")]
    assert any("differences of its means, and its published gains over GRPO" in note for note in section.notes)
    assert overview.ablation(study(None), [SLCA]).rows == []


@pytest.mark.parametrize("backbone", ["qwen2.5-3b", "qwen3-8b"])
def test_without_slca_the_paper_loses_what_it_gains_over_grpo_on_every_backbone(backbone):
    found = texts(overview.ablation(study(backbone), []))
    assert list(found) == ["minus w/o SLCA"], "no other difference of this backbone is known"
    line = found["minus w/o SLCA"]
    assert tuple(line[f"{figure}, paper, points"] for figure in (TOUCAN, BFCL, TAU2)) == GAINS[BACKBONES[backbone]]


def test_a_difference_links_the_runs_of_both_and_carries_the_remarks_of_both():
    ours = cells(overview.ablation(study(training={"wo_sgls": ("judge: stand-in",)}), [SLCA, SGLS]))
    entry = ours["minus w/o SGLS"][f"{TOUCAN}, points"]
    assert [(one.run_id, one.mark) for one in entry.runs] == [("run-1", "1"), ("run-5", "w/o SGLS 1")], "of the seed both have"
    assert entry.remarks == ("mocker: stand-in", "judge: stand-in")
    across = cells(cross_scale.section([study()]))["Qwen2.5-7B-Instruct"][f"{TOUCAN}, points"]
    assert [one.mark for one in across.runs] == ["1", "2", "GRPO 1", "GRPO 2"]
    assert across.runs[2].title == "GRPO, seed 1, run run-3"


def test_the_floor_is_the_last_line_and_carries_what_holds_for_it():
    section = overview.section(study(), [SLCA])
    *_, last = section.rows
    line = dict(zip(HEAD, (getattr(cell, "text", cell) for cell in last), strict=True))
    assert line == dict.fromkeys(HEAD, "–") | {"Condition": "Do-nothing agent (floor)", f"{TAU2}, %": "30.0"}
    assert last[5].remarks == ("as packed",), "it asks no user, and nobody trained it"
    assert "Do-nothing agent (floor)" not in texts(overview.section(Overview("toy", None, {}), [SLCA]))


def test_across_backbones_every_published_gain_is_there_and_ours_in_the_row_of_our_backbone():
    section = cross_scale.section([study("qwen3-8b")])
    found = texts(section)
    assert {name: tuple(line.values())[2::2] for name, line in found.items()} == GAINS
    assert tuple(found["Qwen3-8B-Base"].values())[1::2] == ("+15.0 ± 7.1", "–", "–")
    assert tuple(found["Qwen2.5-3B-Instruct"].values())[1::2] == ("–", "–", "–")
    assert any("Qwen3-8B-Base by toy" in note for note in section.notes)


def test_several_studies_fill_the_rows_of_their_backbones():
    found = texts(cross_scale.section([study("qwen3-8b"), study("qwen2.5-3b", "other")], ["No report yet: third."]))
    assert [tuple(line.values())[1] for line in found.values()] == ["+15.0 ± 7.1", "–", "+15.0 ± 7.1"]


def test_two_studies_of_one_backbone_are_refused():
    with pytest.raises(ConfigError, match="first and second are both of qwen3-8b"):
        cross_scale.section([study("qwen3-8b", "first"), study("qwen3-8b", "second")])


@pytest.mark.parametrize(("backbone", "said"), [("qwen2.5-3b", "Qwen2.5-3B-Instruct"), ("other", None), (None, None)])
def test_whose_figures_the_papers_are_is_said_where_there_are_any(backbone, said):
    *_, note = overview.section(study(backbone), [SLCA]).notes
    assert ("The paper's" in note) is bool(said)
    assert said is None or f"{said}, of three runs where a spread stands beside the figure" in note


def test_a_toy_policy_is_said_below_each_table():
    toy = study(toy=True)
    sentence = "Ours are the figures of a toy policy made from scratch, beside the paper's of Qwen2.5-7B-Instruct: "
    sentence += "they are not comparable."
    for section in (overview.section(toy, [SLCA]), overview.ablation(toy, [SLCA, SGLS]), cross_scale.section([toy])):
        assert sentence in [*section.notes, *section.footnotes.values()]
    assert study().caveats() == []


def test_the_overview_survives_json_which_has_means_and_the_papers_figures():
    stored = json.loads(json.dumps(overview.to_json(study(toy=True))))
    read = overview.from_json(stored)
    assert overview.section(read, [SLCA, GRPO]) == overview.section(study(toy=True), [SLCA, GRPO])
    assert cross_scale.section([read]) == cross_scale.section([study(toy=True)])
    found = stored["values"]["slca"]["toucan_test"]
    assert (found["seeds"], found["mean"], found["paper"]["mean"]) == ({"1": 0.5, "2": 0.7}, pytest.approx(0.6), 79.13)
    assert stored["values"]["grpo"]["tau2"]["mean"] is None
    assert [one["url"] for one in stored["runs"]["slca"]] == [one.url for one in SLCA.runs]


def test_what_is_measured_is_success_by_process_bfcls_mean_and_pass_1_over_tasks():
    half = {"a": 1.0, "b": 0.0}.items()
    rows = [("slca", 1, "toucan_test", "single-turn", item, 0, "greedy", "success_process", value) for item, value in half]
    rows += [("slca", 1, "tau2", "airline", item, trial, "sampled", "success", value) for item, value in half for trial in (0, 1)]
    for name in bfcl.PAPER:
        rows += [("slca", 1, "bfcl_v3", name, f"{name}_{at}", 0, "greedy", "correct", float(at == 0)) for at in range(4)]
    shared = Condition("again", "Again", shares_run_of="slca")
    found = overview.measure(table_of(rows), [SLCA, shared, GRPO])
    assert found["slca"] == {"toucan_test": {1: 0.5}, "bfcl_v3": {1: 0.25}, "tau2": {1: 0.5}} == found["again"]
    assert found["grpo"] == {"toucan_test": {}, "bfcl_v3": {}, "tau2": {}}
    assert "do_nothing" not in found


def test_the_floor_is_measured_if_it_is_there():
    floor = [("do_nothing", 0, "tau2", "airline", item, 0, "sampled", "success", float(item == "a")) for item in "ab"]
    found = overview.measure(table_of(floor), [SLCA])
    assert found["do_nothing"] == {"toucan_test": {}, "bfcl_v3": {}, "tau2": {0: 0.5}}


def test_bfcl_in_part_is_no_figure_of_the_main_table():
    rows = [("slca", 1, "bfcl_v3", "simple", "simple_0", 0, "greedy", "correct", 1.0)]
    assert overview.measure(table_of(rows), [SLCA])["slca"]["bfcl_v3"] == {}
