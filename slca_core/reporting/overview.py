"""The paper's main table and its ablation table: each condition on the three benchmarks, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any

import pandas as pd

from slca_core.benchmarks import toucan
from slca_core.config import Arm, load_arm
from slca_core.reporting import bfcl, tau2
from slca_core.reporting.comparison import by_seed, usable
from slca_core.reporting.entries import NOTHING, named, over_seeds, plain, reference, trained_with
from slca_core.reporting.paper import (
    BACKBONES,
    Benchmark,
    published,
    published_conditions,
    published_difference,
)
from slca_core.reporting.sections import Cell, Entry, Run, Section
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
        user: sentences on tau2-bench's user simulator, which the floor alone does not ask.
        training: condition -> the stand-ins that its training asked.
        runs: condition -> the MLflow runs of its figures, one a seed.
        toy: whether the policy was made from scratch, and is none of the paper's backbones.
        adoptions: sentences on figures of steps that other code or packages made and a person took over.
    """

    study: str
    backbone: str | None
    values: Mapping[str, Mapping[Benchmark, BySeed]]
    labels: Mapping[Benchmark, Sequence[str]] = field(default_factory=dict)
    user: Sequence[str] = ()
    training: Mapping[str, Sequence[str]] = field(default_factory=dict)
    runs: Mapping[str, Sequence[Run]] = field(default_factory=dict)
    toy: bool = False
    adoptions: Sequence[str] = ()

    def of(self, condition: str, benchmark: Benchmark) -> BySeed:
        """A condition's value under each seed; none if it was not run."""
        return self.values.get(condition, {}).get(benchmark, {})

    def difference(self, a: str, b: str, benchmark: Benchmark) -> dict[int, float]:
        """Condition a minus condition b under each seed that both have."""
        ours, other = self.of(a, benchmark), self.of(b, benchmark)
        return {seed: ours[seed] - other[seed] for seed in ours if seed in other}

    def remarks(self, benchmark: Benchmark, *conditions: str) -> list[str]:
        """What a reader must know beside a figure that is of these conditions."""
        trained = [self.training.get(condition, ()) for condition in conditions]
        of_all = self.labels.get(benchmark, ())
        if benchmark == "toucan_test":  # Evaluation asks mocker and judge too: those of training are no others.
            return list(dict.fromkeys((*of_all, *(label for labels in trained for label in labels))))
        return [*of_all, *(self.user if benchmark == "tau2" else ()), *trained_with(*trained)]

    def runs_behind(self, a: str, b: str, title: str, seeds: Iterable[int] | None = None) -> tuple[Run, ...]:
        """The runs behind condition a minus condition b, the latter's marked with its title; of these seeds, if not of all."""
        runs = (*self.runs.get(a, ()), *(replace(run, of=title) for run in self.runs.get(b, ())))
        return runs if seeds is None else tuple(run for run in runs if run.seed in set(seeds))

    def caveats(self) -> list[str]:
        """What belongs below each table that has these figures."""
        if not self.toy:
            return [*self.adoptions]
        of_what = f" of {BACKBONES[self.backbone]}" if self.backbone and self.backbone in BACKBONES else ""
        toy = f"Ours are the figures of a toy policy made from scratch, beside the paper's{of_what}: they are not comparable."
        return [toy, *self.adoptions]


def measure(items: pd.DataFrame, conditions: Sequence[Condition]) -> dict[str, dict[Benchmark, dict[int, float]]]:
    """`Overview.values` from the long table of `slca_core.results`; tau2-bench's floor is among them if it is there."""
    trials = usable(items, toucan.NAME)
    of_bfcl, of_tau2 = bfcl.values(items, conditions, None), tau2.values(items, conditions)
    floor = [tau2.DO_NOTHING] if tau2.DO_NOTHING.name in of_tau2 else []
    return {
        one.name: {
            "toucan_test": by_seed(trials, one.source, "success_process", "greedy"),
            "bfcl_v3": of_bfcl.get(one.name, {}).get("paper_mean", {}),
            "tau2": of_tau2.get(one.name, {}).get("pass_1", {}),
        }
        for one in (*conditions, *floor)
    }


