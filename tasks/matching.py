"""The certificate that a study's arms are matched: planned before training, and with what was spent after."""

from __future__ import annotations

from collections.abc import Mapping

from slca_core.certificate import Certificate, Spent, certify
from slca_core.config import Study
from slca_core.records.json_lines import read_lines
from slca_core.records.store import Record
from tasks.services import services_identity, study_roles


def planned(study: Study) -> Certificate:
    """ConfigError, with every offending field, if the arms are not matched."""
    return certify(study, services=services_identity(study.services, study_roles(study)))


def recorded(study: Study, data: Record, sft: Record, runs: Mapping[tuple[str, int], Record]) -> Certificate:
    """The certificate of finished training.

    Args:
        runs: (arm, seed) -> its training record.
    """
    splits = {f"{split} split": data.facts["files"][f"{split}.parquet"] for split in ("sft", "rl", "test")}
    orders: dict[int, list[str]] = {}
    for (_, seed), run in runs.items():
        orders.setdefault(seed, []).append(run.facts["order_digest"])
    return certify(
        study,
        services=services_identity(study.services, study_roles(study)),
        inputs={**splits, "sft checkpoint": sft.output_digest},
        prompt_orders=orders,
        spent={f"{arm}, seed {seed}": spent_by(run) for (arm, seed), run in runs.items()},
    )


def spent_by(run: Record) -> Spent:
    """Summed over the run's updates."""
    lines = read_lines(run.output("metrics.jsonl"), needs=("rollouts", "prompt_tokens", "response_tokens"))
    rollouts = [int(line["rollouts"]) for line in lines]
    per_rollout = [line["prompt_tokens"] + line["response_tokens"] for line in lines]
    return Spent(
        updates=len(lines),
        rollouts=sum(rollouts),
        tokens=round(sum(count * tokens for count, tokens in zip(rollouts, per_rollout, strict=True))),
        judge_calls=round(sum(line.get("judge/calls", 0.0) for line in lines)),
        mocker_calls=round(sum(line.get(f"{role}/calls", 0.0) for line in lines for role in ("mocker", "alternate_mocker"))),
    )
