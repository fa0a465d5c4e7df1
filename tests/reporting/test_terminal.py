"""What `slca run` and `slca evaluate` print of results: the figures, and all that must be said beside them."""

from __future__ import annotations

import pandas as pd
import pytest

from flows.cli import evaluate, report
from slca_core.benchmarks import bfcl, tau2
from slca_core.config import Study
from slca_core.records.store import Record
from slca_core.reporting import overview
from slca_core.reporting.overview import Overview
from slca_core.results import COLUMNS
from tasks.orchestration.workspace import Workspace
from tests.support.frames import Row, table_of

LIMIT = "The first 2 tasks of each domain: not the benchmark's figures."


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    for module in (report, evaluate):
        monkeypatch.setattr(module.console, "_width", 200)


def lines(text: str) -> dict[str, list[str]]:
    """First word of each line -> its columns, two spaces apart."""
    return {
        line.split("  ")[0]: [part.strip() for part in line.split("  ")[1:] if part.strip()]
        for line in map(str.strip, text.splitlines())
    }


def report_of(found: Overview) -> dict:
    rows = [
        {"name": name, "title": title, "shares_run_of": None} for name, title in (("slca", "SLCA [x]"), ("slca_uniform", "Uniform"))
    ]
    return {"rows": rows, "overview": overview.to_json(found)}


def test_the_other_benchmarks_stand_with_their_labels_the_floor_and_derived_figures_marked(capsys):
    values = {
        "slca": {"toucan_test": {1: 0.5}, "bfcl_v3": {1: 0.25, 2: 0.35}, "tau2": {1: 0.4}},
        "slca_uniform": {},
        "do_nothing": {"tau2": {0: 0.3}},
    }
    labels = {"toucan_test": ["only there"], "bfcl_v3": [bfcl.LABEL], "tau2": ["as packed", LIMIT]}
    training = {"slca": ["mocker: stand-in", "judge: stand-in"]}
    report.show_others(report_of(Overview("toy", "qwen2.5-7b", values, labels, ("user: stand-in",), training)))
    out = capsys.readouterr().out
    found = lines(out)
    assert found["SLCA [x]"] == ["30.0 ± 7.1", "69.8", "40.0", "41.0"]
    assert found["Uniform"] == ["–", "~69.2", "–", "~38.6"]
    assert found["Do-nothing agent (floor)"] == ["–", "–", "30.0", "–"]
    for said in (bfcl.LABEL, "as packed", LIMIT, "user: stand-in", "Trained with mocker: stand-in; judge: stand-in."):
        assert said in out
    assert "only there" not in out


def test_a_benchmark_that_was_not_run_has_no_column_and_no_labels(capsys):
    values = {"slca": {"bfcl_v3": {1: 0.25}, "tau2": {}}, "slca_uniform": {}, "do_nothing": {"tau2": {0: 0.3}}}
    report.show_others(report_of(Overview("toy", None, values, {"tau2": ["as packed"]})))
    out = capsys.readouterr().out
    assert "25.0" in out
    assert not any(word in out for word in ("tau2", "as packed", "floor"))
    report.show_others(report_of(Overview("toy", None, {"slca": {}, "slca_uniform": {}})))
    assert capsys.readouterr().out == ""


def played(condition: str, trials: int) -> list[Row]:
    """Two tasks of airline, of which one succeeds, and one of retail that fails."""
    tasks = (("airline", "a", 1.0), ("airline", "b", 1.0), ("retail", "c", 0.0))
    return [
        (condition, 1, "tau2", domain, task, trial, "sampled", metric, value)
        for domain, task, success in tasks
        for trial in range(trials)
        for metric, value in (("success", success), ("error", 0.0))
    ]


def asked(condition: str = "asked", trials: int = 1) -> pd.DataFrame:
    verdicts = [
        (condition, 1, "bfcl_v3", category, f"{category}_{at}", 0, "greedy", metric, value)
        for category in bfcl.PAPER
        for at in range(4)
        for metric, value in (("correct", float(at == 0)), ("error", 0.0))
    ]
    return table_of(verdicts + played(condition, trials))


@pytest.fixture
def study(tmp_path) -> Study:
    evaluation = {"bfcl": {"limit": 4}, "tau2": {"domains": ["airline", "retail"], "trials": 2, "limit": 2, "split": "test"}}
    return Study.model_validate({"name": "toy", "root": tmp_path, "policy": {"scratch": {}}, "evaluation": evaluation})


def shown(study: Study, items: pd.DataFrame, folder) -> None:
    items[list(COLUMNS)].to_parquet(folder / evaluate.ITEMS)
    evaluate._print(study, Record.model_construct(folder=folder, seconds=3.0))


def test_an_evaluation_shows_the_benchmarks_own_figures_and_what_must_be_said(study, tmp_path, capsys):
    shown(study, asked(trials=2), tmp_path)
    out = capsys.readouterr().out
    found = lines(out)
    assert found["BFCL V3, correct"] == ["multi_turn_miss_param", "1/4", "25.00", "0"]
    assert found["BFCL V3, unweighted mean of the paper's 13 subsets"][0].startswith("25.0 [")
    assert found["tau2-bench, Pass^1 (micro)"][0].startswith("66.7 [")
    assert found["tau2-bench, Pass^1 (macro)"] == ["50.0"]
    assert found["tau2-bench, Pass^2"][0].startswith("66.7 [")
    assert not any("BFCL's own" in name for name in found), "of whole categories alone"
    said = [line for line in map(str.strip, out.splitlines()) if line.endswith((".", ")")) and "│" not in line]
    assert said == [
        f"{bfcl.LABEL}.",
        "The first 4 items of each category: not BFCL's figures.",
        f"{tau2.label(study.evaluation.tau2)}.",
        "Of airline and retail alone: not the benchmark's figure.",
        "Of the tasks of the test split alone: not the benchmark's figures.",
        LIMIT,
        "user: stand-in standin-user (rule-based, not an LLM)",
    ]


def test_the_floor_stands_beside_an_evaluation_if_it_was_measured(study, tmp_path, capsys, monkeypatch):
    folder = tmp_path / "floor"
    folder.mkdir()
    table_of([row for row in played("x", 1) if row[3] == "retail"] + played("x", 1)[:2])[list(COLUMNS)].to_parquet(
        folder / evaluate.ITEMS
    )
    sought = []

    def find(self, step):
        sought.append((step.step, step.name))
        return Record.model_construct(folder=folder)

    monkeypatch.setattr(type(Workspace(study).store), "find", find)
    evaluate.print_figures(study, asked())
    out = capsys.readouterr().out
    assert sought == [("floor", "tau2")]
    assert "Do-nothing agent (floor)" in out
    found = lines(out)
    assert [part.split(" [")[0] for part in found["tau2-bench, Pass^1 (micro)"]] == ["66.7", "50.0"]
    assert found["BFCL V3, unweighted mean of the paper's 13 subsets"][1] == "–"


def test_where_nothing_but_toucan_was_asked_there_are_no_figures_beside(tmp_path, capsys):
    study = Study.model_validate({"name": "toy", "root": tmp_path, "policy": {"scratch": {}}})
    evaluate.print_figures(study, table_of([("asked", 1, "toucan_test", "single-turn", "a", 0, "greedy", "process", 1.0)]))
    assert capsys.readouterr().out == ""
