"""tau2-bench in the report: Pass^k over tasks, by domain, beside the paper's Pass^1 and what an agent that does nothing would get.

A task is one item of one domain; its Pass^k is estimated from its own trials that met no error, C(c, k) / C(n, k). Figures are
means over tasks, then over seeds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd

from slca_core.analysis.statistics import DRAWS, Interval, bootstrap_mean, pass_power
from slca_core.benchmarks.tau2 import FLOOR_AGENT, NAME
from slca_core.config import TAU2_BENCHMARK, TAU2_SIZES
from slca_core.reporting.entries import NOTHING, linked, named, over_seeds, part_of, reference, runs_of, trained_with
from slca_core.reporting.paper import published
from slca_core.reporting.sections import Cell, Section
from slca_core.reporting.tables import Condition

DO_NOTHING = Condition(FLOOR_AGENT, "Do-nothing agent (floor)")
PAPERS_USER = "DeepSeek-V3.2"
MOCK, BASE = "mock", "base"
MOCK_ALONE = "Of the mock domain alone, which is no part of the benchmark."

_TASK = ["condition", "seed", "subset", "item"]


def labels(items: pd.DataFrame, *, limit: int | None, split: str) -> list[str]:
    """What makes these figures other than the benchmark's.

    Args:
        limit: how many tasks of each domain were run; None for all.
        split: of each domain's tasks; base are all that the benchmark counts.
    """
    asked = [domain for domain in TAU2_BENCHMARK if domain in set(_of_tau2(items)["subset"])]
    if asked:
        part = [] if len(asked) == len(TAU2_BENCHMARK) else [f"Of {' and '.join(asked)} alone: not the benchmark's figure."]
    else:
        part = [MOCK_ALONE] if len(_of_tau2(items)) else []
    return [
        *part,
        *([] if split == BASE else [f"Of the tasks of the {split} split alone: not the benchmark's figures."]),
        *([f"The first {limit} tasks of each domain: not the benchmark's figures."] if limit else []),
    ]


def user_label(model: str) -> str:
    """Who the user was, where it is no stand-in of ours."""
    return f"User simulator: {model}; the paper's is {PAPERS_USER}."


def of_benchmark(items: pd.DataFrame) -> pd.DataFrame:
    """The rows that its figures over all tasks are of: those of the benchmark's domains, of mock if there is no other."""
    rows = _of_tau2(items)
    return rows[rows["subset"].isin(_counted(_tasks(items)))]


def values(items: pd.DataFrame, conditions: Sequence[Condition]) -> dict[str, dict[str, dict[int, float]]]:
    """Condition -> figure -> seed -> its value, 0 to 1; what could not be had is left out.

    The figures are pass_1, pass_2 ... (over all tasks of the benchmark's domains), pass_1_macro (mean of those domains' Pass^1) and
    pass_1_<domain>. The mock domain enters no other than its own, unless there is no other domain.

    Args:
        items: the long table of `slca_core.results`; a domain is a subset.
    """
    tasks = _tasks(items)
    counted, highest = _counted(tasks), _most_trials(items)
    found: dict[str, dict[str, dict[int, float]]] = {}
    for condition in _with_floor(tasks, conditions):
        own = _where(tasks, "condition", [condition.source])
        for seed in own.index.unique("seed"):
            for name, value in _figures(_where(own, "seed", [seed]), counted, highest).items():
                found.setdefault(condition.name, {}).setdefault(name, {})[int(seed)] = value
    return found


def _figures(tasks: pd.DataFrame, counted: Sequence[str], highest: int) -> dict[str, float]:
    domains = {str(domain): float(found.mean()) for domain, found in pass_k(tasks, 1).groupby("subset")}
    of_benchmark = _where(tasks, "subset", counted)
    if not all(domain in domains for domain in counted):
        # Over the tasks of some domains it would be another figure.
        return {f"pass_1_{domain}": value for domain, value in domains.items()}
    micro = {k: pass_k(of_benchmark, k) for k in range(1, highest + 1)}
    figures = {f"pass_{k}": float(found.mean()) for k, found in micro.items() if len(found)}
    figures["pass_1_macro"] = sum(domains[domain] for domain in counted) / len(counted)
    return figures | {f"pass_1_{domain}": value for domain, value in domains.items()}


