"""What a policy update leaves behind: its rollouts in one parquet file, and one line in metrics.jsonl.

`metrics.jsonl` is append only; a resumed run first cuts it back to its checkpoint's update.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from slca_core.errors import DataError
from slca_core.failures import errors_by_boundary, is_finished
from slca_core.records.json_lines import keep_lines
from slca_core.services.usage import RARE, Usage, total

if TYPE_CHECKING:
    # Who only reads metrics waits for no torch.
    from slca_core.credit.advantages import Advantages

# OpenRLHF's names -> ours. KL, clip fraction and gradient norm are means over the update's mini-batches, as stock logs them.
_STOCK = {
    "kl": "kl",
    "clip_fraction": "ppo_clip_ratio",
    "gradient_norm": "actor_grad_norm",
    "policy_loss": "policy_loss",
    "learning_rate": "actor_lr",
    "seconds_generation": "timing/generation",
    "seconds_experience": "timing/make_experience",
    "seconds_training": "timing/ppo_train",
    "seconds_broadcast": "timing/broadcast",
    "seconds_total": "timing/step_total",
}
_MEANS = ("r_tool", "r_sum", "process", "fmt", "name", "key", "val", "par", "exact", "outcome", "tool_turns", "truncated")


@dataclass(frozen=True, slots=True)
class Spooled:
    """One finished rollout on its way to the trainer: its record as JSON, and log-probabilities where the engine gives them."""

    record: dict[str, Any]
    logprobs: list[float] | None


def spool(folder: Path, rollout: Spooled) -> None:
    final = folder / f"{rollout.record['rollout_id']}.json"
    unfinished = final.with_suffix(f".{os.getpid()}")
    unfinished.write_text(json.dumps({"record": rollout.record, "logprobs": rollout.logprobs}, ensure_ascii=False))
    unfinished.replace(final)


def read_spooled(folder: Path, rollout_id: str) -> Spooled | None:
    """A rollout that an earlier attempt at this update has finished; None if there is none to be read, or an answer was missing."""
    path = folder / f"{rollout_id}.json"
    try:
        values = json.loads(path.read_text())
        return Spooled(values["record"], values["logprobs"]) if is_finished(values["record"]) else None
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        # What a power cut left half written is rolled out again.
        return None


def collect_spool(folder: Path, update: int, expected: int) -> list[dict[str, Any]]:
    """The update's records in (position, sample index) order; DataError if some are missing."""
    paths = sorted(folder.glob(f"{update:05d}-*.json"))
    if len(paths) != expected:
        raise DataError(
            f"Update {update} was expected to spool {expected} rollouts in {folder}, {len(paths)} are there. "
            "Is the folder shared by all nodes?"
        )
    return [json.loads(path.read_text())["record"] for path in paths]


def clear_spool(folder: Path, update: int) -> None:
    for path in folder.glob(f"{update:05d}-*.json"):
        path.unlink()


def cut_back_spool(folder: Path, update: int) -> None:
    """Keeps of an earlier attempt what the policy of `update`, the last that was saved, has rolled out: the update after it."""
    for path in folder.glob("*"):
        if not path.name.startswith(f"{update + 1:05d}-"):
            path.unlink()


def write_rollouts(folder: Path, update: int, records: Sequence[dict[str, Any]], routed: Advantages) -> Path:
    """One row a rollout: the record, its policy mask and its advantages, both aligned with `token_ids`."""
    import torch

    rows = []
    for record, advantages_T, tool, summary in zip(
        records, routed.advantages_BT, routed.tool_B.tolist(), routed.summary_B.tolist(), strict=True
    ):
        length = len(record["token_ids"])
        mask = torch.zeros(length, dtype=torch.bool)
        for start, end in record["action_ranges"]:
            mask[start:end] = True
        # OpenRLHF's action arrays start at token 1: the first token of a sequence is never predicted.
        routed_values = {"advantages": [0.0, *advantages_T[: length - 1].tolist()], "adv_tool": tool, "adv_sum": summary}
        ranges = [list(pair) for pair in record["action_ranges"]]
        rows.append({**record, "action_ranges": ranges, "mask": mask.tolist(), **routed_values})
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"update_{update:05d}.parquet"
    unfinished = path.with_suffix(".unfinished")
    pd.DataFrame(rows).to_parquet(unfinished, compression="zstd")
    unfinished.replace(path)
    return path


def summarise(update: int, records: Sequence[dict[str, Any]], routed: Advantages, status: dict[str, Any]) -> dict[str, float]:
    """The update's line: rewards and parts, behaviour, lengths, advantages, and what stock OpenRLHF reports."""
    frame = pd.DataFrame(records)
    # What a failed rollout has for rewards means nothing.
    scored = frame[frame["error"].isna()]
    mean = scored[[*_MEANS]].astype(float).mean()
    unmatched = (frame["n_open"] - frame["n_close"]).abs()
    lengths = frame["token_ids"].map(len)
    line = {
        "update": update,
        "rollouts": len(frame),
        "reward": float((scored["r_tool"] + scored["r_sum"]).mean()),
        **{name: float(value) for name, value in mean.items()},
        "format_valid": float(mean["fmt"]),
        "omission_rate": float(scored["omitted"].mean()),
        "unmatched_tags": float(unmatched.mean()),
        "refused_calls": float(frame["refused_calls"].mean()),
        "unread_answers": float((frame["unread"] > 0).mean()),
        # One that an earlier version spooled does not say.
        "overflowed_prompts": sum(record.get("overflowed", 0) > 0 for record in records) / len(frame),
        "broken_responses": float(frame["broken_responses"].mean()),
        "error_rate": float(frame["error"].notna().mean()),
        **{f"errors/{boundary}": float(count) for boundary, count in errors_by_boundary(records).items()},
        "prompt_tokens": float(frame["prompt_tokens"].mean()),
        "response_tokens": float((lengths - frame["prompt_tokens"]).mean()),
        "adv_tool_abs": float(routed.tool_B.abs().mean()),
        "adv_sum_abs": float(routed.summary_B.abs().mean()),
    }
    del line["fmt"]
    for role, usage in usage_by_role(records).items():
        line |= {f"{role}/{name}": value for name, value in usage.to_json().items() if value or name not in RARE}
    return line | {ours: float(status[theirs]) for ours, theirs in _STOCK.items() if theirs in status}


def usage_by_role(records: Iterable[Mapping[str, Any]]) -> dict[str, Usage]:
    """What the rollouts asked of each service."""
    parts: dict[str, list[Mapping[str, float]]] = {}
    for record in records:
        for role, usage in record["services"].items():
            parts.setdefault(role, []).append(usage)
    return {role: total(usages) for role, usages in parts.items()}


def append_line(path: Path, line: dict[str, float]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())


def cut_back(path: Path, update: int) -> None:
    """Drops every line after `update`, and a line that a crash left unfinished."""
    keep_lines(path, lambda line: line["update"] <= update, needs=("update",))
