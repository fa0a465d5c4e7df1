"""Per-item evaluation results: one long table, from which every figure of a report is computed.

Columns: condition ("sft", "sft_full" or an arm's name; in a stored evaluation the checkpoint's digest, since conditions may share
it), seed, benchmark, subset, item, trial, sampling ("greedy" or "sampled"), metric, value. An item is one prompt; trial 0 is the
greedy rollout, the others are sampled.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa

from slca_core.errors import DataError

COLUMNS = ("condition", "seed", "benchmark", "subset", "item", "trial", "sampling", "metric", "value")

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
