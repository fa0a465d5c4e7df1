"""HierR against golden values of both semantics, and the rules it follows (App. A.4)."""

from __future__ import annotations

import json
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slca_core.conversation.calls import parse_turns, render_call
from slca_core.conversation.dialogue import ToolCall
from slca_core.conversation.schemas import ToolSet
from slca_core.errors import ConfigError
from slca_core.rewards.hierr import DEFAULT, WEIGHTINGS, HierRWeights, score_process
from slca_core.rewards.omission import is_omitted
from slca_core.rewards.prediction import REFUSALS

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
        assert is_omitted(parse_turns(case["turns"]), gold) == case[semantics]["omitted"]


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


scalars = st.one_of(st.integers(-3, 3), st.booleans(), st.sampled_from(["a", "A ", "b", "1"]))
argument_sets = st.dictionaries(st.sampled_from("pqrs"), scalars, max_size=4)
any_calls = st.lists(st.builds(ToolCall, name=st.sampled_from("abc"), arguments=argument_sets), max_size=4)
# No schemas: a value may change without making its block invalid.
LENIENT = ToolSet.of([{"type": "function", "function": {"name": name}} for name in "abc"])


def one_turn_each(calls: list[ToolCall]) -> list[str]:
    return [*map(render_call, calls), "done"]


@pytest.mark.parametrize("matching", ["greedy", "optimal"])
@pytest.mark.parametrize("semantics", ["paper", "release"])
@settings(deadline=None)
@given(made=any_calls, gold=any_calls, noise=st.text(max_size=20))
def test_every_part_lies_between_0_and_1(made, gold, noise, semantics, matching):
    turns = [*one_turn_each(made), f"<tool_call>{noise}"]
    score = score_process(turns, LENIENT, [gold] if gold else [], semantics=semantics, matching=matching)
    assert all(0 <= getattr(score, part) <= 1 for part in PARTS)


@pytest.mark.parametrize("matching", ["greedy", "optimal"])
@settings(deadline=None)
@given(data=st.data(), wanted=st.lists(argument_sets, min_size=1, max_size=3))
def test_setting_one_argument_right_never_lowers_the_score(data, wanted, matching):
    """With one call a tool name, so that nothing depends on which prediction is taken."""
    gold = [ToolCall(name, arguments) for name, arguments in zip("abc", wanted, strict=False)]
    made = [ToolCall(one.name, data.draw(argument_sets)) for one in gold]
    number = data.draw(st.integers(0, len(gold) - 1))
    if not gold[number].arguments:
        return
    key = data.draw(st.sampled_from(sorted(gold[number].arguments)))
    mended = list(made)
    mended[number] = ToolCall(made[number].name, made[number].arguments | {key: gold[number].arguments[key]})
    before, after = (score_process([turn(*calls)], LENIENT, [gold], matching=matching).process for calls in (made, mended))
    assert after >= before - 1e-12


@settings(deadline=None)
@given(made=any_calls, gold=any_calls, random=st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter_and_under_optimal_matching_that_of_calls_neither(made, gold, random):
    def shuffled(items):
        return random.sample(list(items), len(items))

    def with_keys_shuffled(calls):
        return [ToolCall(one.name, dict(shuffled(one.arguments.items()))) for one in calls]

    for matching in ("greedy", "optimal"):
        plain = score_process([turn(*made)], LENIENT, [gold], matching=matching)
        other = score_process([turn(*with_keys_shuffled(made))], LENIENT, [with_keys_shuffled(gold)], matching=matching)
        assert other == plain
    reordered = score_process([turn(*shuffled(made))], LENIENT, [shuffled(gold)], matching="optimal")
    assert [getattr(reordered, part) for part in PARTS] == pytest.approx([getattr(plain, part) for part in PARTS], abs=1e-12)


@settings(deadline=None)
@given(made=any_calls, gold=any_calls)
def test_the_optimal_match_is_never_worse_than_the_greedy_one(made, gold):
    greedy, optimal = (score_process([turn(*made)], LENIENT, [gold], matching=matching) for matching in ("greedy", "optimal"))
    assert optimal.key + optimal.val >= greedy.key + greedy.val - 1e-9


def test_greedy_matching_can_lose_what_optimal_matching_finds():
    gold = [[call(x=1), call(x=1, y=2)]]
    made = [turn(call(x=1, y=2), call(x=5))]
    greedy, optimal = (score_process(made, TOOLS, gold, matching=matching) for matching in ("greedy", "optimal"))
    assert optimal.key + optimal.val > greedy.key + greedy.val


def test_every_block_that_is_refused_is_counted_with_its_reason():
    turns = [
        "<tool_call>{broken</tool_call>",
        '<tool_call>{"name": "f", "arguments": {"x": 1, "x": 1}}</tool_call>',
        f'<tool_call>{{"name": "f", "arguments": {{"x": {"[" * 500}{"]" * 500}}}}}</tool_call>',
        turn(call("unknown")) + turn(call(x="no integer")) + turn(call(x=1)),
        "<tool_call>never closed",
    ]
    score = score_process(turns, TOOLS, [[call(x=1)]])
    counted = {"broken-json": 1, "duplicate-key": 1, "too-deep": 1, "unknown-tool": 1, "schema": 1, "unclosed": 1}
    assert dict(score.refusals) == counted
    assert score.n_valid + sum(counted.values()) == score.n_open
    assert set(counted) <= set(REFUSALS)
