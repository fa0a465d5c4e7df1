"""From a token mask to the Tool and Summary segments of each rollout (App. A.1).

The policy's tokens come in runs, an observation between each two. The last run is the Summary, all earlier runs together are the
Tool segment; a rollout of one run is all Summary.

Axis letters used throughout the project, as suffixes of tensor names: B rollouts, T tokens, G groups, S segments (tool, summary),
R rewards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from slca_core.errors import DataError

TokenRange = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Segments:
    """Which tokens belong to which segment.

    Attributes:
        tool_BT: tokens of the Tool segment, bool.
        summary_BT: tokens of the Summary segment, bool; disjoint from tool_BT, and together they are the mask.
        turns_B: number of runs of policy tokens, int64.
    """

    tool_BT: Tensor
    summary_BT: Tensor
    turns_B: Tensor

    @property
    def tool_present_B(self) -> Tensor:
        return self.tool_BT.any(dim=1)

    @property
    def summary_present_B(self) -> Tensor:
        return self.summary_BT.any(dim=1)


def split_segments(mask_BT: Tensor, truncated_B: Tensor | None = None) -> Segments:
    """Split the policy tokens of each rollout into Tool and Summary.

    Args:
        mask_BT: nonzero on the tokens the policy wrote, zero on observations and padding, shape (B, T).
        truncated_B: the option `strict_summary`: rollouts that were cut while still calling, bool, shape (B,). Their last run is a
            call and no summary, so it belongs to Tool and their Summary is absent. None, the paper's reading: it is the Summary.

    Raises:
        ValueError: the mask is not two-dimensional or `truncated_B` is not one value a rollout.
    """
    if mask_BT.dim() != 2:
        raise ValueError(f"a mask of shape (rollouts, tokens) was expected, found shape {tuple(mask_BT.shape)}.")
    mask_BT = mask_BT.bool()
    run_BT = _run_starts(mask_BT).cumsum(dim=1)
    turns_B = run_BT[:, -1] if mask_BT.shape[1] else torch.zeros(len(mask_BT), dtype=torch.int64, device=mask_BT.device)
    summary_BT = mask_BT & (run_BT == turns_B[:, None])
    if truncated_B is not None:
        if truncated_B.shape != turns_B.shape:
            raise ValueError(
                f"truncated_B must hold one value for each of {len(turns_B)} rollouts, found shape {tuple(truncated_B.shape)}."
            )
        summary_BT = summary_BT & ~truncated_B.bool().to(mask_BT.device)[:, None]
    return Segments(tool_BT=mask_BT & ~summary_BT, summary_BT=summary_BT, turns_B=turns_B)


def mask_from_ranges(ranges: Sequence[Sequence[TokenRange]], length: int, *, device: torch.device | str | None = None) -> Tensor:
    """Build the token mask from each rollout's half-open token ranges, cut at `length` (a truncated batch).

    Args:
        ranges: per rollout the `(start, end)` of each run the policy wrote, in order; a range behind `length` disappears.
        length: number of tokens T of the batch.

    Returns:
        Shape (B, T), bool.

    Raises:
        DataError: a range runs backwards, or two ranges of a rollout touch or overlap. Touching ranges stand for an empty
            observation, which would fuse two turns into one run and move the border between Tool and Summary.
    """
    flat = [(row, start, end) for row, spans in enumerate(ranges) for start, end in spans]
    for row, start, end in flat:
        if not 0 <= start <= end:
            raise DataError(f"rollout {row}: a token range 0 <= start <= end was expected, found ({start}, {end}).")
    row_N, start_N, end_N = torch.tensor(flat, dtype=torch.int64).reshape(-1, 3).unbind(dim=1)
    start_N, end_N = start_N.clamp(max=length), end_N.clamp(max=length)
    step_BT = torch.zeros(len(ranges), length + 1, dtype=torch.int64)
    one_N = torch.ones_like(row_N)
    step_BT.index_put_((row_N, start_N), one_N, accumulate=True)
    step_BT.index_put_((row_N, end_N), -one_N, accumulate=True)
    mask_BT = step_BT.cumsum(dim=1)[:, :length] > 0
    _check_run_counts(mask_BT, row_N[start_N < end_N])
    return mask_BT.to(device)


def check_mask_agrees(mask_BT: Tensor, ranges: Sequence[Sequence[TokenRange]]) -> None:
    """Check a mask that came another way (a trainer's action mask) against the ranges the rollouts recorded.

    Raises:
        DataError: naming the first rollout whose tokens differ, or whose ranges touch.
    """
    if len(ranges) != len(mask_BT):
        raise DataError(
            f"a mask of {len(ranges)} rollouts was expected, as many as there are lists of ranges; found {len(mask_BT)}."
        )
    expected_BT = mask_from_ranges(ranges, mask_BT.shape[1], device=mask_BT.device)
    differs_BT = expected_BT != mask_BT.bool()
    if differs_BT.any():
        row, token = differs_BT.nonzero()[0].tolist()
        raise DataError(
            f"rollout {row}: its token mask and its recorded turns differ, first at token {token}. "
            "Recorded turns must be counted in the tokens of the same padded row."
        )


def _run_starts(mask_BT: Tensor) -> Tensor:
    before_BT = torch.nn.functional.pad(mask_BT, (1, 0))[:, : mask_BT.shape[1]]
    return mask_BT & ~before_BT


def _check_run_counts(mask_BT: Tensor, row_N: Tensor) -> None:
    """Compare the mask's runs with the number of ranges of each rollout; `row_N` is the rollout of each range that is not empty."""
    expected_B = torch.bincount(row_N, minlength=len(mask_BT))
    found_B = _run_starts(mask_BT).sum(dim=1)
    differs_B = expected_B != found_B
    if differs_B.any():
        row = int(differs_B.nonzero()[0])
        raise DataError(
            f"rollout {row}: {int(expected_B[row])} separate turns were expected, its token ranges form {int(found_B[row])} runs. "
            "Two ranges touch or overlap: the observation between them is empty. Give every observation at least one token."
        )
