"""The paper's main table and its ablation table: each condition on the three benchmarks, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any

import pandas as pd

from slca_core.config import Arm, load_arm
from slca_core.reporting import bfcl, tau2
from slca_core.reporting.comparison import by_seed, toucan_rollouts
from slca_core.reporting.entries import NOTHING, named, over_seeds, plain, reference, runs_of
from slca_core.reporting.paper import (
    BACKBONES,
    Benchmark,
    published,
    published_conditions,
    published_difference,
)
from slca_core.reporting.sections import Cell, Entry, Section
from slca_core.reporting.tables import Condition

# Benchmark -> its name and what it is judged by.
BENCHMARKS: Mapping[Benchmark, tuple[str, str]] = MappingProxyType(
    {"toucan_test": ("Toucan-Test", "Success@0.9"), "bfcl_v3": ("BFCL V3", "accuracy"), "tau2": ("tau2-bench", "Pass^1")}
)
METHOD, ABLATIONS = "slca", ("wo_slca", "wo_sgls", "wo_hierr")

BySeed = Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Overview:
    """One study on the three benchmarks.

    Attributes:
        backbone: key of `paper.BACKBONES` whose figures stand beside ours, or None.
        values: condition -> benchmark -> seed -> share, 0 to 1: Success@0.9 of the process score (greedy), the mean of BFCL's
            subsets, Pass^1 over all tasks; what was not run, or not whole, is left out.
        labels: benchmark -> sentences that hold for each of our figures on it.
        toy: whether the policy was made from scratch, and is none of the paper's backbones.
    """

    study: str
    backbone: str | None
    values: Mapping[str, Mapping[Benchmark, BySeed]]
    labels: Mapping[Benchmark, Sequence[str]] = field(default_factory=dict)
    toy: bool = False

    def of(self, condition: str, benchmark: Benchmark) -> BySeed:
        """A condition's value under each seed; none if it was not run."""
        return self.values.get(condition, {}).get(benchmark, {})

    def difference(self, a: str, b: str, benchmark: Benchmark) -> dict[int, float]:
        """Condition a minus condition b under each seed that both have."""
        ours, other = self.of(a, benchmark), self.of(b, benchmark)
        return {seed: ours[seed] - other[seed] for seed in ours if seed in other}

    def labels_of(self, benchmark: Benchmark) -> Sequence[str]:
        return self.labels.get(benchmark, ())

    def caveats(self) -> list[str]:
        """What belongs below each table that has these figures."""
        if not self.toy:
            return []
        of_what = f" of {BACKBONES[self.backbone]}" if self.backbone and self.backbone in BACKBONES else ""
        return [f"Ours are the figures of a toy policy made from scratch, beside the paper's{of_what}: they are not comparable."]


def measure(items: pd.DataFrame, conditions: Sequence[Condition]) -> dict[str, dict[Benchmark, dict[int, float]]]:
    """`Overview.values` from the long table of `slca_core.results`."""
    rollouts = toucan_rollouts(items)
    of_bfcl, of_tau2 = bfcl.values(items, conditions), tau2.values(items, conditions)
    return {
        one.name: {
            "toucan_test": by_seed(rollouts, one.source, "success_process", "greedy"),
            "bfcl_v3": of_bfcl.get(one.name, {}).get("paper_mean", {}),
            "tau2": of_tau2.get(one.name, {}).get("pass_1", {}),
        }
        for one in conditions
    }


def section(overview: Overview, conditions: Sequence[Condition]) -> Section:
    """The main table: the study's conditions, then those of the paper that it does not run."""
    rows: list[list[Cell]] = []
    for condition in (*conditions, *_published_only(overview.backbone, conditions)):
        row: list[Cell] = [named(condition, conditions)]
        for benchmark in BENCHMARKS:
            ours = over_seeds(
                overview.of(condition.name, benchmark),
                runs=runs_of(condition, conditions),
                remarks=overview.labels_of(benchmark),
            )
            row += [ours, reference(published(overview.backbone, condition.name, benchmark))]
        rows.append(row)
    paper = BACKBONES.get(overview.backbone or "", overview.backbone or "no backbone")
    notes = [
        *overview.caveats(),
        "Ours: mean ± sample standard deviation over seeds, where there are several. The paper's: three runs, "
        f"{paper}. {NOTHING}: not run here as a whole, or not published.",
    ]
    return Section("All benchmarks", _head("%"), rows, notes, _terms())


def _published_only(backbone: str | None, conditions: Sequence[Condition]) -> list[Condition]:
    here = {condition.name for condition in conditions}
    return [Condition(name, arm_title(name)) for name in published_conditions(backbone) if name not in here]


def arm_title(name: str) -> str:
    """The title of an arm of `configs/arms`."""
    return Arm.model_validate(load_arm(name)).title


def ablation(overview: Overview, conditions: Sequence[Condition]) -> Section:
    """What is lost without each part: SLCA-GRPO minus each ablation, in points; no rows if neither we nor the paper have any."""
    here = {condition.name: condition for condition in conditions}
    rows: list[list[Cell]] = []
    for name in ABLATIONS:
        if name not in here and name not in published_conditions(overview.backbone):
            continue
        row: list[Cell] = [f"minus {here[name].title if name in here else arm_title(name)}"]
        for benchmark in BENCHMARKS:
            ours = overview.difference(METHOD, name, benchmark)
            row += [
                over_seeds(ours, signed=True, remarks=overview.labels_of(benchmark)),
                reference(published_difference(overview.backbone, METHOD, name, benchmark), signed=True),
            ]
        rows.append(row)
    notes = [
        *overview.caveats(),
        "Ours: mean ± sample standard deviation over seeds of the difference under each seed. "
        "The paper's differences are computed here, from its means.",
    ]
    return Section("Ablations: SLCA-GRPO minus each, points", _head("points"), rows, notes)


def _head(unit: str) -> list[Cell]:
    return [
        "Condition",
        *(
            Entry(f"{name} {figure}{of}, {unit}", published=bool(of))
            for name, figure in BENCHMARKS.values()
            for of in ("", ", paper")
        ),
    ]


def _terms() -> Mapping[str, str]:
    return {
        "Success@0.9": "share of items whose process score of the greedy rollout is at least 0.9",
        "BFCL V3 accuracy": "unweighted mean of the paper's 13 subsets",
        "Pass^1": "share of tasks solved, over all tasks of tau2-bench's domains (micro)",
    }


def to_json(overview: Overview) -> dict[str, Any]:
    """The overview with mean, spread and the paper's figure beside the values; `from_json` reads it back."""

    def line(condition: str) -> dict[str, Any]:
        papers = {benchmark: published(overview.backbone, condition, benchmark) for benchmark in BENCHMARKS}
        return {
            benchmark: {**plain(overview.of(condition, benchmark)), "paper": asdict(paper) if paper else None}
            for benchmark, paper in papers.items()
        }

    return {
        "study": overview.study,
        "backbone": overview.backbone,
        "toy": overview.toy,
        "labels": {benchmark: list(sentences) for benchmark, sentences in overview.labels.items()},
        "values": {condition: line(condition) for condition in overview.values},
    }


def from_json(stored: Mapping[str, Any]) -> Overview:
    """What `to_json` wrote."""
    values = {
        condition: {benchmark: {int(seed): value for seed, value in found["seeds"].items()} for benchmark, found in line.items()}
        for condition, line in stored["values"].items()
    }
    return Overview(stored["study"], stored["backbone"], values, stored["labels"], stored["toy"])
