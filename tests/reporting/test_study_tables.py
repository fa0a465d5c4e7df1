"""A study's tables of results, which follow from its per-item parquet alone, and what `slca report` prints of several studies."""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import yaml

from flows import cli
from slca_core.benchmarks import bfcl, tau2
from slca_core.config import BfclConfig, EvaluationConfig, Study, Tau2Config
from slca_core.reporting import overview
from slca_core.reporting.overview import Overview
from slca_core.reporting.report import write_report
from slca_core.reporting.sections import Section
from slca_core.reporting.tables import Condition, main_table
from slca_core.results import read_results
from tasks.report import overview_of, tables_of_results
from tests.reporting.frames import Row, cells, run, table_of
from tests.reporting.latex_checks import count_tables

CONDITIONS = [
    Condition("sft", "SFT", (run(1, "r0"),)),
    Condition("grpo", "GRPO", (run(1, "r1"), run(2, "r2"))),
    Condition("slca", "SLCA-GRPO", (run(1, "r3"), run(2, "r4"))),
    Condition("wo_slca", "w/o SLCA", shares_run_of="grpo"),
]


@pytest.fixture(scope="module")
def study() -> Study:
    evaluation = EvaluationConfig(bfcl=BfclConfig(limit=2), tau2=Tau2Config(domains=("airline", "mock"), trials=2))
    return Study(name="toy", policy={"scratch": {}}, paper_backbone="qwen2.5-7b", evaluation=evaluation)


@pytest.fixture(scope="module")
def items() -> pd.DataFrame:
    rng, rows = np.random.default_rng(0), []
    for name, seeds in (("sft", (1,)), ("grpo", (1, 2)), ("slca", (1, 2)), ("wo_slca", (1, 2))):
        for seed in seeds:
            rows += _evaluated(rng, name, seed)
    rows += [
        ("do_nothing", 0, "tau2", "airline", item, 0, "sampled", metric, 0.0) for item in "ab" for metric in ("success", "error")
    ]
    return table_of(rows)


def _evaluated(rng: np.random.Generator, name: str, seed: int) -> Iterator[Row]:
    toucan = ("process", "success_process", "success_weighted", "name_f1", "argument_match", "judge")
    for subset, at in itertools.product(("single-turn", "decomposed"), range(4)):
        yield from _trial(rng, (name, seed, "toucan_test", subset, f"{subset}{at}", 0, "greedy"), toucan)
    for category, at in itertools.product(bfcl.PAPER, range(2)):
        yield from _trial(rng, (name, seed, "bfcl_v3", category, f"{category}_{at}", 0, "greedy"), ("correct", "overflow"))
    for domain, at, trial in itertools.product(("airline", "mock"), "ab", range(2)):
        yield from _trial(rng, (name, seed, "tau2", domain, at, trial, "sampled"), ("success",))


def _trial(rng: np.random.Generator, trial: tuple, metrics: tuple[str, ...]) -> Iterator[Row]:
    yield (*trial, "error", 0.0)
    yield from ((*trial, metric, float(rng.integers(2))) for metric in metrics)


@pytest.fixture(scope="module")
def tables(study, items) -> list[Section]:
    return tables_of_results(study, items, CONDITIONS, overview_of(study, items, CONDITIONS))


def test_the_papers_tables_come_first_then_each_benchmarks_own(tables):
    assert [section.title for section in tables] == [
        "All benchmarks",
        "Ablations: SLCA-GRPO minus each, points",
        "Across backbones: SLCA-GRPO minus matched GRPO, points",
        "Toucan-Test",
        "Toucan-Test: difference to GRPO",
        "Toucan-Test by subset: single-turn",
        "Toucan-Test by subset: decomposed",
        "BFCL V3",
        "tau2-bench",
    ]


def test_each_table_can_be_made_again_from_the_parquet_beside_the_report(study, items, tables, tmp_path):
    paths = write_report(
        tmp_path,
        study_name="toy",
        description="",
        items=items,
        table=main_table(items, CONDITIONS, backbone=None),
        results=tables,
        differences=[],
        curves=[],
        stages={},
        labels=[],
        manifest={},
        notes=[],
        mlflow_hint="",
    )
    read = read_results(paths.items)
    assert tables_of_results(study, read, CONDITIONS, overview_of(study, read, CONDITIONS)) == tables
    assert count_tables(paths.latex.read_text(encoding="utf-8")) == len(tables)


