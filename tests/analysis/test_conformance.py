"""The conformance commands: golden files pass, and a wrong value in one is found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli.main import app
from slca_core.analysis.conformance import check_advantages, check_hierr
from slca_core.errors import DataError

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
SHARED = ROOT.parent / "shared" / "golden"
FILES = [
    ("hierr", GOLDEN / "hierr_own.jsonl", 80),
    ("advantages", GOLDEN / "advantages.jsonl", 40),
    pytest.param(
        "hierr",
        SHARED / "hierr.jsonl",
        150,
        marks=pytest.mark.skipif(not SHARED.exists(), reason="third-party golden cases stand in ../shared/golden, not here"),
    ),
]


@pytest.mark.parametrize(("kind", "path", "cases"), FILES)
def test_golden_files_have_no_difference(kind, path, cases):
    result = CliRunner().invoke(app, ["conformance", kind, str(path)])
    assert result.exit_code == 0, result.output
    assert f"{cases} cases" in result.output
    assert f"0 of {cases} cases differ" in result.output


def test_both_semantics_and_every_expected_estimator_are_checked():
    parts = ("fmt", "name", "key", "val", "par", "process", "omitted")
    assert set(check_hierr(GOLDEN / "hierr_own.jsonl").largest) == {f"{s}.{part}" for s in ("paper", "release") for part in parts}
    assert set(check_advantages(GOLDEN / "advantages.jsonl").largest) == {"grpo", "slca", "s2t", "t2s", "both", "toolpo", "rltr"}


@pytest.mark.parametrize("kind", ["hierr", "advantages"])
@pytest.mark.parametrize("wrong", [0.01, float("nan")])
def test_a_wrong_value_is_found_and_named(tmp_path, kind, wrong):
    lines = (GOLDEN / {"hierr": "hierr_own.jsonl", "advantages": "advantages.jsonl"}[kind]).read_text().splitlines()[:3]
    case = json.loads(lines[1])
    if kind == "hierr":
        case["paper"]["val"] += wrong
    else:
        case["expected"]["slca"][0][0] += wrong
    path = tmp_path / "golden.jsonl"
    path.write_text("\n".join([lines[0], json.dumps(case), lines[2]]))
    result = CliRunner().invoke(app, ["conformance", kind, str(path)])
    assert result.exit_code == 1
    assert f"1 of 3 cases differ by more than 1e-6: {case['id']}" in result.output


@pytest.mark.parametrize("content", [None, "", "{}\n", "not json\n"])
@pytest.mark.parametrize("check", [check_hierr, check_advantages])
def test_a_file_that_holds_no_cases_is_refused(tmp_path, check, content):
    path = tmp_path / "golden.jsonl"
    if content is not None:
        path.write_text(content)
    with pytest.raises(DataError, match="expected"):
        check(path)
