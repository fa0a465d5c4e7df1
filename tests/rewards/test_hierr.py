"""HierR against golden values of both semantics, and the rules it follows (App. A.4)."""

from __future__ import annotations

import json
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest

from slca_core.calls import render_call
from slca_core.dialogue import ToolCall
from slca_core.errors import ConfigError
from slca_core.rewards.hierr import DEFAULT, WEIGHTINGS, HierRWeights, score_process
from slca_core.rewards.omission import is_omitted
from slca_core.schemas import ToolSet

ROOT = Path(__file__).parents[2]
THIRD_PARTY = ROOT / "../shared/golden/hierr.jsonl"
PARTS = ("fmt", "name", "key", "val", "par", "process")
TOOLS = ToolSet.of(
    [{"type": "function", "function": {"name": name, "parameters": {"properties": {"x": {"type": "integer"}}}}} for name in "fg"]
)


def read_cases(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def check_golden(case: dict[str, Any]) -> None:
    gold = [[ToolCall.from_json(call) for call in step] for step in case["gold"]]
    tools = ToolSet.of(case["tools"])
    for semantics in ("paper", "release"):
        score = score_process(case["turns"], tools, gold, semantics=semantics)
        assert {part: getattr(score, part) for part in PARTS} == pytest.approx(
            {part: case[semantics][part] for part in PARTS}, abs=1e-6
        )
        assert is_omitted(case["turns"], gold) == case[semantics]["omitted"]


@pytest.mark.parametrize("case", read_cases(ROOT / "tests/golden/hierr_own.jsonl"), ids=lambda case: case["id"])
def test_golden_scores_are_reproduced(case):
    check_golden(case)


@pytest.mark.skipif(not THIRD_PARTY.exists(), reason="third-party golden cases stand in ../shared/golden, which is not here")
def test_golden_scores_on_third_party_tools_are_reproduced():
    for case in read_cases(THIRD_PARTY):
        check_golden(case)


def call(name: str = "f", **arguments: Any) -> ToolCall:
    return ToolCall(name, arguments)


def turn(*calls: ToolCall) -> str:
    return "\n".join(map(render_call, calls))


def test_a_rollout_that_makes_golds_calls_scores_one():
    gold = [[call(x=1), call("g")], [call(x=2)]]
    score = score_process([turn(*gold[0]), turn(*gold[1]), "Done."], TOOLS, gold)
    assert [getattr(score, part) for part in PARTS] == pytest.approx([1.0] * 6)
    assert (score.n_open, score.n_close, score.n_valid, score.n_calls) == (3, 3, 3, 3)


@pytest.mark.parametrize(("semantics", "fmt"), [("paper", 1.0), ("release", 0.0)])
def test_silence_where_nothing_was_expected_is_perfect_only_by_the_papers_words(semantics, fmt):
    score = score_process(["Hello."], TOOLS, [], semantics=semantics)
    assert (score.fmt, score.name, score.key, score.val, score.par) == (fmt, 1.0, 1.0, 1.0, 1.0)


@pytest.mark.parametrize(("semantics", "fmt"), [("paper", 0.0), ("release", 1.0)])
def test_only_the_papers_words_hold_a_block_to_its_tools_schema(semantics, fmt):
    assert score_process([turn(call(x="one"))], TOOLS, [[call(x=1)]], semantics=semantics).fmt == fmt


@pytest.mark.parametrize(("semantics", "name"), [("paper", 2 / 3), ("release", 1.0)])
def test_a_call_to_an_unknown_tool_counts_against_the_names_only_by_the_papers_words(semantics, name):
    assert score_process([turn(call(x=1), call("nowhere"))], TOOLS, [[call(x=1)]], semantics=semantics).name == pytest.approx(name)


@pytest.mark.parametrize(("semantics", "par"), [("paper", 1.0), ("release", 0.0)])
def test_parallel_calls_in_blocks_of_their_own_are_one_step_only_by_the_papers_words(semantics, par):
    gold = [[call(x=1), call(x=2)]]
    assert score_process([turn(*gold[0])], TOOLS, gold, semantics=semantics).par == par


def test_the_first_step_is_the_first_turn_with_a_parsed_call():
    score = score_process(["<tool_call>broken</tool_call>", turn(call(x=1))], TOOLS, [[call(x=1)]])
    assert score.par == 1.0
    assert score.fmt == 0.5


def test_no_block_spans_two_turns():
    opening, closing = render_call(call(x=1)).split("\n", 1)
    assert score_process([opening, closing], TOOLS, [[call(x=1)]]).n_calls == 0


@pytest.mark.parametrize(("semantics", "val"), [("paper", 1.0), ("release", 0.5)])
def test_values_are_averaged_over_matched_keys_or_over_golds_keys(semantics, val):
    score = score_process([turn(call(x=1))], TOOLS, [[call(x=1, y=2)]], semantics=semantics)
    assert (score.key, score.val) == (0.5, val)


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_every_named_weighting_sums_to_one(name):
    assert sum(astuple(WEIGHTINGS[name])) == pytest.approx(1.0)


def test_the_weights_shape_the_process_score():
    turns, gold = [turn(call(x=2))], [[call(x=1)]]
    assert score_process(turns, TOOLS, gold, weights=DEFAULT).process == pytest.approx(0.8)
    assert score_process(turns, TOOLS, gold, weights=WEIGHTINGS["value-heavy"]).process == pytest.approx(0.65)


def test_negative_weights_are_refused():
    with pytest.raises(ConfigError, match="not negative"):
        HierRWeights(fmt=-0.1, name=0.5, key=0.2, val=0.2, par=0.2)
