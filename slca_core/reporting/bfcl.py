"""BFCL V3 in the report: each condition's figures, the paper's accuracy beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from slca_core.benchmarks import bfcl
from slca_core.reporting.entries import NOTHING, linked, named, over_seeds, part_of, reference, runs_of
from slca_core.reporting.paper import published
from slca_core.reporting.sections import Cell, Entry, Section
from slca_core.reporting.tables import Condition

_TITLES = {"paper_mean": "Mean, %", "single_turn": "Single-turn, %", "multi_turn": "Multi-turn, %", "overall": "BFCL's overall, %"}


def labels(limit: int | None) -> list[str]:
    """What a reader must know beside each figure.

    Args:
        limit: how many items of each category were run; None for all.
    """
    return [f"{bfcl.LABEL}.", *([f"The first {limit} items of each category: not BFCL's figures."] if limit else [])]


def values(items: pd.DataFrame, conditions: Sequence[Condition]) -> dict[str, dict[str, dict[int, float]]]:
    """Condition -> figure -> seed -> its value, 0 to 1; figures that could not be had are left out.

    Args:
        items: the long table of `slca_core.results`.
    """
    correct = _correct(items)
    found: dict[str, dict[str, dict[int, float]]] = {}
    for condition in conditions:
        own = correct[correct["condition"] == condition.source]
        for seed in sorted(own["seed"].unique()):
            for name, value in bfcl.figures(_means(own[own["seed"] == seed])).items():
                if value is not None:
                    found.setdefault(condition.name, {}).setdefault(name, {})[int(seed)] = value
    return found


def by_category(items: pd.DataFrame, conditions: Sequence[Condition]) -> dict[str, dict[str, float]]:
    """Condition -> category -> accuracy, over items and seeds."""
    correct = _correct(items)
    return {condition.name: _means(correct[correct["condition"] == condition.source]) for condition in conditions}


def _correct(items: pd.DataFrame) -> pd.DataFrame:
    return items[(items["benchmark"] == bfcl.NAME) & (items["metric"] == "correct")]


def _means(correct: pd.DataFrame) -> dict[str, float]:
    return {str(category): float(mean) for category, mean in correct.groupby("subset")["value"].mean().items()}


def section(
    items: pd.DataFrame, conditions: Sequence[Condition], *, backbone: str | None, limit: int | None, categories: Sequence[str]
) -> Section:
    """The report's table: what figures these categories make, or the plain mean of them; mean and spread over seeds.

    Args:
        limit: how many items of each category were run; None for all.
    """
    rows_of = items[items["benchmark"] == bfcl.NAME]
    found = values(items, conditions)
    shown = [name for name in _TITLES if any(name in figures for figures in found.values())]
    head = ["Condition", "All items asked, %", *(_TITLES[name] for name in shown), "Paper, %", "Overflows", "Errors", "Run"]
    remarks = labels(limit)
    rows: list[list[Cell]] = []
    for condition in conditions:
        own, runs = rows_of[rows_of["condition"] == condition.source], runs_of(condition, conditions)
        correct, counts = own[own["metric"] == "correct"]["value"], own[own["metric"] == "error"]["value"]
        asked = Entry(f"{100 * correct.mean():.1f}", runs=runs, remarks=tuple(remarks)) if len(correct) else Entry(NOTHING)
        figures = found.get(condition.name, {})
        rows.append(
            [
                named(condition, conditions),
                asked,
                *(over_seeds(figures.get(name, {}), runs=runs, remarks=remarks) for name in shown),
                reference(published(backbone, condition.name, "bfcl_v3")),
                f"{own[own['metric'] == 'overflow']['value'].sum():.0f}",
                part_of(counts.sum(), len(counts)),
                linked(runs),
            ]
        )
    asked_for = ", ".join(categories) if len(categories) < len(bfcl.PAPER) else f"{len(categories)} categories"
    notes = [
        f"Asked: {asked_for}, {f'the first {limit} items of each' if limit else 'all items'}.",
        "An overflow, a prompt that does not fit the model's context, counts as wrong; an error of the server counts in no figure.",
    ]
    terms = {_TITLES[name].removesuffix(", %"): bfcl.FIGURES[name] for name in shown}
    return Section("BFCL V3", head, rows, notes, terms)


def to_json(items: pd.DataFrame, conditions: Sequence[Condition]) -> dict[str, Any]:
    """What stands behind the table."""
    return {"version": bfcl.VERSION, "figures": values(items, conditions), "categories": by_category(items, conditions)}
