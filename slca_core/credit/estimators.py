"""Estimators as data (Eq. 3, App. A.2, Table 21): what is standardised, and which segment's tokens carry how much of it.

An estimator is a value: named rewards, a normaliser within groups, a presence rule, and a routing matrix. SLCA is the identity
matrix; GRPO normalises the sum and sends it everywhere. `slca_core.credit.advantages` computes them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

RewardName = Literal["tool", "summary", "outcome", "action"]
Normaliser = Literal["joint", "separate", "joint_scale", "batch"]
Presence = Literal["all", "tool", "summary"]
Row = tuple[float, ...]

# Normalisers that hand one column on, whatever they were given.
_ONE_COLUMN = frozenset({"joint", "batch"})


@dataclass(frozen=True, slots=True)
class Estimator:
    """How rewards become advantages.

    What gets standardised is a signal: a weighted sum of the rewards, by default each reward by itself. A column is what
    standardising leaves: one for each signal, or a single one ("joint", "batch").

    Attributes:
        name: as studies and reports call it.
        rewards: the rewards it reads.
        normaliser: "joint" standardises the sum of the signals; "separate" each signal by its own statistics; "joint_scale" centres
            each by its own mean and divides by the standard deviation of their sum over the whole group; "batch" standardises each
            by its own statistics, sums, and standardises the sum once more over all rollouts of the batch (GDPO).
        routing: rows tool and summary, one coefficient a column: how much of it that segment's tokens carry.
        presence: per signal (one in all for "joint"), the rollouts that enter its statistics: all, or those whose segment exists;
            the others contribute 0.
        by_std: divide by the standard deviation; False subtracts the mean only (Dr. GRPO).
        weighted: whether lambda_tool and lambda_sum scale the segments' advantages (after normalisation, where alone they matter).
        signals: one row a signal, one coefficient a reward; None for each reward by itself.
        routing_alone: the summary's row in rollouts without a Tool segment, where it differs (MT-GRPO).
    """

    name: str
    rewards: tuple[RewardName, ...]
    normaliser: Normaliser
    routing: tuple[Row, Row]
    presence: tuple[Presence, ...]
    by_std: bool = True
    weighted: bool = False
    signals: tuple[Row, ...] | None = None
    routing_alone: Row | None = None

    def __post_init__(self) -> None:
        if not self.rewards:
            raise ValueError(f"estimator '{self.name}': at least one reward was expected, found none.")
        signals = len(self.rewards) if self.signals is None else len(self.signals)
        columns = 1 if self.normaliser in _ONE_COLUMN else signals
        routing = (*self.routing, *([self.routing_alone] if self.routing_alone is not None else []))
        if len(self.routing) != 2 or any(len(row) != columns for row in routing):
            raise ValueError(
                f"estimator '{self.name}': a row for tool tokens and one for summary tokens were expected in routing, each of "
                f"{columns} coefficients, one a standardised column; found {routing}."
            )
        statistics = 1 if self.normaliser == "joint" else signals
        if len(self.presence) != statistics:
            raise ValueError(f"estimator '{self.name}': presence must have {statistics} entries, found {self.presence}.")
        if self.signals is not None and any(len(row) != len(self.rewards) for row in self.signals):
            raise ValueError(
                f"estimator '{self.name}': each of its signals needs {len(self.rewards)} coefficients, one a reward; "
                f"found {self.signals}."
            )


def _segment_wise(name: str, summary_to_tool: float, tool_to_summary: float) -> Estimator:
    """SLCA and its support controls (Table 21): each segment keeps its own reward, and may also receive the other's."""
    return Estimator(
        name,
        rewards=("tool", "summary"),
        normaliser="separate",
        routing=((1.0, summary_to_tool), (tool_to_summary, 1.0)),
        presence=("tool", "summary"),
        weighted=True,
    )


def _unified(name: str, *rewards: RewardName, by_std: bool = True) -> Estimator:
    """One standardised total of the rewards for every policy token."""
    return Estimator(name, rewards=rewards, normaliser="joint", routing=((1.0,), (1.0,)), presence=("all",), by_std=by_std)


def _multi_turn(name: str, *, cumulative: bool, coefficient: float = 1.0) -> Estimator:
    """MT-GRPO (arXiv:2505.11821) with the tool reward as its turn reward and the summary's as its outcome.

    Additive ("aae"): tool tokens carry z(R_sum) + coefficient z(R_tool). Cumulative ("cae"): z(R_tool + coefficient R_sum). Summary
    tokens carry z(R_sum); in a rollout that calls nothing they take the tool tokens' place.
    """
    tool: Row = (1.0, 0.0) if cumulative else (coefficient, 1.0)
    return Estimator(
        name,
        rewards=("tool", "summary"),
        normaliser="separate",
        routing=(tool, (0.0, 1.0)),
        presence=("all", "all"),
        signals=((1.0, coefficient), (0.0, 1.0)) if cumulative else None,
        routing_alone=tool,
    )


ESTIMATORS: Mapping[str, Estimator] = MappingProxyType(
    {
        estimator.name: estimator
        for estimator in (
            _unified("grpo", "tool", "summary"),
            _unified("dr_grpo", "tool", "summary", by_std=False),
            _unified("tool_only", "tool"),
            _unified("summary_only", "summary"),
            _unified("outcome_only", "outcome"),
            _segment_wise("slca", summary_to_tool=0.0, tool_to_summary=0.0),
            _segment_wise("s2t", summary_to_tool=1.0, tool_to_summary=0.0),
            _segment_wise("t2s", summary_to_tool=0.0, tool_to_summary=1.0),
            _segment_wise("both", summary_to_tool=1.0, tool_to_summary=1.0),
            Estimator(
                "slca_joint_scale", ("tool", "summary"), "joint_scale", ((1.0, 0.0), (0.0, 1.0)), ("tool", "summary"), weighted=True
            ),
            Estimator("gdpo", ("tool", "summary"), "batch", routing=((1.0,), (1.0,)), presence=("all", "all")),
            _multi_turn("mt_grpo_aae", cumulative=False),
            _multi_turn("mt_grpo_cae", cumulative=True),
            Estimator("toolpo", ("outcome", "action"), "separate", routing=((1.0, 1.0), (1.0, 0.0)), presence=("all", "tool")),
            Estimator("rltr", ("tool",), "separate", routing=((1.0,), (0.0,)), presence=("tool",)),
        )
    }
)
