"""The paper's comparison across backbones: what SLCA-GRPO gains over its matched GRPO run, ours beside the paper's.

It is made of one study, or of several, each of another backbone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slca_core.errors import ConfigError
from slca_core.reporting.entries import NOTHING, plain, reference
from slca_core.reporting.overview import BENCHMARKS, METHOD, Overview, arm_title, gain
from slca_core.reporting.paper import BACKBONES, published_gain
from slca_core.reporting.sections import Cell, Entry, Section

MATCHED = "grpo"


def section(studies: Sequence[Overview], notes: Sequence[str] = ()) -> Section:
    """A line for each of the paper's backbones; ours is there for those the studies have.

    Raises:
        ConfigError: two studies have one backbone.
    """
    by_backbone = _by_backbone(studies)
    rows: list[list[Cell]] = []
    for backbone, title in BACKBONES.items():
        row: list[Cell] = [title]
        study = by_backbone.get(backbone)
        for benchmark in BENCHMARKS:
            ours = gain(study, MATCHED, arm_title(MATCHED), benchmark, study.caveats()) if study else NOTHING
            row += [ours, reference(published_gain(backbone, benchmark), signed=True)]
        rows.append(row)
    head: list[Cell] = ["Backbone"]
    for name, figure in BENCHMARKS.values():
        head += [f"{name} {figure}, points", Entry(f"{name}, paper, points", published=True)]
    named = ", ".join(f"{BACKBONES[backbone]} by {study.study}" for backbone, study in by_backbone.items())
    whose = f"Ours: {named}; mean ± sample standard deviation over seeds of the difference under each seed." if named else ""
    return Section(
        "Across backbones: SLCA-GRPO minus matched GRPO, points",
        head,
        rows,
        [*([whose] if whose else []), f"{NOTHING}: not run.", *notes],
    )


def to_json(studies: Sequence[Overview], notes: Sequence[str] = ()) -> dict[str, Any]:
    """What stands behind the table: backbone -> benchmark -> ours as shares, the paper's in points."""
    by_backbone = _by_backbone(studies)
    return {
        "backbones": {backbone: _line(backbone, by_backbone.get(backbone)) for backbone in BACKBONES},
        "notes": list(notes),
    }


def _line(backbone: str, study: Overview | None) -> dict[str, Any]:
    line: dict[str, Any] = {"study": study.study if study else None, "toy": study.toy if study else None}
    for benchmark in BENCHMARKS:
        ours = study.difference(METHOD, MATCHED, benchmark) if study else {}
        paper = published_gain(backbone, benchmark)
        line[benchmark] = {**plain(ours), "paper": paper.mean if paper else None}
    return line


def _by_backbone(studies: Sequence[Overview]) -> Mapping[str, Overview]:
    found: dict[str, Overview] = {}
    for study in studies:
        if study.backbone is None or study.backbone not in BACKBONES:
            continue
        if other := found.get(study.backbone):
            raise ConfigError(
                f"Studies of different backbones were expected; {other.study} and {study.study} are both of {study.backbone} "
                "(paper_backbone). Leave one out."
            )
        found[study.backbone] = study
    return found
