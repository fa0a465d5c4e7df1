"""BFCL V3 in the report: each condition's figures, the paper's accuracy beside them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

import pandas as pd

from slca_core.benchmarks import bfcl
from slca_core.reporting.paper import published
from slca_core.reporting.rendering import NOTHING, format_paper
from slca_core.reporting.sections import Section
from slca_core.reporting.tables import Condition

_TITLES = {"paper_mean": "Mean, %", "single_turn": "Single-turn, %", "multi_turn": "Multi-turn, %", "overall": "BFCL's overall, %"}


def values(items: pd.DataFrame, conditions: Sequence[Condition]) -> dict[str, dict[str, list[float]]]:
    """Condition -> figure -> its value under each seed, in the order of the seeds; figures that could not be had are left out.

    Args:
        items: the long table of `slca_core.results`.
    """
    correct = _correct(items)
    found: dict[str, dict[str, list[float]]] = {}
    for condition in conditions:
        own = correct[correct["condition"] == condition.source]
        for _, of_seed in own.groupby("seed"):
            made = bfcl.figures(_means(of_seed))
            for name, value in made.items():
                if value is not None:
                    found.setdefault(condition.name, {}).setdefault(name, []).append(value)
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
    rows = []
    for condition in conditions:
        own = rows_of[rows_of["condition"] == condition.source]
        correct, counts = own[own["metric"] == "correct"], own[own["metric"] == "error"]["value"]
        rows.append(
            [
                condition.title,
                f"{100 * correct['value'].mean():.1f}" if len(correct) else NOTHING,
                *(_spread(found.get(condition.name, {}).get(name, [])) for name in shown),
                " ".join(format_paper(published(backbone, condition.name, "bfcl_v3"))).strip(),
                f"{own[own['metric'] == 'overflow']['value'].sum():.0f}",
                f"{counts.sum():.0f} of {len(counts)}",
                condition.run_id or NOTHING,
            ]
        )
    asked = ", ".join(categories) if len(categories) < len(bfcl.PAPER) else f"{len(categories)} categories"
    notes = [
        bfcl.LABEL + ".",
        f"Asked: {asked}" + (f", the first {limit} items of each: not BFCL's figures." if limit else ", all items."),
        *(f"{_TITLES[name].removesuffix(', %')}: {bfcl.FIGURES[name]}." for name in shown),
        "An overflow, a prompt that does not fit the model's context, counts as wrong; an error of the server counts in no figure.",
    ]
    return Section("BFCL V3", head, rows, notes)


def to_json(items: pd.DataFrame, conditions: Sequence[Condition]) -> dict[str, Any]:
    """What stands behind the table."""
    return {"version": bfcl.VERSION, "figures": values(items, conditions), "categories": by_category(items, conditions)}


def _spread(of_seeds: Sequence[float]) -> str:
    if not of_seeds:
        return NOTHING
    spread = f" ± {100 * stdev(of_seeds):.1f}" if len(of_seeds) > 1 else ""
    return f"{100 * fmean(of_seeds):.1f}{spread}"
