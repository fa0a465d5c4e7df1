"""The breaker: closed until nobody is answered any more, then one call at a time finds out whether somebody is again."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from slca_core.errors import ServiceError
from slca_core.services.breaker import Breaker

CALLS, PROBE_S = 3, 30.0


@dataclass
class Clock:
    now: float = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("slca_core.services.breaker.time", clock)
    return clock


@pytest.fixture
def breaker(clock):
    return Breaker("The judge at http://judge", CALLS, PROBE_S)


def fail(breaker: Breaker, times: int = CALLS) -> None:
    for number in range(1, times + 1):
        breaker.unanswered(f"HTTP 503, number {number}")


def is_let_through(breaker: Breaker) -> bool:
    try:
        breaker.let_through()
    except ServiceError:
        return False
    return True


def test_it_stays_closed_until_so_many_calls_in_a_row_were_not_answered(breaker):
    fail(breaker, CALLS - 1)
    assert not breaker.is_open
    assert [is_let_through(breaker) for _ in range(5)] == [True] * 5
    fail(breaker, 1)
    assert breaker.is_open
    assert not is_let_through(breaker)


def test_one_answer_and_the_count_begins_anew(breaker):
    for _ in range(5):
        fail(breaker, CALLS - 1)
        breaker.answered()
    fail(breaker, CALLS - 1)
    assert is_let_through(breaker)


def test_an_open_one_says_who_how_often_and_the_last_reason(breaker):
    fail(breaker, CALLS + 1)
    with pytest.raises(
        ServiceError, match=r"^The judge at http://judge has not answered 4 calls in a row\. The last: HTTP 503, number 4$"
    ):
        breaker.let_through()


def test_after_a_while_exactly_one_call_is_let_through(breaker, clock):
    fail(breaker)
    clock.now += PROBE_S - 1
    assert [is_let_through(breaker) for _ in range(3)] == [False] * 3
    clock.now += 1
    assert [is_let_through(breaker) for _ in range(3)] == [True, False, False]


def test_an_answered_probe_closes_it(breaker, clock):
    fail(breaker)
    clock.now += PROBE_S
    breaker.let_through()
    breaker.answered()
    assert not breaker.is_open
    assert [is_let_through(breaker) for _ in range(3)] == [True] * 3


def test_an_unanswered_probe_keeps_it_open_for_as_long_again(breaker, clock):
    fail(breaker)
    clock.now += PROBE_S
    breaker.let_through()
    clock.now += PROBE_S - 1
    fail(breaker, 1)
    clock.now += PROBE_S - 1
    assert not is_let_through(breaker)
    clock.now += 1
    assert [is_let_through(breaker) for _ in range(3)] == [True, False, False]


def test_a_probe_of_which_nothing_is_heard_is_followed_by_another(breaker, clock):
    fail(breaker)
    clock.now += PROBE_S
    breaker.let_through()
    clock.now += PROBE_S
    assert [is_let_through(breaker) for _ in range(3)] == [True, False, False]


def test_a_late_answer_to_a_call_from_before_closes_it_too(breaker):
    fail(breaker)
    breaker.answered()
    assert is_let_through(breaker)
