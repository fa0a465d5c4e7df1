"""HierR, the process reward R_tool: five parts from format to parallelism, weighted (App. A.4).

S_process = .10 S_fmt + .25 S_name + .15 S_key + .20 S_val + .30 S_par. The details follow the paper's words; `semantics="release"`
follows the authors' published code instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from types import MappingProxyType

from slca_core.conversation.calls import parse_turns
from slca_core.conversation.dialogue import ToolCall
from slca_core.conversation.schemas import ToolSet
from slca_core.errors import ConfigError
from slca_core.rewards.matching import MATCHERS, Matching
from slca_core.rewards.prediction import RULES, Prediction, Rules, Semantics, read_prediction


@dataclass(frozen=True, slots=True)
class HierRWeights:
    """Weights of the five parts."""

    fmt: float
    name: float
    key: float
    val: float
    par: float

    def __post_init__(self) -> None:
        if not all(math.isfinite(weight) and weight >= 0 for weight in astuple(self)):
            raise ConfigError(f"HierR weights must be finite and not negative, found {self}.")


DEFAULT = HierRWeights(fmt=0.10, name=0.25, key=0.15, val=0.20, par=0.30)

# App. D, sensitivity to the weighting.
WEIGHTINGS: Mapping[str, HierRWeights] = MappingProxyType(
    {
        "default": DEFAULT,
        "uniform": HierRWeights(fmt=0.20, name=0.20, key=0.20, val=0.20, par=0.20),
        "value-heavy": HierRWeights(fmt=0.05, name=0.20, key=0.20, val=0.35, par=0.20),
        "name-heavy": HierRWeights(fmt=0.05, name=0.40, key=0.15, val=0.15, par=0.25),
        "without-parallel": HierRWeights(fmt=0.15, name=0.30, key=0.25, val=0.30, par=0.0),
    }
)


@dataclass(frozen=True, slots=True)
class ProcessScore:
    """The parts, each in [0, 1], their weighted sum `process`, and the counts they came from (see `Prediction`)."""

    fmt: float
    name: float
    key: float
    val: float
    par: float
    process: float
    n_open: int
    n_close: int
    n_valid: int
    n_calls: int
    refusals: Mapping[str, int]


def score_process(
    turns: Sequence[str],
    tools: ToolSet,
    gold: Sequence[Sequence[ToolCall]],
    *,
    semantics: Semantics = "paper",
    weights: HierRWeights = DEFAULT,
    matching: Matching = "greedy",
) -> ProcessScore:
    """Score a rollout's calls against gold. The omission override is applied elsewhere (`rewards.omission`).

    Args:
        turns: all assistant texts in order, the summary included.
        tools: the tools that were offered.
        gold: nested steps, each the calls of one assistant turn.
        semantics: "paper", the paper's words, or "release", the authors' code.
        matching: which prediction a gold call is compared with; "greedy" is the paper's.
    """
    rules = RULES[semantics]
    return score_prediction(read_prediction(parse_turns(turns), tools, rules), gold, rules, weights=weights, matching=matching)


def score_prediction(
    prediction: Prediction,
    gold: Sequence[Sequence[ToolCall]],
    rules: Rules,
    *,
    weights: HierRWeights = DEFAULT,
    matching: Matching = "greedy",
) -> ProcessScore:
    """As `score_process`, of what a rollout is known to predict under the rules."""
    gold_calls = [call for step in gold for call in step]
    fmt = _format_score(prediction, rules, expected=bool(gold_calls))
    name = _name_score(prediction.calls, gold_calls)
    key, val = _argument_scores(prediction.calls, gold_calls, rules, matching)
    par = float(starts_in_parallel(prediction, gold))
    return ProcessScore(
        fmt=fmt,
        name=name,
        key=key,
        val=val,
        par=par,
        process=weights.fmt * fmt + weights.name * name + weights.key * key + weights.val * val + weights.par * par,
        n_open=prediction.n_open,
        n_close=prediction.n_close,
        n_valid=prediction.n_valid,
        n_calls=len(prediction.calls),
        refusals=prediction.refusals,
    )


def starts_in_parallel(prediction: Prediction, gold: Sequence[Sequence[ToolCall]]) -> bool:
    """S_par: whether as many calls were made at first as gold's first step has."""
    return prediction.first_step == (len(gold[0]) if gold else 0)


def _format_score(prediction: Prediction, rules: Rules, *, expected: bool) -> float:
    tags = max(prediction.n_open, prediction.n_close)
    if tags:
        return prediction.n_valid / tags
    return float(rules.credits_silence and not expected)


def _name_score(predicted: Sequence[ToolCall], gold: Sequence[ToolCall]) -> float:
    """F1 over the multisets of names."""
    if not predicted and not gold:
        return 1.0
    left, shared = [call.name for call in gold], 0
    for call in predicted:
        if call.name in left:
            left.remove(call.name)
            shared += 1
    return 2 * shared / (len(predicted) + len(gold))


def _argument_scores(
    predicted: Sequence[ToolCall], gold: Sequence[ToolCall], rules: Rules, matching: Matching
) -> tuple[float, float]:
    """(S_key, S_val), means over the gold calls compared."""
    compared = [call for call in gold if call.arguments or rules.compares_bare_gold]
    if not compared:
        return 1.0, 1.0
    matches = MATCHERS[matching](compared, predicted, rules)
    return sum(match.key for match in matches) / len(matches), sum(match.value for match in matches) / len(matches)
