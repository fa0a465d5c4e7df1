"""Comparing predicted calls with gold calls (App. A.4): the loose match of values, and the one-to-one match of calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from slca_core.conversation.calls import RefusedJson, load_strict_json
from slca_core.conversation.dialogue import ToolCall
from slca_core.rewards.prediction import Rules

# Plain decimal numbers only: float() would also take "nan", "infinity" and "1_000".
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WORDS = {"true": 1.0, "false": 0.0}
_RELATIVE_TOLERANCE = 1e-9

Matching = Literal["greedy", "optimal"]


class Match(NamedTuple):
    """A gold call, the prediction it took (None if none was left), and the parts that pair scores, each in [0, 1]."""

    gold: ToolCall
    predicted: ToolCall | None
    key: float
    value: float


def match_greedily(gold: Iterable[ToolCall], predicted: Iterable[ToolCall], rules: Rules) -> tuple[Match, ...]:
    """Each gold call in order takes the unused prediction of its name with the highest key + value score, the first on ties."""
    unused = list(predicted)
    matches = []
    for call in gold:
        candidates = [
            (*_score_pair(guess, call, rules), position) for position, guess in enumerate(unused) if guess.name == call.name
        ]
        key, value, position = max(candidates, key=lambda scored: scored[0] + scored[1], default=(0.0, 0.0, None))
        if position is None or (key + value == 0 and not rules.takes_at_zero):
            matches.append(Match(call, None, 0.0, 0.0))
        else:
            matches.append(Match(call, unused.pop(position), key, value))
    return tuple(matches)


def match_optimally(gold: Iterable[ToolCall], predicted: Iterable[ToolCall], rules: Rules) -> tuple[Match, ...]:
    """The one-to-one match within each name with the largest total key + value score; it does not depend on any order.

    Where several matches have that total, the one with the largest key total is taken, so that S_key and S_val are unique too.
    """
    gold, predicted = list(gold), list(predicted)
    matches = [Match(call, None, 0.0, 0.0) for call in gold]
    for name in {call.name for call in gold}:
        rows = [index for index, call in enumerate(gold) if call.name == name]
        guesses = [guess for guess in predicted if guess.name == name]
        scores = [[_score_pair(guess, gold[row], rules) for guess in guesses] for row in rows]
        for row, column in _assign(scores):
            key, value = scores[row][column]
            if key + value > 0 or rules.takes_at_zero:
                matches[rows[row]] = Match(gold[rows[row]], guesses[column], key, value)
    return tuple(matches)


MATCHERS: Mapping[Matching, Callable[[Iterable[ToolCall], Iterable[ToolCall], Rules], tuple[Match, ...]]] = MappingProxyType(
    {"greedy": match_greedily, "optimal": match_optimally}
)


def _assign(scores: list[list[tuple[float, float]]]) -> Iterable[tuple[int, int]]:
    """(row, column) pairs of the best assignment; the key score breaks ties, far below any difference of two totals."""
    if not scores[0]:
        return ()
    if len(scores) == len(scores[0]) == 1:
        return ((0, 0),)
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment([[key + value + 1e-9 * key for key, value in row] for row in scores], maximize=True)
    return zip(rows.tolist(), columns.tolist(), strict=True)


def _score_pair(guess: ToolCall, gold: ToolCall, rules: Rules) -> tuple[float, float]:
    """S_key and S_val of one pair: Jaccard of the keys, and the share of values that match."""
    shared = guess.arguments.keys() & gold.arguments.keys()
    union = guess.arguments.keys() | gold.arguments.keys()
    key = len(shared) / len(union) if union else 1.0
    compared = len(shared) if rules.values_over == "matched keys" else len(gold.arguments)
    if not compared:
        return key, 0.0 if gold.arguments else 1.0
    return key, sum(loosely_equal(guess.arguments[name], gold.arguments[name]) for name in shared) / compared


def loosely_equal(a: Any, b: Any) -> bool:
    """Whether two JSON values match.

    None matches only None; booleans, the words true and false, and numbers, also written as strings, match by value; other strings
    after strip and casefold; structures by the same rule inside; a JSON string against a structure after parsing it.
    """
    if type(a) is type(b) and a == b:
        return True
    if a is None or b is None:
        return False
    if isinstance(a, (list, dict)) or isinstance(b, (list, dict)):
        return _structures_equal(_parsed_against(a, b), _parsed_against(b, a))
    number_a, number_b = _as_number(a), _as_number(b)
    if number_a is not None and number_b is not None:
        return abs(number_a - number_b) <= _RELATIVE_TOLERANCE * max(1.0, abs(number_a), abs(number_b))
    if isinstance(a, str) and isinstance(b, str):
        return a.strip().casefold() == b.strip().casefold()
    return bool(a == b)


def _parsed_against(value: Any, other: Any) -> Any:
    if not isinstance(value, str) or isinstance(other, str):
        return value
    try:
        return load_strict_json(value)
    except RefusedJson:
        return value


def _structures_equal(a: Any, b: Any) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(loosely_equal(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(loosely_equal, a, b))
    return False


def _as_number(value: Any) -> float | None:
    if isinstance(value, str):
        word = value.strip().casefold()
        if word in _WORDS:
            return _WORDS[word]
        value = word if _NUMBER.fullmatch(word) else None
    if value is None:
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if abs(number) < float("inf") else None
