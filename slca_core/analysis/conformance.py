"""This implementation against golden values: one JSON line a case, in the two formats the project's own golden files have."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import torch

from slca_core.conversation.calls import parse_turns
from slca_core.conversation.dialogue import ToolCall
from slca_core.conversation.schemas import ToolSet
from slca_core.credit.advantages import compute_advantages
from slca_core.credit.estimators import ESTIMATORS
from slca_core.credit.segments import split_segments
from slca_core.errors import DataError
from slca_core.rewards.hierr import score_process
from slca_core.rewards.omission import apply_omission, apply_omission_to_outcome, is_omitted
from slca_core.rewards.prediction import Semantics

TOLERANCE = 1e-6

Deviation = tuple[str, float]


@dataclass(frozen=True, slots=True)
class Conformance:
    """How far a file's cases were met.

    Attributes:
        cases: number of lines.
        largest: field -> largest absolute error; fields are `paper.fmt` and the like, or estimators.
        differing: ids of cases with an error above TOLERANCE.
    """

    cases: int
    largest: Mapping[str, float]
    differing: tuple[str, ...]


def check_hierr(path: Path) -> Conformance:
    """HierR under both semantics.

    A case has `id`, `tools` (OpenAI form), `gold` (nested steps of {name, arguments}), `turns`, and under `paper` and `release` the
    fields fmt, name, key, val, par, process and omitted.

    Raises:
        DataError: the file is missing or a line is no such case.
    """
    return _check(path, _hierr)


def check_advantages(path: Path) -> Conformance:
    """Token advantages of every estimator that a case expects.

    A case has `id`, `masks` (B x T), `group`, `r_tool`, `r_sum`, `omitted`, `outcome`, `action`, `lambda_tool`, `lambda_sum`,
    `r_pen`, `eps`, and `expected`: estimator -> B x T.

    Raises:
        DataError: the file is missing, a line is no such case, or it expects an estimator that is unknown.
    """
    return _check(path, _advantages)


def _hierr(case: dict[str, Any]) -> Iterator[Deviation]:
    tools = ToolSet.of(case["tools"])
    gold = [[ToolCall.from_json(call) for call in step] for step in case["gold"]]
    semantics: Semantics
    for semantics in get_args(Semantics):
        found = score_process(case["turns"], tools, gold, semantics=semantics)
        for field in ("fmt", "name", "key", "val", "par", "process"):
            yield f"{semantics}.{field}", abs(getattr(found, field) - case[semantics][field])
        omitted = is_omitted(parse_turns(case["turns"]), gold)
        yield f"{semantics}.omitted", abs(float(omitted) - float(case[semantics]["omitted"]))


def _advantages(case: dict[str, Any]) -> Iterator[Deviation]:
    doubles = {key: torch.tensor(case[key], dtype=torch.float64) for key in ("r_tool", "r_sum", "outcome", "action")}
    omitted_B = torch.tensor(case["omitted"])
    tool_B, summary_B = apply_omission(doubles["r_tool"], doubles["r_sum"], omitted_B, penalty=case["r_pen"])
    outcome_B = apply_omission_to_outcome(doubles["outcome"], omitted_B)
    rewards = {"tool": tool_B, "summary": summary_B, "outcome": outcome_B, "action": doubles["action"]}
    segments, group_B = split_segments(torch.tensor(case["masks"])), torch.tensor(case["group"])
    settings: dict[str, Any] = {key: float(case[key]) for key in ("lambda_tool", "lambda_sum", "eps")}
    for name, expected in case["expected"].items():
        found_BT = compute_advantages(ESTIMATORS[name], rewards, segments, group_B, **settings).advantages_BT
        expected_BT = torch.tensor(expected, dtype=torch.float64)
        yield name, float((found_BT - expected_BT).abs().max()) if expected_BT.numel() else 0.0


def _check(path: Path, deviations: Callable[[dict[str, Any]], Iterator[Deviation]]) -> Conformance:
    if not path.is_file():
        raise DataError(f"A file of golden cases was expected at {path}, there is none.")
    largest: dict[str, float] = defaultdict(float)
    differing: list[str] = []
    cases = 0
    # Not splitlines: it also parts at separators that a JSON string may hold.
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            case = json.loads(line)
            found = list(deviations(case))
            identity = str(case["id"])
        except (ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
            raise DataError(
                f"A golden case was expected in line {number} of {path}, found what is none ({type(error).__name__}: {error})."
            ) from error
        cases += 1
        for field, deviation in found:
            if not (math.isnan(largest[field]) or deviation <= largest[field]):
                largest[field] = deviation
        # Written, as above, so that a NaN counts as different.
        if not all(deviation <= TOLERANCE for _, deviation in found):
            differing.append(identity)
    if not cases:
        raise DataError(f"Golden cases were expected in {path}, one JSON object a line; it is empty.")
    return Conformance(cases=cases, largest=dict(largest), differing=tuple(differing))