def test_stand_ins_and_packaging_mark_the_figures_they_concern(study, tables):
    section = tables[0]
    line = cells(section)["SLCA-GRPO"]
    found = {column: [section.footnotes[mark] for mark in section.marks(cell)] for column, cell in line.items() if cell.remarks}
    stand_in = "{}: stand-in standin-{} (rule-based, not an LLM)"
    assert found == {
        "Toucan-Test Success@0.9, %": [stand_in.format(role, role) for role in ("mocker", "judge")],
        "BFCL V3 accuracy, %": [f"{bfcl.LABEL}.", "The first 2 items of each category: not BFCL's figures."],
        "tau2-bench Pass^1, %": [f"{tau2.label(study.evaluation.tau2)}.", stand_in.format("user", "user")],
    }


def test_benchmarks_without_rows_have_no_table(study, items):
    toucan = items[items["benchmark"] == "toucan_test"]
    titles = [section.title for section in tables_of_results(study, toucan, CONDITIONS, overview_of(study, toucan, CONDITIONS))]
    assert not {"BFCL V3", "tau2-bench"} & set(titles)


@pytest.fixture
def report_of(tmp_path):
    """A study file, with its report if it has an overview."""

    def make(name: str, backbone: str | None, gain: float | None = None) -> Path:
        path = tmp_path / f"{name}.yaml"
        values = {"name": name, "root": str(tmp_path / "state"), "policy": {"scratch": {}}, "paper_backbone": backbone}
        path.write_text(yaml.safe_dump(values))
        if gain is not None:
            found = Overview(name, backbone, {"slca": {"toucan_test": {1: 0.5 + gain}}, "grpo": {"toucan_test": {1: 0.5}}})
            folder = tmp_path / "state" / "reports" / name
            folder.mkdir(parents=True)
            (folder / "report.json").write_text(json.dumps({"overview": overview.to_json(found)}))
        return path

    return make


@pytest.fixture
def slca(monkeypatch, capsys):
    """The command line in this process: (exit code, stdout, stderr)."""

    def told(*argv):
        monkeypatch.setattr(sys, "argv", ["slca", *map(str, argv)])
        with patch.dict(os.environ), pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code, *capsys.readouterr()

    return told


def test_several_studies_are_compared_across_backbones_and_the_unfinished_named(slca, report_of):
    studies = report_of("small", "qwen2.5-3b", 0.02), report_of("large", "qwen3-8b", 0.03), report_of("late", "qwen2.5-7b")
    code, out, err = slca("report", *studies)
    assert (code, err) == (0, "")
    rows = {line.split(" | ")[0].strip("| "): line.split(" | ")[1] for line in out.splitlines() if line.startswith("| Qwen")}
    assert rows == {"Qwen2.5-3B-Instruct": "+2.0", "Qwen2.5-7B-Instruct": "–", "Qwen3-8B-Base": "+3.0"}
    assert "- No report of this version yet: late." in out.splitlines()


@pytest.mark.parametrize("format", ["latex", "json"])
def test_the_comparison_is_there_for_papers_and_for_machines(slca, report_of, format):
    studies = report_of("small", "qwen2.5-3b", 0.02), report_of("large", "qwen3-8b", 0.03)
    code, out, _ = slca("report", *studies, "--format", format)
    assert code == 0
    if format == "latex":
        assert count_tables(out) == 1
    else:
        found = json.loads(out)["backbones"]["qwen3-8b"]
        assert (found["study"], found["toucan_test"]["seeds"]) == ("large", {"1": pytest.approx(0.03)})
        assert found["tau2"] == {"seeds": {}, "mean": None, "std": None, "paper": 10.03}


@pytest.mark.parametrize(
    ("backbones", "options", "said"),
    [
        (("qwen3-8b", "qwen3-8b"), (), "first and second are both of qwen3-8b"),
        (("qwen3-8b", None), (), "paper_backbone of second is None"),
        (("qwen3-8b", "qwen2.5-3b"), ("--format", "html"), "A page is made of one study"),
    ],
)
def test_what_cannot_be_compared_is_said_in_a_sentence(slca, report_of, backbones, options, said):
    studies = [report_of(name, backbone, 0.0) for name, backbone in zip(("first", "second"), backbones, strict=True)]
    code, out, err = slca("report", *studies, *options)
    assert (code, out) == (2, "")
    assert said in " ".join(err.split())


def test_the_terminal_shows_the_other_benchmarks_that_were_run(capsys):
    found = Overview("toy", "qwen2.5-7b", {"slca": {"toucan_test": {1: 0.5}, "bfcl_v3": {1: 0.25, 2: 0.35}, "tau2": {}}})
    cli._print_others({"rows": [{"name": "slca", "title": "SLCA [x]", "shares_run_of": None}], "overview": overview.to_json(found)})
    out = capsys.readouterr().out
    assert "SLCA [x]" in out
    assert "30.0 ± 7.1" in out
    assert "69.8" in out
    assert "tau2" not in out
