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

from flows.cli import main
from slca_core.analysis.statistics import bootstrap_mean
from slca_core.benchmarks import bfcl, tau2
from slca_core.config import TAU2_PACKAGED, BfclConfig, EvaluationConfig, Study, Tau2Config
from slca_core.reporting import overview, tables
from slca_core.reporting.overview import Overview
from slca_core.reporting.report import write_report
from slca_core.reporting.sections import Section, as_entry
from slca_core.reporting.tables import Condition
from slca_core.results import read_results
from tasks.report import results_of, tau2_labels, training_labels, user_labels
from tests.support.frames import Row, cells, run, table_of
from tests.support.latex_checks import count_tables

STAND_IN = "{}: stand-in standin-{} (rule-based, not an LLM)"
TRAINED = tuple(STAND_IN.format(role, role) for role in ("mocker", "judge"))
CONDITIONS = [
    Condition("sft", "SFT", (run(1, "r0"),)),
    Condition("grpo", "GRPO", (run(1, "r1"), run(2, "r2")), labels=TRAINED),
    Condition("slca", "SLCA-GRPO", (run(1, "r3"), run(2, "r4")), labels=TRAINED),
    Condition("wo_slca", "w/o SLCA", shares_run_of="grpo", labels=TRAINED),
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
def made(study, items) -> list[Section]:
    return results_of(study, items, CONDITIONS).sections


def test_the_papers_tables_come_first_then_differences_then_each_benchmarks_own(made):
    assert [section.title for section in made] == [
        "All benchmarks",
        "Ablations: SLCA-GRPO minus each, points",
        "Across backbones: SLCA-GRPO minus matched GRPO, points",
        "Differences to GRPO",
        "Toucan-Test",
        "Toucan-Test by subset: single-turn",
        "Toucan-Test by subset: decomposed",
        "BFCL V3",
        "tau2-bench",
    ]


def test_each_table_can_be_made_again_from_the_parquet_beside_the_report(study, items, made, tmp_path):
    paths = write_report(
        tmp_path,
        study_name="toy",
        description="",
        items=items,
        table=tables.main_table(items, CONDITIONS, backbone=None),
        results=made,
        differences=[],
        curves=[],
        stages={},
        labels=[],
        manifest={},
        notes=[],
        mlflow_hint="",
    )
    read = read_results(paths.items)
    assert results_of(study, read, CONDITIONS).sections == made
    assert count_tables(paths.latex.read_text(encoding="utf-8")) == len(made)


def test_stand_ins_packaging_and_parts_mark_the_figures_they_concern(study, made):
    section = made[0]
    line = cells(section)["SLCA-GRPO"]
    trained = f"Trained with {'; '.join(TRAINED)}."
    assert {column: list(cell.remarks) for column, cell in line.items() if cell.remarks} == {
        "Toucan-Test Success@0.9, %": list(TRAINED),
        "BFCL V3 accuracy, %": [f"{bfcl.LABEL}.", "The first 2 items of each category: not BFCL's figures.", trained],
        "tau2-bench Pass^1, %": [
            f"{tau2.label(study.evaluation.tau2)}.",
            "Of airline alone: not the benchmark's figure.",
            STAND_IN.format("user", "user"),
            trained,
        ],
    }
    assert set(section.footnotes.values()) >= {remark for cell in line.values() for remark in cell.remarks}
    sft = cells(section)["SFT"]
    assert not any("Trained" in remark for cell in sft.values() for remark in cell.remarks)


def test_what_trained_an_arm_is_what_its_training_asks():
    study = Study(name="toy", policy={"scratch": {}}, arms=("grpo", "rltr"))
    assert training_labels(study) == {"grpo": TRAINED, "rltr": (*TRAINED, STAND_IN.format("checker", "checker"))}


def test_the_user_simulator_is_named_stand_in_or_not(study):
    assert user_labels(study) == [STAND_IN.format("user", "user")]
    external = {"user": {"managed": "external", "url": "http://127.0.0.1:9/v1", "model": "deepseek-chat"}}
    values = {"name": "toy", "policy": {"scratch": {}}, "services": external}
    assert user_labels(Study.model_validate({**values, "evaluation": {"tau2": {}}})) == [
        "User simulator: deepseek-chat; the paper's is DeepSeek-V3.2."
    ]
    assert user_labels(Study.model_validate(values)) == [], "it is not asked"


@pytest.mark.parametrize(("version", "python", "judged"), [("tau2 0.2.0", "/venv/bin/python", True), (TAU2_PACKAGED, None, False)])
def test_a_stand_in_that_judges_tasks_is_named_where_one_is_asked(version, python, judged):
    evaluation = {"tau2": {"version": version, "python": python}}
    study = Study.model_validate({"name": "toy", "policy": {"scratch": {}}, "evaluation": evaluation})
    assert (STAND_IN.format("judge", "judge") in tau2_labels(study, table_of([]))) is judged


def test_a_toy_policy_is_said_on_every_table_with_figures_of_the_papers(made):
    for section in made:
        if any("aper" in as_entry(cell).text for cell in section.head):
            assert any("toy policy" in sentence for sentence in [*section.notes, *section.footnotes.values()]), section.title


def test_every_figure_of_ours_links_its_runs(made):
    for section in made:
        for row in section.rows:
            for cell in map(as_entry, row):
                if cell.remarks and not cell.published and as_entry(row[0]).text != "Do-nothing agent (floor)":
                    assert cell.runs, (section.title, row[0])


def test_differences_are_bootstrapped_once(study, items):
    asked = []

    def counted(values, **options):
        asked.append(len(values))
        return bootstrap_mean(values, **options)

    with patch("slca_core.reporting.comparison.bootstrap_mean", counted):
        results_of(study, items, CONDITIONS)
    assert len(asked) == 2 * 4, "two conditions beside the baseline in four columns"


def test_benchmarks_without_rows_have_no_table(study, items):
    toucan = items[items["benchmark"] == "toucan_test"]
    made = results_of(study, toucan, CONDITIONS)
    assert not {"BFCL V3", "tau2-bench"} & {section.title for section in made.sections}
    assert made.values.keys().isdisjoint({"bfcl_v3", "tau2"})


def test_the_json_has_the_differences_of_every_benchmark(study, items):
    values = json.loads(json.dumps(results_of(study, items, CONDITIONS).values, allow_nan=False))
    found = values["differences_to_baseline"]["slca"]
    assert {metric: (one["benchmark"], one["n_items"]) for metric, one in found.items()} == {
        "success_process": ("toucan_test", 8),
        "process": ("toucan_test", 8),
        "correct": ("bfcl_v3", 26),
        "success": ("tau2", 2),
    }
    assert values["differences_to_baseline"]["grpo"] == dict.fromkeys(found)
    assert values["bfcl_v3"]["intervals"].keys() == {"sft", "grpo", "slca", "wo_slca"}


@pytest.fixture
def report_of(tmp_path):
    """A study file, with its report if it has an overview."""

    def make(name: str, backbone: str | None, gain: float | None = None) -> Path:
        path = tmp_path / f"{name}.yaml"
        values = {"name": name, "root": str(tmp_path / "state"), "policy": {"scratch": {}}, "paper_backbone": backbone}
        path.write_text(yaml.safe_dump(values))
        if gain is not None:
            values = {"slca": {"toucan_test": {1: 0.5 + gain}}, "grpo": {"toucan_test": {1: 0.5}}}
            found = Overview(name, backbone, values, runs={condition: (run(1, condition),) for condition in values})
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
            main.main()
        return ended.value.code, *capsys.readouterr()

    return told


def test_several_studies_are_compared_across_backbones_and_the_unfinished_named(slca, report_of):
    studies = report_of("small", "qwen2.5-3b", 0.02), report_of("large", "qwen3-8b", 0.03), report_of("late", "qwen2.5-7b")
    code, out, err = slca("report", *studies)
    assert (code, err) == (0, "")
    rows = {line.split(" | ")[0].strip("| "): line.split(" | ")[1] for line in out.splitlines() if line.startswith("| Qwen")}
    linked = "[{}][slca] ([GRPO 1][grpo])"
    assert rows == {
        "Qwen2.5-3B-Instruct": linked.format("+2.0"),
        "Qwen2.5-7B-Instruct": "–",
        "Qwen3-8B-Base": linked.format("+3.0"),
    }
    assert f"[slca]: {run(1, 'slca').url}" in out.splitlines()
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


def test_a_report_of_an_earlier_version_is_said_to_be_none_yet(slca, report_of, tmp_path):
    studies = report_of("small", "qwen2.5-3b", 0.02), report_of("old", "qwen3-8b", 0.03)
    path = tmp_path / "state" / "reports" / "old" / "report.json"
    stored = json.loads(path.read_text())
    del stored["overview"]["runs"]
    path.write_text(json.dumps(stored))
    code, out, err = slca("report", *studies)
    assert (code, err) == (0, "")
    assert "- No report of this version yet: old." in out.splitlines()
