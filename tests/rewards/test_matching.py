"""The loose match of values and the greedy match of calls (App. A.4)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slca_core.conversation.dialogue import ToolCall
from slca_core.rewards.matching import loosely_equal, match_greedily
from slca_core.rewards.prediction import RULES

json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (None, None),
        (True, 1),
        (True, "TRUE "),
        ("false", 0),
        ("true", "1"),
        (3, "3.0"),
        ("1e3", 1000),
        (1.0, 1.0 + 5e-10),
        (2e12, 2e12 + 1),
        ("  Oslo", "oSLO "),
        ("STRASSE", "straße"),
        ([1, "a"], ["1", "A"]),
        ({"x": True}, {"x": "true"}),
        ('["a", 1]', ["A", 1]),
        ({"x": [1]}, '{"x": "[1.0]"}'),
        (10**400, 10**400),
    ],
)
def test_values_that_mean_the_same_match(a, b):
    assert loosely_equal(a, b)
    assert loosely_equal(b, a)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (None, "null"),
        (None, "none"),
        (None, 0),
        (None, False),
        (None, ""),
        (True, 2),
        (True, "yes"),
        (1.0, 1.0 + 2e-9),
        ("1_000", 1000),
        ("nan", float("inf")),
        ("", 0),
        ([1, 2], [2, 1]),
        ([1], [1, 1]),
        ({"x": 1}, {"X": 1}),
        ({"x": 1}, {"x": 1, "y": None}),
        ("[1, 2]", "[1,2]"),
        ("[1,", [1]),
        ([], {}),
        ([], ""),
        (10**400, 10**400 + 1),
    ],
)
def test_values_that_differ_do_not_match(a, b):
    assert not loosely_equal(a, b)
    assert not loosely_equal(b, a)


@settings(deadline=None)
@given(json_values)
def test_every_value_matches_itself(value):
    assert loosely_equal(value, value)


@settings(deadline=None)
@given(json_values, json_values)
def test_matching_is_symmetric(a, b):
    assert loosely_equal(a, b) == loosely_equal(b, a)


def test_a_gold_call_takes_the_best_prediction_and_the_first_on_ties():
    guesses = [ToolCall("f", {"x": 0}), ToolCall("f", {"x": 1, "y": 0}), ToolCall("f", {"x": 1}), ToolCall("f", {"x": "1"})]
    first, second = match_greedily([ToolCall("f", {"x": 1})] * 2, guesses, RULES["paper"])
    assert first.predicted is guesses[2]
    assert second.predicted is guesses[3]


@pytest.mark.parametrize(("semantics", "taken"), [("paper", True), ("release", False)])
def test_only_the_papers_words_consume_a_prediction_that_agrees_in_nothing(semantics, taken):
    (match,) = match_greedily([ToolCall("f", {"x": 1})], [ToolCall("f", {"y": 1})], RULES[semantics])
    assert (match.predicted is not None) is taken
    assert (match.key, match.value) == (0.0, 0.0)
