"""The report's files: the same bytes for the same results, escaped, complete, and with what a reader must be told."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from slca_core.errors import DataError
from slca_core.reporting import differences, toucan
from slca_core.reporting.comparison import paired_difference
from slca_core.reporting.figures import QUANTITIES, Curve, draw, training_curves
from slca_core.reporting.overview import Overview
from slca_core.reporting.report import RANKING_CAVEAT, ReportPaths, duration, funnel, write_report
from slca_core.reporting.sections import MLFLOW, Section
from slca_core.reporting.tables import Condition, main_table
from slca_core.results import REPORTED
from tests.support.frames import HOSTILE, run, table_of
from tests.support.latex_checks import COMPILER, compile_latex, count_tables

STAND_INS = ["mocker: stand-in", "judge: stand-in"]
VOID = {"meta", "br", "link", "img", "input", "hr", "path", "use"}
MANIFEST = {
    "seed": 0,
    "read": 9,
    "rejected": {"bad_json": 2},
    "repaired": {"python type names": 3},
    "findings": {"gold call refused": 1},
    "splits": {"test": {"x": 1, "y": 2}, "sft": {"x": 4}},
    "files": {"a": "digest"},
}


class Nesting(HTMLParser):
    """Reads a page and keeps what opens and closes, its text, and the ids."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.ids: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def curve(condition: str = "grpo", title: str = "GRPO", seed: int = 1, updates: int = 8) -> Curve:
    rng = np.random.default_rng(seed)
    columns = {quantity.column: rng.random(updates) for quantity in QUANTITIES}
    return Curve(condition, title, seed, pd.DataFrame({"update": range(1, updates + 1), **columns}))


def write(out: Path, curves: list[Curve]) -> ReportPaths:
    rng = np.random.default_rng(0)
    items = table_of(
        (name, 1, "toucan_test", "single-turn", f"i{i}", 0, "greedy", metric, rng.random())
        for name in ("sft", "grpo", "slca")
        for metric in ("process", "success_process")
        for i in range(12)
    )
    conditions = [
        Condition("sft", "SFT", (run(1, "r0"),), labels=("stand-in judge",)),
        Condition("grpo", "GRPO", (run(1, "r1"),)),
        Condition("slca", HOSTILE, (run(1, "r2"), run(2, "r3"))),
        Condition("wo_slca", "w/o SLCA", shares_run_of="grpo"),
    ]
    table, compared = main_table(items, conditions, backbone="qwen2.5-7b"), differences.measure(items, conditions)
    found = Overview("smoke", None, {}, runs={one.name: one.runs for one in conditions})
    return write_report(
        out,
        study_name="smoke",
        description="A <b>small</b> study.",
        items=items,
        table=table,
        results=[toucan.section(table), differences.section(compared, found), Section("Empty", ["Nothing"], [])],
        differences=[paired_difference(items, "slca", "sft", "process", "greedy", benchmark="toucan_test")],
        curves=curves,
        stages={"curate": 3.21, "train": 620.0},
        labels=STAND_INS,
        manifest=MANIFEST,
        notes=["One note."],
        warnings=[RANKING_CAVEAT],
        mlflow_hint="Tracked runs: see MLflow.",
        books=[Section("What it took", ["Service", "Calls"], [["judge", "3"]])],
    )


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> ReportPaths:
    return write(tmp_path_factory.mktemp("report"), [curve(), curve("slca", HOSTILE), curve("slca", HOSTILE, seed=2)])


@pytest.fixture(scope="module")
def page(report) -> Nesting:
    parser = Nesting()
    parser.feed(report.html.read_text(encoding="utf-8"))
    parser.close()
    return parser


def test_the_same_results_give_the_same_bytes(report, tmp_path):
    again = write(tmp_path, [curve(), curve("slca", HOSTILE), curve("slca", HOSTILE, seed=2)])
    before, after = (
        {path.relative_to(root): path.read_bytes() for path in root.rglob("*.*")} for root in (report.html.parent, tmp_path)
    )
    assert before.keys() == after.keys()
    assert before == after
    assert len(before) == 5 + len(QUANTITIES)
    assert again.json.name == "report.json"


def test_the_page_nests_and_its_ids_are_unique(page):
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))


def test_the_page_escapes_what_it_is_given(page, report):
    assert "script" not in page.tags
    assert HOSTILE in "".join(page.text)
    assert "<b>small</b>" not in report.html.read_text(encoding="utf-8")


def test_markdown_opens_no_tag(report):
    assert "<" not in report.markdown.read_text(encoding="utf-8")


def test_the_page_needs_nothing_beside_it(report):
    html = report.html.read_text(encoding="utf-8")
    assert html.count("<svg") == len(QUANTITIES)
    links = re.findall(r'(?:src|href)="(?!#)([^"]*)"', html)
    assert links
    assert all(link.startswith(MLFLOW) for link in links), "pages of runs, which nothing is loaded from"
    assert set(re.findall(r"url\(#([^)]+)\)", html)) <= set(re.findall(r'\bid="([^"]+)"', html))


