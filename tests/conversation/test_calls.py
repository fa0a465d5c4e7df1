"""Reading and writing `<tool_call>` blocks, strictly."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slca_core.conversation.calls import MAX_DEPTH, Refusal, parse_turn, render_call
from slca_core.conversation.dialogue import ToolCall
from slca_core.errors import DataError

_NAMES = ("tool_call", "tool_response", "think", "thinking")
CONTROL_TAGS = (
    *(f"<{name}>" for name in _NAMES),
    *(f"</{name}>" for name in _NAMES),
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
)

tags = st.sampled_from([*CONTROL_TAGS, "\\", "a < b"])
texts = st.lists(st.one_of(tags, st.text(st.characters(exclude_categories=["Cs"]), max_size=6)), max_size=4).map("".join)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=8,
)
calls = st.builds(ToolCall, name=texts, arguments=st.dictionaries(texts, values, max_size=4))


def block(body: str) -> str:
    return f"<tool_call>\n{body}\n</tool_call>"


def nested(depth: int) -> str:
    """A call whose JSON has `depth` levels."""
    return '{"name": "f", "arguments": {"x": ' + "[" * (depth - 2) + "]" * (depth - 2) + "}}"


@settings(deadline=None)
@given(st.lists(calls, min_size=1, max_size=3))
def test_rendered_calls_are_read_back_unchanged(written):
    turn = parse_turn("I will call.\n" + "\n".join(map(render_call, written)))
    assert turn.calls == tuple(written)
    assert turn.n_open == turn.n_close == len(written)
    assert turn.n_unclosed == 0


@settings(deadline=None)
@given(calls)
def test_a_rendered_call_holds_no_control_tag_but_its_own(call):
    body = render_call(call).removeprefix("<tool_call>").removesuffix("</tool_call>")
    assert not any(tag in body for tag in CONTROL_TAGS)


def test_a_less_than_sign_that_forms_no_tag_is_written_as_it_is():
    assert (
        render_call(ToolCall("café", {"q": "a < b <b>"}))
        == '<tool_call>\n{"name": "café", "arguments": {"q": "a < b <b>"}}\n</tool_call>'
    )


def test_a_call_with_a_number_that_is_not_finite_cannot_be_written():
    with pytest.raises(DataError, match="'f'"):
        render_call(ToolCall("f", {"x": float("nan")}))


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ("{'name': 'f', 'arguments': {}}", Refusal.BROKEN_JSON),
        ('{"name": "f", "arguments": {"x": 1,}}', Refusal.BROKEN_JSON),
        ('{"name": "f"} {"name": "g"}', Refusal.BROKEN_JSON),
        ("", Refusal.BROKEN_JSON),
        ('{"name": "f", "arguments": {"x": ' + "9" * 5000 + "}}", Refusal.BROKEN_JSON),
        ('{"name": "f", "arguments": {"x": 1, "x": 1}}', Refusal.DUPLICATE_KEY),
        ('{"name": "f", "name": "f", "arguments": {}}', Refusal.DUPLICATE_KEY),
        ('{"name": "f", "arguments": {"x": NaN}}', Refusal.NON_FINITE),
        ('{"name": "f", "arguments": {"x": -Infinity}}', Refusal.NON_FINITE),
        ('{"name": "f", "arguments": {"x": 1e999}}', Refusal.NON_FINITE),
        ('{"name": "f", "arguments": {"x": "\\ud800"}}', Refusal.NOT_UNICODE),
        (nested(MAX_DEPTH + 1), Refusal.TOO_DEEP),
        (nested(100_000), Refusal.TOO_DEEP),
        ("42", Refusal.NOT_A_CALL),
        ("[]", Refusal.NOT_A_CALL),
        ('[{"name": "f"}, 42]', Refusal.NOT_A_CALL),
        ('{"arguments": {}}', Refusal.NOT_A_CALL),
        ('{"name": 7, "arguments": {}}', Refusal.NOT_A_CALL),
        ('{"name": "f", "arguments": null}', Refusal.NOT_A_CALL),
        ('{"name": "f", "arguments": null, "parameters": {}}', Refusal.NOT_A_CALL),
        ('{"name": "f", "arguments": "{}"}', Refusal.NOT_A_CALL),
    ],
)
def test_a_block_that_is_not_strictly_a_call_is_refused_with_its_reason(body, refusal):
    (found,) = parse_turn(block(body)).blocks
    assert (found.calls, found.refusal) == ((), refusal)


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        ('{"name": "f", "arguments": {"x": 1}}', [{"x": 1}]),
        ('{"name": "f", "parameters": {"x": 1}}', [{"x": 1}]),
        ('{"name": "f", "arguments": {"x": 1}, "parameters": {"x": 2}}', [{"x": 1}]),
        ('{"name": "f"}', [{}]),
        ('[{"name": "f"}, {"name": "f", "parameters": {"x": 2}}]', [{}, {"x": 2}]),
    ],
)
def test_arguments_come_before_parameters_and_default_to_none(body, arguments):
    assert [call.arguments for call in parse_turn(block(body)).calls] == arguments


def test_the_deepest_allowed_nesting_is_read_whatever_the_callers_stack():
    def below(levels: int) -> Refusal | None:
        return below(levels - 1) if levels else parse_turn(block(nested(MAX_DEPTH))).blocks[0].refusal

    assert below(0) is None
    assert below(sys.getrecursionlimit() // 3) is None


@settings(deadline=None)
@given(st.text())
def test_no_text_makes_the_parser_raise(text):
    turn = parse_turn(block(text) + text)
    assert turn.n_unclosed >= 0
    assert all(bool(found.calls) == (found.refusal is None) for found in turn.blocks)


@pytest.mark.parametrize(
    ("text", "refusals"),
    [
        (block('{"name": "f", "arguments": {"x": "' + "a" * 10_000_000 + '"}}'), [Refusal.TOO_LONG]),
        (block(nested(5_000_000)), [Refusal.TOO_LONG]),
        (block(nested(400_000)), [Refusal.TOO_DEEP]),
        ("<think>" * 1_500_000, []),
        ("<tool_call>" * 1_000_000, []),
        ("<tool_call></tool_call>" * 100_000, [Refusal.BROKEN_JSON] * 100_000),
    ],
    ids=["long", "long and deep", "deep", "unclosed thinking", "unclosed calls", "empty blocks"],
)
def test_ten_megabytes_of_anything_are_read_in_linear_time(text, refusals):
    """Would take hours, or the interpreter's stack, if anything here were quadratic or recursive."""
    assert [found.refusal for found in parse_turn(text).blocks] == refusals


def test_thinking_is_removed_before_anything_is_counted():
    call = ToolCall("f", {})
    turn = parse_turn(f"<think>maybe <tool_call>\n</think><thinking>{render_call(call)}</thinking>{render_call(call)}")
    assert (turn.n_open, turn.n_close, turn.calls) == (1, 1, (call,))


def test_unclosed_thinking_stays_and_counts():
    assert parse_turn(f"<think>{render_call(ToolCall('f', {}))}").n_open == 1


def test_a_tag_inside_a_json_string_ends_the_block():
    turn = parse_turn(block('{"name": "f", "arguments": {"x": "ends </tool_call> here"}}'))
    assert [found.refusal for found in turn.blocks] == [Refusal.BROKEN_JSON]
    assert (turn.n_open, turn.n_close) == (1, 2)


def test_an_unclosed_tag_swallows_the_next_block():
    turn = parse_turn('<tool_call>{"name": "f"}\n' + block('{"name": "g"}'))
    assert (turn.calls, turn.n_open, turn.n_close, turn.n_unclosed) == ((), 2, 1, 1)