def section(overview: Overview, conditions: Sequence[Condition]) -> Section:
    """The main table: the study's conditions, then those of the paper that it does not run, then the floor of tau2-bench."""
    rows: list[list[Cell]] = []
    for condition in (*conditions, *_published_only(overview.backbone, conditions)):
        row: list[Cell] = [named(condition, conditions)]
        for benchmark in BENCHMARKS:
            figure = over_seeds(
                overview.of(condition.name, benchmark),
                runs=overview.runs.get(condition.name, ()),
                remarks=overview.remarks(benchmark, condition.name),
            )
            row += [figure, reference(published(overview.backbone, condition.name, benchmark))]
        rows.append(row)
    if tau2.DO_NOTHING.name in overview.values:
        row = [tau2.DO_NOTHING.title]
        for benchmark in BENCHMARKS:
            floor = over_seeds(overview.of(tau2.DO_NOTHING.name, benchmark), remarks=overview.labels.get(benchmark, ()))
            row += [floor, reference(None)]
        rows.append(row)
    return Section("All benchmarks", _head("%"), rows, _notes(overview), _terms())


def _notes(overview: Overview) -> list[str]:
    ours = "Ours: mean ± sample standard deviation over seeds, where there are several."
    if overview.backbone is None or overview.backbone not in BACKBONES:
        return [*overview.caveats(), f"{ours} {NOTHING}: not run here as a whole."]
    paper = f"The paper's: {BACKBONES[overview.backbone]}, of three runs where a spread stands beside the figure."
    return [*overview.caveats(), f"{ours} {paper} {NOTHING}: not run here as a whole, or not published."]


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
        papers = [published_difference(overview.backbone, METHOD, name, benchmark) for benchmark in BENCHMARKS]
        if name not in here and not any(papers):
            continue
        title = here[name].title if name in here else arm_title(name)
        row: list[Cell] = [f"minus {title}"]
        for benchmark, paper in zip(BENCHMARKS, papers, strict=True):
            row += [gain(overview, name, title, benchmark), reference(paper, signed=True)]
        rows.append(row)
    notes = [
        *overview.caveats(),
        "Ours: mean ± sample standard deviation over seeds of the difference under each seed. The paper's: differences of its "
        "means, and its published gains over GRPO, which is its run without SLCA.",
    ]
    return Section("Ablations: SLCA-GRPO minus each, points", _head("points"), rows, notes)


def gain(overview: Overview, other: str, title: str, benchmark: Benchmark, further: Sequence[str] = ()) -> Entry:
    """The method minus another condition under each seed, in points, with the runs of both.

    Args:
        title: of the other condition.
        further: remarks beside those of the two.
    """
    ours = overview.difference(METHOD, other, benchmark)
    return over_seeds(
        ours,
        signed=True,
        runs=overview.runs_behind(METHOD, other, title, ours),
        remarks=[*overview.remarks(benchmark, METHOD, other), *further],
    )


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
        "adoptions": list(overview.adoptions),
        "labels": {benchmark: list(sentences) for benchmark, sentences in overview.labels.items()},
        "user": list(overview.user),
        "training": {condition: list(labels) for condition, labels in overview.training.items()},
        "runs": {condition: [asdict(run) for run in runs] for condition, runs in overview.runs.items()},
        "values": {condition: line(condition) for condition in overview.values},
    }


def from_json(stored: Mapping[str, Any]) -> Overview:
    """What `to_json` wrote."""
    values = {
        condition: {benchmark: {int(seed): value for seed, value in found["seeds"].items()} for benchmark, found in line.items()}
        for condition, line in stored["values"].items()
    }
    return Overview(
        study=stored["study"],
        backbone=stored["backbone"],
        values=values,
        labels=stored["labels"],
        user=stored["user"],
        training=stored["training"],
        runs={condition: [Run(**run) for run in runs] for condition, runs in stored["runs"].items()},
        toy=stored["toy"],
        adoptions=stored.get("adoptions", ()),
    )