@pytest.mark.parametrize("sentence", [RANKING_CAVEAT, *STAND_INS, "w/o SLCA is a shared run", "stand-in judge", "One note."])
def test_both_texts_tell_what_a_reader_must_know(page, report, sentence):
    assert sentence in "".join(page.text)
    assert sentence in report.markdown.read_text(encoding="utf-8")


def test_markdown_links_figures_that_exist(report):
    links = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", report.markdown.read_text(encoding="utf-8"))
    assert len(links) == len(QUANTITIES)
    assert all((report.markdown.parent / link).is_file() for link in links)


def test_json_has_the_table_and_the_study(report):
    values = json.loads(report.json.read_text(encoding="utf-8"))
    assert {"study", "rows", "columns", "values", "spread", "run_ids", "labels", "stages", "differences"} <= values.keys()
    assert values["labels"] == STAND_INS
    assert values["differences"][0]["condition_b"] == "sft"


def test_the_json_links_the_runs_of_each_seed(report):
    runs = json.loads(report.json.read_text(encoding="utf-8"))["runs"]
    assert [(one["seed"], one["run_id"]) for one in runs["slca"]] == [(1, "r2"), (2, "r3")]
    assert runs["slca"][1]["url"] == run(2, "r3").url


def test_the_per_item_results_lie_beside_it(report):
    items = pd.read_parquet(report.items)
    assert list(items) == list(REPORTED)
    assert len(items) == 3 * 2 * 12


@pytest.mark.parametrize("file", ["markdown", "html", "latex"])
def test_every_text_has_each_table_with_rows_its_footnotes_and_its_links(report, file):
    text = getattr(report, file).read_text(encoding="utf-8")
    for title in ("Toucan-Test", "Differences to GRPO", "What it took"):
        assert title in text
    assert "Empty" not in text
    assert "stand-in judge" in text
    for seed, run_id in ((1, "r0"), (1, "r2"), (2, "r3")):
        assert run(seed, run_id).url in text.replace(r"\#", "#")


def test_the_latex_parses(report):
    assert count_tables(report.latex.read_text(encoding="utf-8")) == 3


@pytest.mark.skipif(COMPILER is None, reason="no LaTeX here")
def test_the_latex_compiles(report, tmp_path):
    assert compile_latex(report.latex.read_text(encoding="utf-8"), tmp_path).is_file()


def test_a_report_without_curves_says_so(tmp_path):
    paths = write(tmp_path, [])
    assert "No training curves." in paths.html.read_text(encoding="utf-8")
    assert "No training curves." in paths.markdown.read_text(encoding="utf-8")


def test_the_funnel_sums_its_parts_and_leaves_out_what_is_no_count():
    lines = [(line.name, line.count, line.depth) for line in funnel(MANIFEST)]
    assert lines[:3] == [("Records read", 9, 0), ("Records quarantined as unreadable", 2, 0), ("bad json", 2, 1)]
    assert ("Tool schemas put into today's words", 3, 0) in lines
    assert ("gold call refused", 1, 1) in lines
    assert ("Samples in splits", 7, 0) in lines
    assert ("test", 3, 1) in lines
    assert len(lines) == 13


@pytest.mark.parametrize(("seconds", "text"), [(4.04, "4.0 s"), (59.6, "1 min 0 s"), (620, "10 min 20 s"), (7800, "2 h 10 min")])
def test_durations_read_like_speech(seconds, text):
    assert duration(seconds) == text


def test_drawing_leaves_matplotlib_as_it_was(tmp_path):
    before = dict(mpl.rcParams)
    training_curves([curve()], tmp_path)
    assert dict(mpl.rcParams) == before


def test_the_bold_line_is_the_moving_average_of_the_seeds_mean():
    runs = [curve(seed=1), curve(seed=2)]
    lines = draw(runs, QUANTITIES[0]).axes[0].lines
    mean = (runs[0].metrics["reward"] + runs[1].metrics["reward"]) / 2
    assert len(lines) == 3
    assert lines[-1].get_ydata()[-1] == pytest.approx(mean[-5:].mean())


def test_a_condition_keeps_one_colour_over_its_seeds():
    lines = draw([curve(seed=1), curve("slca", "SLCA"), curve(seed=2)], QUANTITIES[0]).axes[0].lines
    assert [line.get_color() for line in lines] == [lines[0].get_color()] * 3 + [lines[3].get_color()] * 2
    assert lines[0].get_color() != lines[3].get_color()


def test_metrics_that_lack_a_column_are_refused_by_name(tmp_path):
    broken = Curve("grpo", "GRPO", 1, curve().metrics.drop(columns="kl"))
    with pytest.raises(DataError, match="kl"):
        training_curves([broken], tmp_path)
