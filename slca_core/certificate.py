"""Whether arms are matched: that they differ in what their conditions declare and in nothing else, before and after training.

A comparison of estimators says something only if split, prompt order, start, seeds, decoding, budget and services are the same.
That is checked field by field, and written down as a certificate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from slca_core.config import Frozen, Study
from slca_core.errors import ConfigError

# What arms may differ in; everything else must be equal.
DECLARED = ("estimator", "process_reward", "outcome_reward", "hierr_weights", "simulator", "mocker", "lambda_tool", "lambda_sum")


class Mismatch(Frozen):
    """A setting that is not the same for all arms.

    Attributes:
        field: dotted, as in a study file.
        values: arm -> its value.
    """

    field: str
    values: dict[str, Any]

    def sentence(self) -> str:
        return f"{self.field}: " + ", ".join(f"{arm} {value!r}" for arm, value in self.values.items())


class Spent(Frozen):
    """What one run really used: policy updates, rollouts, tokens of prompts and responses, calls of the frozen services."""

    updates: int
    rollouts: int
    tokens: int
    judge_calls: int
    mocker_calls: int


class Certificate(Frozen):
    """The matched comparison in writing.

    Attributes:
        conditions: arm -> what it declares.
        same: dotted setting -> the value all arms share.
        inputs: digests of the splits and the SFT checkpoint that every arm had.
        prompt_order: seed -> digest of the order in which every arm saw the prompts; None before training.
        spent: "arm, seed n" -> what the run used; empty before training.
        mismatches: what differs though it is not declared; a study without `allow_unmatched` never gets here with any.
    """

    study: str
    conditions: dict[str, dict[str, Any]]
    same: dict[str, Any]
    inputs: dict[str, str] = Field(default_factory=dict)
    prompt_order: dict[int, str] = Field(default_factory=dict)
    spent: dict[str, Spent] = Field(default_factory=dict)
    mismatches: tuple[Mismatch, ...] = ()

    @property
    def matched(self) -> bool:
        return not self.mismatches


def find_mismatches(study: Study) -> tuple[Mismatch, ...]:
    """The RL settings in which arms differ after resolution."""
    settings = {arm.name: study.rl_of(arm).model_dump(mode="json") for arm in study.arms}
    fields = next(iter(settings.values()), {})
    return tuple(
        Mismatch(field=f"rl.{field}", values={arm: values[field] for arm, values in settings.items()})
        for field in fields
        if any(values[field] != fields[field] for values in settings.values())
    )


def require_matched(study: Study) -> tuple[Mismatch, ...]:
    """The mismatches of a study that allows them.

    Raises:
        ConfigError: there are some and the study does not allow them; each field with its values.
    """
    found = find_mismatches(study)
    if found and not study.allow_unmatched:
        lines = "\n".join(f"  - {mismatch.sentence()}" for mismatch in found)
        raise ConfigError(
            f"The arms of {study.name} are not matched; they may differ in {', '.join(DECLARED)} only, and differ in\n{lines}\n"
            "Give all arms one value, or set `allow_unmatched: true` in the study: every table then says so."
        )
    return found


def certify(
    study: Study,
    *,
    services: Mapping[str, Any],
    inputs: Mapping[str, str] | None = None,
    prompt_orders: Mapping[int, Sequence[str]] | None = None,
    spent: Mapping[str, Spent] | None = None,
) -> Certificate:
    """The certificate of a study: planned, or with what the runs recorded.

    Args:
        services: identities of mocker and judge.
        prompt_orders: seed -> the digest each arm's run recorded.

    Raises:
        ConfigError: as `require_matched`; or runs of one seed saw the prompts in different orders.
    """
    found = require_matched(study)
    orders: dict[int, str] = {}
    for seed, digests in (prompt_orders or {}).items():
        if len(set(digests)) > 1 and not study.allow_unmatched:
            raise ConfigError(
                f"The arms of {study.name} were expected to see the prompts of seed {seed} in one order; their runs recorded "
                f"{len(set(digests))}: {', '.join(sorted(set(digests)))}. Remove the records of the odd ones and run again."
            )
        orders[seed] = ", ".join(sorted(set(digests)))
    differing = {mismatch.field for mismatch in found}
    # Of the first arm, since all arms may have one setting in place of the study's.
    settings = study.rl_of(study.arms[0]).model_dump(mode="json") if study.arms else {}
    shared = {f"rl.{field}": value for field, value in settings.items() if f"rl.{field}" not in differing}
    return Certificate(
        study=study.name,
        conditions={
            arm.name: {
                "estimator_name": arm.estimator.name,
                "replicate": study.replicate_of(arm),
                "summariser": arm.summariser,
                **arm.condition(),
            }
            for arm in study.arms
        },
        same={**shared, "seeds": list(study.seeds), "services": dict(services)},
        inputs=dict(inputs or {}),
        prompt_order=orders,
        spent=dict(spent or {}),
        mismatches=found,
    )
