"""From a token mask to the Tool and Summary segments of each rollout (App. A.1).

The policy's tokens come in runs, an observation between each two. The last run is the Summary, all earlier runs together are the
Tool segment; a rollout of one run is all Summary.

Axis letters used throughout the project, as suffixes of tensor names: B rollouts, T tokens, G groups, S segments (tool, summary),
R rewards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from slca_core.errors import DataError

TokenRange = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Segments:
    """The runs of policy tokens of a padded batch, each of them Tool or Summary.

    Runs, not masks, are what is kept: there are few of them, and whatever is the same within a run is worked out once a run.

    Attributes:
        shape: (B, T).
        start_N, end_N: every run as half-open positions in the flattened batch, in order, int64.
        is_summary_N: whether the run is its rollout's Summary, bool.
        turns_B: number of runs of each rollout, int64.
    """

    shape: tuple[int, int]
    start_N: Tensor
    end_N: Tensor
    is_summary_N: Tensor
    turns_B: Tensor

    @property
    def row_N(self) -> Tensor:
        """The rollout of each run."""
        return torch.repeat_interleave(torch.arange(self.shape[0], device=self.turns_B.device), self.turns_B)

    @property
    def tool_present_B(self) -> Tensor:
        return self._count_B(~self.is_summary_N) > 0

    @property
    def summary_present_B(self) -> Tensor:
        return self._count_B(self.is_summary_N) > 0

    @property
    def tool_BT(self) -> Tensor:
        """Tokens of the Tool segment, bool."""
        return self.paint(~self.is_summary_N)

    @property
    def summary_BT(self) -> Tensor:
        """Tokens of the Summary segment, bool; disjoint from tool_BT, and together they are the mask."""
        return self.paint(self.is_summary_N)

    def paint(self, value_N: Tensor) -> Tensor:
        """A value a run -> that value on each of its tokens and exactly 0 on all others, shape (B, T); no gradient passes."""
        tokens = self.shape[0] * self.shape[1]
        edge_M = torch.stack((self.start_N, self.end_N), dim=1).flatten()
        length_M = torch.diff(edge_M, prepend=edge_M.new_zeros(1), append=edge_M.new_full((1,), tokens))
        value_M = value_N.new_zeros(len(length_M))
        value_M[1::2] = value_N.detach()
        return _repeat(value_M, length_M, tokens).view(self.shape)

    def _count_B(self, chosen_N: Tensor) -> Tensor:
        return torch.zeros_like(self.turns_B).index_add(0, self.row_N, chosen_N.long())


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
    start_N, end_N, turns_B = _runs(mask_BT.bool())
    is_summary_N = torch.zeros_like(start_N, dtype=torch.bool)
    is_summary_N[turns_B.cumsum(dim=0)[turns_B > 0] - 1] = True
    segments = Segments((mask_BT.shape[0], mask_BT.shape[1]), start_N, end_N, is_summary_N, turns_B)
    if truncated_B is None:
        return segments
    if truncated_B.shape != turns_B.shape:
        raise ValueError(
            f"truncated_B must hold one value for each of {len(turns_B)} rollouts, found shape {tuple(truncated_B.shape)}."
        )
    cut_N = truncated_B.bool().to(mask_BT.device)[segments.row_N]
    return Segments(segments.shape, start_N, end_N, is_summary_N & ~cut_N, turns_B)


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


def _runs(mask_BT: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(start_N, end_N, turns_B) of a bool mask; see `Segments`."""
    rollouts, tokens = mask_BT.shape
    if tokens == 0:
        nothing_N = torch.zeros(0, dtype=torch.int64, device=mask_BT.device)
        return nothing_N, nothing_N, torch.zeros(rollouts, dtype=torch.int64, device=mask_BT.device)
    # One column more than tokens, so that every run has its end in its own row.
    edge_BE = torch.empty(rollouts, tokens + 1, dtype=torch.bool, device=mask_BT.device)
    edge_BE[:, 0], edge_BE[:, -1] = mask_BT[:, 0], mask_BT[:, -1]
    torch.ne(mask_BT[:, 1:], mask_BT[:, :-1], out=edge_BE[:, 1:-1])
    position_NX = _flat_nonzero(edge_BE).view(-1, 2)
    row_N = position_NX[:, 0] // (tokens + 1)
    # Back to positions in rows of `tokens`.
    start_N, end_N = (position_NX - row_N[:, None]).unbind(dim=1)
    return start_N, end_N, torch.bincount(row_N, minlength=rollouts)


def _flat_nonzero(flag_BE: Tensor) -> Tensor:
    """Positions of the true entries, in order. On a CPU by numpy, which is several times faster."""
    if flag_BE.device.type == "cpu":
        return torch.from_numpy(np.flatnonzero(flag_BE.numpy()))
    return flag_BE.flatten().nonzero().squeeze(1)


def _repeat(value_M: Tensor, length_M: Tensor, total: int) -> Tensor:
    """Each value as often as its length says, `total` in all. On a CPU by numpy, which is several times faster."""
    if value_M.device.type == "cpu":
        return torch.from_numpy(np.repeat(value_M.numpy(), length_M.numpy()))
    return torch.repeat_interleave(value_M, length_M, output_size=total)


def _check_run_counts(mask_BT: Tensor, row_N: Tensor) -> None:
    """Compare the mask's runs with the number of ranges of each rollout; `row_N` is the rollout of each range that is not empty."""
    expected_B = torch.bincount(row_N, minlength=len(mask_BT))
    found_B = _runs(mask_BT)[2]
    differs_B = expected_B != found_B
    if differs_B.any():
        row = int(differs_B.nonzero()[0])
        raise DataError(
            f"rollout {row}: {int(expected_B[row])} separate turns were expected, its token ranges form {int(found_B[row])} runs. "
            "Two ranges touch or overlap: the observation between them is empty. Give every observation at least one token."
        )
