"""Masks become Tool and Summary segments, and ranges become masks (App. A.1)."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slca_core.credit.segments import check_mask_agrees, mask_from_ranges, split_segments
from slca_core.errors import DataError

masks = st.integers(1, 12).flatmap(
    lambda width: st.lists(st.lists(st.booleans(), min_size=width, max_size=width), min_size=1, max_size=6)
)


def runs_of(mask: list[bool]) -> list[range]:
    """The slow, obvious way: walk along the tokens."""
    runs, start = [], None
    for position, token in enumerate([*mask, False]):
        if token and start is None:
            start = position
        elif not token and start is not None:
            runs.append(range(start, position))
            start = None
    return runs


@settings(deadline=None)
@given(masks)
def test_the_last_run_is_the_summary_and_all_earlier_runs_are_tool(mask):
    segments = split_segments(torch.tensor(mask))
    for row, tokens in enumerate(mask):
        runs = runs_of(tokens)
        assert segments.turns_B[row] == len(runs)
        assert segments.summary_BT[row].nonzero().flatten().tolist() == [t for run in runs[-1:] for t in run]
        assert segments.tool_BT[row].nonzero().flatten().tolist() == [t for run in runs[:-1] for t in run]


@settings(deadline=None)
@given(masks)
def test_the_segments_are_disjoint_and_together_the_mask(mask):
    mask_BT = torch.tensor(mask)
    segments = split_segments(mask_BT)
    assert not (segments.tool_BT & segments.summary_BT).any()
    assert torch.equal(segments.tool_BT | segments.summary_BT, mask_BT)


def test_one_run_is_all_summary_and_no_run_leaves_both_segments_absent():
    segments = split_segments(torch.tensor([[0, 1, 1, 0], [0, 0, 0, 0]]))
    assert segments.turns_B.tolist() == [1, 0]
    assert segments.tool_present_B.tolist() == [False, False]
    assert segments.summary_present_B.tolist() == [True, False]


@pytest.mark.parametrize("shape", [(0, 4), (3, 0)])
def test_an_empty_batch_and_an_empty_row_have_no_segments(shape):
    segments = split_segments(torch.zeros(shape, dtype=torch.bool))
    assert segments.turns_B.tolist() == [0] * shape[0]
    assert not segments.summary_present_B.any()


def test_under_strict_summary_the_last_run_of_a_truncated_rollout_is_tool():
    mask_BT = torch.tensor([[1, 0, 1, 1], [1, 0, 1, 1], [1, 1, 0, 0]])
    segments = split_segments(mask_BT, truncated_B=torch.tensor([True, False, True]))
    assert segments.tool_BT.int().tolist() == [[1, 0, 1, 1], [1, 0, 0, 0], [1, 1, 0, 0]]
    assert segments.summary_present_B.tolist() == [False, True, False]


def test_a_mask_that_is_not_two_dimensional_is_refused():
    with pytest.raises(ValueError, match="shape"):
        split_segments(torch.ones(4))


@settings(deadline=None)
@given(masks)
def test_a_mask_built_from_its_own_runs_is_the_mask(mask):
    ranges = [[(run.start, run.stop) for run in runs_of(tokens)] for tokens in mask]
    mask_BT = mask_from_ranges(ranges, len(mask[0]))
    assert torch.equal(mask_BT, torch.tensor(mask))
    check_mask_agrees(mask_BT.int(), ranges)


def test_ranges_are_cut_where_the_batch_ends():
    mask_BT = mask_from_ranges([[(0, 2), (3, 9), (10, 12)], []], length=5)
    assert mask_BT.int().tolist() == [[1, 1, 0, 1, 1], [0, 0, 0, 0, 0]]


@pytest.mark.parametrize("second", [(3, 5), (2, 5)], ids=["touching", "overlapping"])
def test_an_empty_observation_is_an_error_that_names_the_rollout(second):
    with pytest.raises(DataError, match=r"rollout 1: 2 separate turns .* 1 runs"):
        mask_from_ranges([[(0, 1)], [(0, 3), second]], length=6)


def test_a_range_that_runs_backwards_is_an_error_that_names_the_rollout():
    with pytest.raises(DataError, match="rollout 0"):
        mask_from_ranges([[(4, 2)]], length=6)


def test_a_mask_that_differs_from_the_recorded_turns_names_rollout_and_token():
    with pytest.raises(DataError, match=r"rollout 1: .* token 2"):
        check_mask_agrees(torch.tensor([[1, 0, 1], [1, 0, 0]]), [[(0, 1), (2, 3)], [(0, 1), (2, 3)]])