def pass_k(tasks: pd.DataFrame, k: int) -> pd.Series:
    """Each task's estimate that k of k trials succeed; tasks with fewer than k trials are left out.

    Args:
        tasks: lines with `successes` and `trials`, those that met no error.
    """
    enough = tasks[tasks["trials"] >= k]
    estimates = pd.Series(0.0, index=enough.index)
    for trials in enough["trials"].unique():
        alike = enough["trials"] == trials
        estimates[alike] = pass_power(enough.loc[alike, "successes"].to_numpy(), int(trials), k)
    return estimates


def _tasks(items: pd.DataFrame) -> pd.DataFrame:
    """Successes and trials without an error, by condition, seed, domain and task."""
    rows = _of_tau2(items)
    verdicts = rows[rows["metric"] == "success"].groupby(_TASK)["value"]
    tasks = pd.DataFrame({"successes": verdicts.sum(), "trials": verdicts.size()})
    return tasks.reindex(rows.groupby(_TASK).size().index, fill_value=0)


def _of_tau2(items: pd.DataFrame) -> pd.DataFrame:
    return items[items["benchmark"] == NAME]


def _where(tasks: pd.DataFrame, level: str, among: Collection[Any]) -> pd.DataFrame:
    """The tasks whose condition, seed, subset or item is among these."""
    return tasks[tasks.index.get_level_values(level).isin(list(among))]


def _with_floor(tasks: pd.DataFrame, conditions: Sequence[Condition]) -> list[Condition]:
    return [*conditions, *([DO_NOTHING] if len(_where(tasks, "condition", [DO_NOTHING.name])) else [])]


def _domains(tasks: pd.DataFrame) -> list[str]:
    found: set[str] = set(tasks.index.get_level_values("subset"))
    return [*(name for name in TAU2_SIZES if name in found), *sorted(found.difference(TAU2_SIZES))]


def _counted(tasks: pd.DataFrame) -> list[str]:
    """The domains of the benchmark; mock if there is no other."""
    return [name for name in _domains(tasks) if name != MOCK] or [MOCK]


def _most_trials(items: pd.DataFrame) -> int:
    rows = _of_tau2(items)
    return int(max(rows.groupby(_TASK)["trial"].nunique(), default=0))


