"""Per-item evaluation results of all benchmarks: one long table, from which every figure of a report is computed.

A stored evaluation has `COLUMNS`; in a report's table `study` and `condition` ("sft", "sft_full" or an arm's name) stand before
them, since conditions and studies may share an evaluation. An item is one prompt or task; where `sampling` is "greedy", trial 0 is
the only one. `error` says what infrastructure failed, "" if nothing did; such a trial has no metric but `error`. `tokens` are those
the policy wrote, `seconds` the wall time of the trial; both stand on each of its rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd
import pyarrow as pa

from slca_core.errors import DataError

COLUMNS = (
    *("checkpoint", "seed", "benchmark", "subset", "item", "trial", "sampling"),
    *("metric", "value", "error", "tokens", "seconds"),
)
REPORTED = ("study", "condition", *COLUMNS)

# Toucan-Test metrics, in the order tables show them.
TOUCAN_METRICS = {
    "success_process": "S_process >= 0.9: the paper's Success@0.9",
    "success_weighted": "(R_tool + R_sum) / 2 >= 0.9: Success@0.9 as the released code logs it",
    "process": "S_process, the five HierR parts weighted",
    "name_f1": "S_name",
    "argument_match": "(S_key + S_val) / 2",
    "exact": "every call exactly as the gold ones: format, names, keys and values all 1",
    "format_valid": "S_fmt: share of well-formed, schema-valid call blocks",
    "judge": "the judge's rating of the summary, 0 to 1",
    "no_call": "a call was expected and none was made",
    "tool_turns": "assistant turns that call",
    "truncated": "cut by a limit",
    "error": "an infrastructure error; such items enter no other metric",
}


@dataclass(frozen=True, slots=True)
class Trial:
    """What one trial of one item gave; `metrics` means nothing if there was an `error`."""

    subset: str
    item: str
    trial: int
    sampling: Literal["greedy", "sampled"]
    metrics: Mapping[str, float]
    error: str | None
    tokens: int
    seconds: float


def as_table(trials: Iterable[Trial], benchmark: str, *, checkpoint: str, seed: int) -> pd.DataFrame:
    """The long table of one benchmark's trials, sorted; a failed trial is one row."""
    rows = [
        (
            *(checkpoint, seed, benchmark, one.subset, one.item, one.trial, one.sampling),
            *(metric, float(value), one.error or "", one.tokens, one.seconds),
        )
        for one in trials
        for metric, value in ({"error": 1.0} if one.error else {**one.metrics, "error": 0.0}).items()
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS)).sort_values(["subset", "item", "trial", "metric"], ignore_index=True)


def results_digest(items: pd.DataFrame) -> str:
    """SHA-256 of what was found; how long it took is left out."""
    return hashlib.sha256(items.drop(columns="seconds").to_csv(index=False).encode()).hexdigest()


def read_results(path: Path) -> pd.DataFrame:
    """The table at `path`; DataError if it cannot be read, or names the columns that are missing."""
    try:
        frame = pd.read_parquet(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"A readable parquet file of per-item results was expected at {path}, found: {error}. Evaluate the checkpoint again."
        ) from error
    if missing := [column for column in COLUMNS if column not in frame]:
        raise DataError(
            f"{path} was expected to hold per-item results; it lacks the columns {', '.join(missing)}. "
            "Evaluate the checkpoint again."
        )
    return frame
