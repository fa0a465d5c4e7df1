"""`slca rescore` in the terminal."""

from __future__ import annotations

from statistics import fmean

from rich import box
from rich.table import Table

from slca_core.analysis.rescoring import Rescored
from slca_core.config import Study
from slca_core.errors import ConfigError
from slca_core.rollout import Scoring
from slca_core.terminal import terminal
from tasks.rescore import rescore_study, write_rescored

console = terminal()


def show(study: Study, changed: Study) -> None:
    """A row a step; SystemExit 1 if rewards differ although both studies score alike, or answers are missing."""
    same = require_scoring_alone(study, changed)
    table = Table("step", "rollouts", "left out", "unanswered", "differing", "R_tool", "R_sum", box=box.SIMPLE_HEAD)
    table.columns[0].no_wrap = True
    for column in table.columns[1:]:
        column.justify = "right"
    trouble, first_missing = 0, None
    for name, found in rescore_study(study, changed):
        write_rescored(study, name, found)
        missing = len(found.unanswered)
        trouble += missing + (len(found.differing) if same else 0)
        first_missing = first_missing or next(iter(found.unanswered), None)
        counts = (len(found.after), found.failed, missing, len(found.differing))
        table.add_row(name, *(f"{count:,}" for count in counts), _mean(found, "r_tool"), _mean(found, "r_sum"))
    console.print(table)
    if first_missing:
        console.print(f"Unanswered, for instance {first_missing[0]}: {first_missing[1]}")
    if not same:
        console.print("Scored under other settings; the new rewards lie beside the study's report.")
    elif not trouble:
        console.print("The rewards came out as they were stored, bit for bit.")
    raise SystemExit(bool(trouble))


def require_scoring_alone(study: Study, changed: Study) -> bool:
    """Whether both score alike.

    Raises:
        ConfigError: they differ in more than `rl`, of which rescoring would know nothing.
    """
    if study.model_copy(update={"rl": changed.rl}) != changed:
        raise ConfigError("Rescoring takes settings below rl, such as --with rl.hierr_semantics=release; others were given.")
    scored = [(study.rl, changed.rl, None), *((study.rl_of(arm), changed.rl_of(arm), arm) for arm in study.arms)]
    return all(Scoring.of(old, arm) == Scoring.of(new, arm) for old, new, arm in scored)


def _mean(found: Rescored, name: str) -> str:
    if not found.after:
        return "–"
    before, after = (fmean(row[name] for row in rows) for rows in (found.before, found.after))
    return f"{after:.4f}" if before == after else f"{before:.4f} → {after:.4f}"
