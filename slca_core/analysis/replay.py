"""Every estimator on the same stored rollouts: what each would have told the tool tokens (Theorems A.3 and A.4, measured)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import torch
from torch import Tensor

from slca_core.credit.advantages import compute_advantages
from slca_core.credit.estimators import ESTIMATORS, Estimator
from slca_core.credit.segments import Segments, mask_from_ranges, split_segments
from slca_core.credit.theory import flipped, in_conflict
from slca_core.errors import DataError
from slca_core.records.store import RECORD, read_record

_REWARDS = {"tool": "r_tool", "summary": "r_sum", "outcome": "outcome", "action": "action"}
_NEEDED = ("rollout_id", "update", *_REWARDS.values(), "action_ranges", "token_ids", "turns", "observations", "error")


@dataclass(frozen=True, slots=True)
class EstimatorReplay:
    """One estimator on the rollouts.

    Attributes:
        name: the estimator's.
        tool_tokens_flipped: share of tool tokens pushed against R_tool's own standardised advantage.
        summary_tokens_flipped: likewise for summary tokens and R_sum.
        explained_by_summary: share of the tool advantage's variance within groups that R_sum explains beyond R_tool; NaN where
            the tool advantage never varies.
    """

    name: str
    tool_tokens_flipped: float
    summary_tokens_flipped: float
    explained_by_summary: float


@dataclass(frozen=True, slots=True)
class Replay:
    """What the rollouts show.

    Attributes:
        rollouts, groups: counts; rollouts that failed are left out.
        failed: rollouts left out.
        conflict: share of rollouts in the conflict regime, of those with both segments.
        estimators: one entry an estimator.
        group_size: mean size of a rollout's group (G).
        outcomes_per_call: mean number of distinct calls with their responses that a group shows at one turn (C).
        tool_turns: mean number of tool turns (K).
        partitioned: mean number of rollouts of the group that share a rollout's tool calls and responses: what is left of G if
            summaries were normalised per tool outcome.
        alone: share of rollouts that would then have nobody to be compared with.
    """

    rollouts: int
    groups: int
    failed: int
    conflict: float
    estimators: tuple[EstimatorReplay, ...]
    group_size: float
    outcomes_per_call: float
    tool_turns: float
    partitioned: float
    alone: float

    @property
    def predicted(self) -> float:
        """The paper's rule for `partitioned`: G / C^K."""
        return float(self.group_size / self.outcomes_per_call**self.tool_turns)


def read_rollouts(path: Path) -> pd.DataFrame:
    """The rollouts of a parquet file, of a folder of them, or of a training run's folder.

    Raises:
        DataError: there are none, a file is not one of rollouts, or not as a finished run recorded it.
    """
    if (path / RECORD).is_file():
        path = read_record(path / RECORD).output("rollouts")
    folder = path / "rollouts" if (path / "rollouts").is_dir() else path
    files = sorted(folder.glob("*.parquet")) if folder.is_dir() else [folder]
    if not files or not files[0].exists():
        raise DataError(
            f"Rollouts were expected at {path}: a parquet file, a folder of them, or a training run's folder. Found none."
        )
    return pd.concat([_read(file) for file in files], ignore_index=True)


def _read(file: Path) -> pd.DataFrame:
    try:
        frame = pd.read_parquet(file)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"A parquet file of rollouts was expected at {file}, found: {error}.") from error
    if missing := [column for column in _NEEDED if column not in frame]:
        raise DataError(f"{file} was expected to hold rollouts; it lacks the columns {', '.join(missing)}.")
    return frame


