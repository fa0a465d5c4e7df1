"""BFCL V3 in the report: each condition's figures with their intervals, the paper's accuracy beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from slca_core.analysis.statistics import DRAWS, Interval, bootstrap_mean, bootstrap_strata
from slca_core.benchmarks import bfcl
from slca_core.reporting.comparison import by_item, by_seed, usable
from slca_core.reporting.entries import NOTHING, linked, named, over_seeds, part_of, reference, runs_of, trained_with
from slca_core.reporting.paper import published
from slca_core.reporting.sections import Cell, Section
from slca_core.reporting.tables import Condition

TITLES = {"paper_mean": "Mean, %", "single_turn": "Single-turn, %", "multi_turn": "Multi-turn, %", "overall": "BFCL's overall, %"}


def labels(limit: int | None) -> list[str]:
    """What a reader must know beside each figure.

    Args:
        limit: how many items of each category were run; None for all.
    """
    return [f"{bfcl.LABEL}.", *([f"The first {limit} items of each category: not BFCL's figures."] if limit else [])]


def values(items: pd.DataFrame, conditions: Sequence[Condition], limit: int | None) -> dict[str, dict[str, dict[int, float]]]:
    """Condition -> figure -> seed -> its value, 0 to 1; figures that could not be had are left out.

    Args:
        items: the long table of `slca_core.results`.
    """
    trials = usable(items, bfcl.NAME)
    found: dict[str, dict[str, dict[int, float]]] = {}
    for condition in conditions:
        own = _correct(trials, condition)
        for seed in sorted(own["seed"].unique()):
            for name, value in _figures(_means(own[own["seed"] == seed]), limit).items():
                found.setdefault(condition.name, {}).setdefault(name, {})[int(seed)] = value
    return found


def intervals(items: pd.DataFrame, conditions: Sequence[Condition], limit: int | None) -> dict[str, dict[str, Interval]]:
    """Condition -> figure -> its 95 % interval: items drawn within each category, what an item gave under all seeds together."""
    trials, found = usable(items, bfcl.NAME), {}
    for condition in conditions:
        strata = {
            str(name): one.to_numpy() for name, one in by_item(trials, condition.source, "correct", "greedy").groupby("subset")
        }
        if counted := weights(list(strata), limit):
            drawn = bootstrap_strata(list(strata.values()), np.array(list(counted.values())))
            found[condition.name] = dict(zip(counted, drawn, strict=True))
    return found


def weights(categories: Sequence[str], limit: int | None = None) -> dict[str, list[float]]:
    """Figure -> what the accuracy of each category counts in it; those that these categories do not make are left out."""
    alone = [_figures({other: float(other == name) for other in categories}, limit) for name in categories]
    return {figure: [one[figure] for one in alone] for figure in (alone[0] if alone else ())}


def _figures(by_category: dict[str, float], limit: int | None) -> dict[str, float]:
    """Those that can be had; BFCL's own overall is of whole categories."""
    found = bfcl.figures(by_category)
    return {name: value for name, value in found.items() if value is not None and not (limit and name == "overall")}


def by_category(items: pd.DataFrame, conditions: Sequence[Condition]) -> dict[str, dict[str, float]]:
    """Condition -> category -> accuracy, over items and seeds."""
    trials = usable(items, bfcl.NAME)
    return {condition.name: _means(_correct(trials, condition)) for condition in conditions}


def _correct(trials: pd.DataFrame, condition: Condition) -> pd.DataFrame:
    return trials[(trials["condition"] == condition.source) & (trials["metric"] == "correct")]


def _means(correct: pd.DataFrame) -> dict[str, float]:
    return {str(category): float(mean) for category, mean in correct.groupby("subset")["value"].mean().items()}


def section(
    items: pd.DataFrame,
    conditions: Sequence[Condition],
    *,
    backbone: str | None,
    limit: int | None,
    categories: Sequence[str],
    notes: Sequence[str] = (),
) -> Section:
    """The report's table: what figures these categories make, and the plain mean of all items; mean and spread over seeds.

    Args:
        limit: how many items of each category were run; None for all.
        notes: further sentences below the table; they come first.
    """
    rows_of, trials = items[items["benchmark"] == bfcl.NAME], usable(items, bfcl.NAME)
    found, drawn = values(items, conditions, limit), intervals(items, conditions, limit)
    shown = [name for name in TITLES if any(name in figures for figures in found.values())]
    head = ["Condition", "All items asked, %", *(TITLES[name] for name in shown), "Paper, %", "Overflows", "Errors", "Run"]
    rows: list[list[Cell]] = []
    for condition in conditions:
        own, runs = rows_of[rows_of["condition"] == condition.source], runs_of(condition, conditions)
        remarks = [*labels(limit), *trained_with(condition.labels)]
        of_items = by_item(trials, condition.source, "correct", "greedy").to_numpy()
        all_asked = bootstrap_mean(of_items) if len(of_items) else None
        figures, widths = found.get(condition.name, {}), drawn.get(condition.name, {})
        errors = own[own["metric"] == "error"]["value"]
        rows.append(
            [
                named(condition, conditions),
                over_seeds(by_seed(trials, condition.source, "correct", "greedy"), interval=all_asked, runs=runs, remarks=remarks),
                *(over_seeds(figures.get(name, {}), interval=widths.get(name), runs=runs, remarks=remarks) for name in shown),
                reference(published(backbone, condition.name, "bfcl_v3")),
                f"{own[own['metric'] == 'overflow']['value'].sum():.0f}" if len(own) else NOTHING,
                part_of(errors.sum(), len(errors)),
                linked(runs),
            ]
        )
    terms = {TITLES[name].removesuffix(", %"): bfcl.FIGURES[name] for name in shown}
    return Section("BFCL V3", head, rows, [*notes, *_notes(limit, categories)], terms)


def _notes(limit: int | None, categories: Sequence[str]) -> list[str]:
    asked = ", ".join(categories) if len(categories) < len(bfcl.PAPER) else f"{len(categories)} categories"
    return [
        f"Asked: {asked}, {f'the first {limit} items of each' if limit else 'all items'}.",
        f"In brackets the 95% interval of a bootstrap over items ({DRAWS:,} draws), of means of subsets within each category.",
        "An overflow, a prompt that does not fit the model's context, counts as wrong; an error of the server counts in no figure.",
    ]


def to_json(items: pd.DataFrame, conditions: Sequence[Condition], limit: int | None) -> dict[str, Any]:
    """What stands behind the table."""
    drawn = intervals(items, conditions, limit)
    return {
        "version": bfcl.VERSION,
        "figures": values(items, conditions, limit),
        "intervals": {name: {figure: [one.low, one.high] for figure, one in found.items()} for name, found in drawn.items()},
        "categories": by_category(items, conditions),
    }
