"""The written rubrics of the stand-in judge and the stand-in checker: rules a person can apply by hand, and no language model.

For the question "How is the weather in Oslo?" and the response {"temp": 17, "dry": true} the judge rates

    very poor   under 10 characters                                     "17, true"
    poor        quotes none of the responses' values                    "I could not find out anything about Oslo."
    acceptable  quotes some of them                                     "The weather in Oslo: temp is 17."
    good        quotes all, but names no word or number of the          "Temp is 17 and dry is true."
                question, or runs past 60 words
    excellent   quotes all, on the question, in at most 60 words        "In Oslo temp is 17 and dry is true."

The values are the leaves of every response that is JSON; an error message has none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from slca_core.judges.outcome import Verdict
from slca_core.judges.summary import Rating, is_hardly_an_answer
from slca_core.judges.transcript import NOTHING
from slca_core.simulator.sgls import is_error

LONGEST = 60  # words
_WORD = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]{3,}")
_COMMON = frozenset({"and", "for", "the"})


def rate(question: str, responses: Sequence[str], final: str) -> tuple[Rating, str]:
    """The judge's rating of a final answer, with its reason."""
    if is_hardly_an_answer(final):
        return "very poor", "hardly any answer"
    values = list(_values(responses))
    quoted = sum(_mentions(final, value) for value in values)
    if not quoted:
        return "poor", "no value of the tool responses is in the answer"
    if quoted < len(values):
        return "acceptable", f"{quoted} of {len(values)} values are in the answer"
    if _is_on(question, final) and len(final.split()) <= LONGEST:
        return "excellent", "all values, on the question, short"
    return "good", "all values, but off the question or long"


def is_solved(question: str, responses: Sequence[str] | None, final: str) -> Verdict:
    """The outcome judge's verdict. Without the responses an answer off the question is Unsolved and any other Unsure; with them,
    Solved is what `rate` calls good or excellent.
    """
    if responses is None:
        return "Unsure" if _is_on(question, final) else "Unsolved"
    return "Solved" if rate(question, responses, final)[0] in ("good", "excellent") else "Unsolved"


def is_complete(responses: Sequence[str]) -> bool:
    """The checker's vote: something was called, and every call has a response that is no error of the simulator."""
    return bool(responses) and not any(response == NOTHING or is_error(response) for response in responses)


def _values(responses: Iterable[str]) -> Iterator[str]:
    for response in responses:
        try:
            yield from _leaves(json.loads(response))
        except json.JSONDecodeError:
            continue


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    elif isinstance(value, bool):
        yield "true" if value else "false"
    elif value is not None:
        yield str(value)


def _is_on(question: str, text: str) -> bool:
    """Whether the text names a word or a number of the question."""
    return any(_mentions(text, word) for word in _WORD.findall(question) if word.lower() not in _COMMON)


def _mentions(text: str, value: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(value)}(?!\w|\.\d)", text, re.IGNORECASE) is not None