def replay(
    frame: pd.DataFrame,
    estimators: Iterable[Estimator] = tuple(ESTIMATORS.values()),
    *,
    lambda_tool: float = 1.0,
    lambda_sum: float = 1.0,
    eps: float = 1e-6,
) -> Replay:
    """Run every estimator over stored rollouts; rewards are taken as stored, the omission override applied.

    Args:
        frame: as `read_rollouts` gives it; groups are told apart by update and by rollout id up to its last "-".
    """
    failed = frame["error"].notna()
    frame = frame[~failed].reset_index(drop=True)
    if frame.empty:
        raise DataError("Rollouts that did not fail were expected, found none.")
    group_B = torch.tensor(frame.groupby(["update", frame["rollout_id"].str.rpartition("-")[0]]).ngroup().to_numpy())
    length = int(frame["token_ids"].map(len).max())
    segments = split_segments(mask_from_ranges([[tuple(pair) for pair in spans] for spans in frame["action_ranges"]], length))
    rewards = {name: torch.tensor(frame[column].to_numpy(), dtype=torch.float64) for name, column in _REWARDS.items()}

    weights: dict[str, Any] = {"lambda_tool": lambda_tool, "lambda_sum": lambda_sum, "eps": eps}
    own = compute_advantages(ESTIMATORS["slca"], rewards, segments, group_B)
    has_both_B = segments.tool_present_B & segments.summary_present_B
    conflict_B = in_conflict(own.tool_B, own.summary_B) & has_both_B
    entries = []
    for estimator in estimators:
        routed = compute_advantages(estimator, rewards, segments, group_B, **weights)
        entries.append(
            EstimatorReplay(
                name=estimator.name,
                tool_tokens_flipped=_share_of_tokens(flipped(routed.tool_B, own.tool_B), segments.tool_BT),
                summary_tokens_flipped=_share_of_tokens(flipped(routed.summary_B, own.summary_B), segments.summary_BT),
                explained_by_summary=_explained(routed.tool_B, rewards, segments, group_B),
            )
        )
    return Replay(
        rollouts=len(frame),
        groups=int(group_B.max()) + 1,
        failed=int(failed.sum()),
        conflict=float(conflict_B.sum() / has_both_B.sum().clamp(min=1)),
        estimators=tuple(entries),
        **_thinning(frame, group_B),
    )


def _share_of_tokens(rollouts_B: Tensor, tokens_BT: Tensor) -> float:
    return float((rollouts_B[:, None] & tokens_BT).sum() / tokens_BT.sum().clamp(min=1))


def _explained(advantage_B: Tensor, rewards: Mapping[str, Tensor], segments: Segments, group_B: Tensor) -> float:
    """Least squares within each group, over rollouts with a Tool segment: what R_sum adds to R_tool, as a share of the variance."""
    total = without = within = 0.0
    for group in range(int(group_B.max()) + 1):
        rows = (group_B == group) & segments.tool_present_B
        if rows.sum() < 2:
            continue
        target = advantage_B[rows] - advantage_B[rows].mean()
        total += float(target.square().sum())
        without += _residual(target, [rewards["tool"][rows]])
        within += _residual(target, [rewards["tool"][rows], rewards["summary"][rows]])
    return max(0.0, without - within) / total if total else float("nan")


def _residual(target_N: Tensor, regressors: Sequence[Tensor]) -> float:
    """Sum of squares that the centred regressors leave of a centred target."""
    columns = torch.stack([regressor - regressor.mean() for regressor in regressors], dim=1)
    solution = torch.linalg.lstsq(columns, target_N[:, None], driver="gelsd").solution
    return float((target_N[:, None] - columns @ solution).square().sum())


def _thinning(frame: pd.DataFrame, group_B: Tensor) -> dict[str, float]:
    """How small groups get when they are split by what the tools were asked and answered."""
    group = pd.Series(group_B.numpy(), name="group")
    outcome = pd.Series(
        [("\0".join(turns[:-1]), "\0".join(seen)) for turns, seen in zip(frame["turns"], frame["observations"], strict=True)]
    )
    cell = pd.DataFrame({"group": group, "outcome": outcome}).groupby(["group", "outcome"])["group"].transform("size")
    calls = pd.DataFrame(
        [
            (number, turn, tuple(ids[spans[turn][0] : spans[turn + 1][0]]))
            for number, ids, spans in zip(group, frame["token_ids"], frame["action_ranges"], strict=True)
            for turn in range(len(spans) - 1)
        ],
        columns=["group", "turn", "outcome"],
    )
    return {
        "group_size": float(group.groupby(group).transform("size").mean()),
        "outcomes_per_call": float(calls.groupby(["group", "turn"])["outcome"].nunique().mean()) if len(calls) else 1.0,
        "tool_turns": float(frame["turns"].map(lambda turns: max(len(turns) - 1, 0)).mean()),
        "partitioned": float(cell.mean()),
        "alone": float((cell == 1).mean()),
    }