def section(
    items: pd.DataFrame,
    conditions: Sequence[Condition],
    *,
    backbone: str | None,
    label: Sequence[str] = (),
    user: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Section:
    """The report's table; intervals are of a bootstrap over tasks, what a task gave under all seeds drawn together.

    Args:
        label: sentences that hold for each figure: version and packaging, `labels`.
        user: on the user simulator, for each figure but the floor's, which asks none.
        notes: further sentences below the table; they come first.
    """
    tasks, found, drawn = _tasks(items), values(items, conditions), intervals(items, conditions)
    domains, highest = _domains(tasks), _most_trials(items)
    powers = range(2, highest + 1)
    lines = _with_floor(tasks, conditions)
    counted = _where(tasks, "subset", _counted(tasks))
    rows: list[list[Cell]] = []
    for condition in lines:
        own, runs = _where(counted, "condition", [condition.source]), runs_of(condition, lines)
        remarks = [*label, *([] if condition == DO_NOTHING else user), *trained_with(condition.labels)]
        figures: dict[str, Cell] = {
            name: over_seeds(by_seed, interval=drawn.get(condition.name, {}).get(name), runs=runs, remarks=remarks)
            for name, by_seed in found.get(condition.name, {}).items()
        }
        shown = ("pass_1", "pass_1_macro", *(f"pass_1_{domain}" for domain in domains), *(f"pass_{k}" for k in powers))
        rows.append(
            [
                named(condition, lines),
                f"{own.groupby(['subset', 'item']).ngroups:,}",
                *(figures.get(name, NOTHING) for name in shown),
                reference(published(backbone, condition.name, "tau2")),
                *_counts(items, condition),
                linked(runs),
            ]
        )
    head: list[str] = [
        *["Condition", "Tasks", "Pass^1 (micro), %", "Pass^1 (macro), %"],
        *[f"{domain.capitalize()}, %" for domain in domains],
        *[f"Pass^{k}, %" for k in powers],
        *["Paper, %", "Overflows / unusable", "Errors", "Run"],
    ]
    return Section("tau2-bench", head, rows, [*notes, *_notes(counted, conditions, highest)], _terms(domains, highest))


def intervals(items: pd.DataFrame, conditions: Sequence[Condition]) -> dict[str, dict[str, Interval]]:
    """Condition -> pass_1, pass_2 ... -> its 95 % interval; tasks are drawn, what a task gave under all seeds together."""
    tasks, highest = _tasks(items), _most_trials(items)
    counted = _where(tasks, "subset", _counted(tasks))
    found: dict[str, dict[str, Interval]] = {}
    for condition in _with_floor(tasks, conditions):
        own = _where(counted, "condition", [condition.source])
        by_task = {f"pass_{k}": pass_k(own, k).groupby(["subset", "item"]).mean() for k in range(1, highest + 1)}
        found[condition.name] = {name: bootstrap_mean(one.to_numpy()) for name, one in by_task.items() if len(one)}
    return found


def _counts(items: pd.DataFrame, condition: Condition) -> tuple[str, str]:
    """Trials that are wrong since they did not fit or said nothing that can be used, and trials that met an error."""
    own = _of_tau2(items)
    own = own[own["condition"] == condition.source]
    overflows, unusable, errors = (own[own["metric"] == metric]["value"] for metric in ("overflow", "unusable", "error"))
    return f"{overflows.sum():.0f} / {unusable.sum():.0f}" if len(own) else NOTHING, part_of(errors.sum(), len(errors))


def _notes(tasks: pd.DataFrame, conditions: Sequence[Condition], highest: int) -> list[str]:
    ours = _where(tasks, "condition", [one.name for one in conditions if not one.shares_run_of])
    short = {k: int((ours["trials"] < k).sum()) for k in range(1, highest + 1)}
    left_out = ", ".join(f"{count} of {len(ours)} from Pass^{k}" for k, count in short.items() if count)
    return [
        f"In brackets the 95% interval of a bootstrap over tasks ({DRAWS:,} draws).",
        "An overflow, a conversation that no longer fits the model's context, is a failure, as is a trial that an unusable answer "
        "ended: an empty one, or a call whose arguments cannot be read. A trial that met an error of a server or of a task's own "
        "code counts in no figure.",
        *([f"Left out for fewer than k trials without an error, by task, condition and seed: {left_out}."] if left_out else []),
    ]


def _terms(domains: Sequence[str], highest: int) -> Mapping[str, str]:
    terms = {"Micro": "over all tasks of the benchmark's domains", "Macro": "unweighted mean of those domains"}
    if highest > 1:
        terms["Pass^k"] = "chance that k trials of a task all succeed, over all tasks"
    if MOCK in domains and len(domains) > 1:
        terms["Mock"] = "a domain for trying out, no part of the benchmark: neither in micro nor in macro"
    return terms


def to_json(items: pd.DataFrame, conditions: Sequence[Condition]) -> dict[str, Any]:
    """What stands behind the table."""
    drawn = intervals(items, conditions)
    return {
        "figures": values(items, conditions),
        "intervals": {name: {figure: [one.low, one.high] for figure, one in found.items()} for name, found in drawn.items()},
    }
