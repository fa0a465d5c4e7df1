"""The stand-ins' written rubrics, rule by rule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slca_core.conversation.dialogue import ToolCall
from slca_core.conversation.schemas import ToolSet
from slca_core.judges.summary import SHORTEST_ANSWER
from slca_core.simulator.sgls import MALFORMED_CALL, validation_error
from slca_core.standins.judge import LONGEST, is_complete, is_solved, rate

QUESTION = "How is the weather in Oslo?"
RESPONSES = ['{"temp": 17, "dry": true}']
TOOLS = ToolSet.of(
    [
        {
            "type": "function",
            "function": {
                "name": "w",
                "parameters": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}, "day": {"type": "string"}},
                    "required": ["city", "day"],
                    "additionalProperties": False,
                },
            },
        }
    ]
)
ERRORS = {
    "malformed": MALFORMED_CALL,
    "unknown-tool": validation_error(ToolCall("x", {}), TOOLS),
    "unknown-tool-of-several-lines": validation_error(ToolCall("x'\ny", {}), TOOLS),
    "one-missing": validation_error(ToolCall("w", {"city": "Oslo"}), TOOLS),
    "two-missing": validation_error(ToolCall("w", {}), TOOLS),
    "ill-typed": validation_error(ToolCall("w", {"city": 1, "day": "today"}), TOOLS),
    "one-too-many": validation_error(ToolCall("w", {"city": "Oslo", "day": "today", "hour": 1}), TOOLS),
}


@pytest.mark.parametrize(
    ("rating", "final"),
    [
        ("very poor", "17, true"),
        ("poor", "I could not find out anything about Oslo."),
        ("acceptable", "The weather in Oslo: temp is 17."),
        ("good", "Temp is 17 and dry is true."),
        ("good", "In Oslo temp is 17 and dry is true." + " So it is." * 20),
        ("excellent", "In Oslo temp is 17 and dry is true."),
    ],
)
def test_each_example_of_the_rubric_gets_its_rating(rating, final):
    assert rate(QUESTION, RESPONSES, final)[0] == rating


@pytest.mark.parametrize(("words", "rating"), [(LONGEST, "excellent"), (LONGEST + 1, "good")])
def test_an_answer_may_have_so_many_words(words, rating):
    final = "In Oslo temp is 17 and dry is true"
    assert rate(QUESTION, RESPONSES, final + " so" * (words - len(final.split())))[0] == rating


@pytest.mark.parametrize(
    ("final", "rating"), [("17 is true", "good"), ("17 is tru", "very poor"), ("  17, true \n\n  ", "very poor")]
)
def test_blanks_around_an_answer_do_not_make_it_longer(final, rating):
    assert len("17 is true") == SHORTEST_ANSWER
    assert rate(QUESTION, RESPONSES, final)[0] == rating


@pytest.mark.parametrize(
    ("question", "final", "rating"),
    [
        ("What is 12 and 5?", "With 12 temp is 17 and dry is true.", "excellent"),
        ("What is 12 and 5?", "For the one temp is 17 and dry is true.", "good"),
        ("The one and the other?", "As for the first temp is 17 and dry is true.", "good"),
        ("Is it OSLO?", "In oslo temp is 17 and dry is TRUE.", "excellent"),
        ("Is it Oslo?", "In Oslofjord temp is 17 and dry is true.", "good"),
    ],
)
def test_on_the_question_is_what_names_one_of_its_words_or_numbers(question, final, rating):
    assert rate(question, RESPONSES, final)[0] == rating


@pytest.mark.parametrize(
    ("responses", "final", "rating"),
    [
        (['{"a": {"b": ["amber", 1.5]}}'], "Oslo is amber with 1.5 of it.", "excellent"),
        (['{"a": {"b": ["amber", 1.5]}}'], "Oslo is amber with some of it.", "acceptable"),
        (['{"a": 1}', '{"b": 2}'], "Oslo has 1 of them.", "acceptable"),
        (['{"a": 1, "b": null}'], "Oslo has 1 of them.", "excellent"),
        (['{"a": "Tromsø (north)"}'], "Not Oslo but Tromsø (north).", "excellent"),
        (["Tool 'x' not found in the current available tools set.", '{"a": 1}'], "Oslo has 1 of them.", "excellent"),
        (["Tool 'x' not found in the current available tools set."], "Oslo has 1 of them.", "poor"),
        ([], "Oslo has 1 of them.", "poor"),
        (["17"], "Oslo has 17 of them.", "excellent"),
    ],
)
def test_the_values_are_the_leaves_of_every_response_that_is_json(responses, final, rating):
    assert rate(QUESTION, responses, final)[0] == rating


@pytest.mark.parametrize(
    ("final", "verdict"),
    [
        ("The weather is fine.", "Unsure"),
        ("It is 17 in Oslo.", "Unsure"),
        ("Temp is 17 and dry is true.", "Unsolved"),
        ("", "Unsolved"),
    ],
)
def test_without_the_responses_an_answer_off_the_question_is_unsolved_and_any_other_unsure(final, verdict):
    assert is_solved(QUESTION, None, final) == verdict


@given(
    st.lists(st.sampled_from(["Oslo", "17", "true", "temp is", "and", "so " * LONGEST]), max_size=8).map(" ".join),
    st.sampled_from([RESPONSES, [], ["no json"], [*RESPONSES, '{"temp": 18}']]),
)
def test_with_the_responses_solved_is_what_is_rated_good_or_excellent(final, responses):
    solved = rate(QUESTION, responses, final)[0] in ("good", "excellent")
    assert is_solved(QUESTION, responses, final) == ("Solved" if solved else "Unsolved")


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_a_call_that_came_back_as_an_error_leaves_the_calls_incomplete(error):
    assert not is_complete([error])
    assert not is_complete([*RESPONSES, error, *RESPONSES])


def test_calls_that_all_came_back_are_complete():
    assert is_complete(RESPONSES)
    assert is_complete([*RESPONSES, "plain text"])


def test_nothing_called_is_not_complete():
    assert not is_complete([])


@pytest.mark.parametrize("response", ['{"error": "Tool \'x\' not found"}', "not found", f'"{MALFORMED_CALL}"', "Tool 'x' answers."])
def test_a_response_that_only_tells_of_an_error_is_none_of_the_simulators(response):
    assert is_complete([response])
