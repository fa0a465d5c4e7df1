"""The benchmarks of a study, each asked of one served checkpoint: what it gave by item, and what is to be known of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from slca_core.benchmarks import bfcl, tau2, toucan
from slca_core.benchmarks.journal import Journal
from slca_core.config import BFCL_SIZES, TAU2_SIZES, Study
from slca_core.conversation.tokens import load_tokenizer
from slca_core.curation.rows import read_split
from slca_core.errors import DataError, ServiceError
from slca_core.failures import errors_by_boundary, refuse_failures
from slca_core.results import Trial, as_table
from slca_core.rollout import Limits, Scoring, prompts_that_fit
from slca_core.services.frozen import Clients, Serving, open_cache
from slca_core.services.policy_server import PolicyServer
from slca_core.trainer.ledger import usage_by_role
from tasks.orchestration.environments import require_bfcl, require_tau2
from tasks.orchestration.progress import bar
from tasks.orchestration.workspace import Workspace
from tasks.services import EVALUATION, require_keys

BROKEN = 0.2  # Share of trials; of the packaged data one of nine tasks of the mock domain breaks, and none elsewhere.
JOURNAL, ROLLOUTS = "rollouts.jsonl", "rollouts.parquet"


@dataclass(frozen=True, slots=True)
class Asked:
    """One benchmark's trials of one checkpoint.

    Attributes:
        facts: of the evaluation's record.
        services: role -> what was asked of it, as `Usage.to_json`.
    """

    benchmark: str
    trials: list[Trial]
    facts: dict[str, Any] = field(default_factory=dict)
    services: dict[str, dict[str, float]] = field(default_factory=dict)

    def table(self, *, checkpoint: str, seed: int) -> pd.DataFrame:
        return as_table(self.trials, self.benchmark, checkpoint=checkpoint, seed=seed)


def ask_others(study: Study, seed: int, policy: PolicyServer, spoken: PolicyServer, services: Serving, folder: Path) -> list[Asked]:
    """The benchmarks that the study has beside Toucan-Test.

    Args:
        policy: who answers BFCL.
        spoken: who speaks to tau2-bench's user: the same, or with a summariser behind it.
    """
    asked = [ask_bfcl(study, policy, folder)] if study.evaluation.bfcl else []
    return [*asked, ask_tau2(study, seed, spoken, services, folder)] if study.evaluation.tau2 else asked


def ask_toucan(
    study: Study, seed: int, test_split: Path, tokenizer_folder: Path, server: PolicyServer, services: Serving, folder: Path
) -> Asked:
    """The held-out prompts, played as in training; raises ServiceError if too many rollouts failed, DataError if no prompt fits."""
    tokenizer, limits = load_tokenizer(tokenizer_folder), Limits.of(study.rl)
    samples, too_long = prompts_that_fit(read_split(test_split), tokenizer, limits)
    if not samples:
        raise DataError(
            f"Evaluation prompts may have {limits.max_length - limits.response_tokens} tokens "
            f"(rl.max_length - rl.response_tokens); none of the {too_long} held-out ones fits. Raise rl.max_length."
        )
    settings = study.evaluation.toucan_test
    protocol = toucan.Protocol(settings=settings, limits=limits, scoring=Scoring.of(study.rl), seed=seed)
    urls, cache = services.urls(EVALUATION), open_cache(study.services, Workspace(study).root, study.machine)
    clients = Clients(services.settings, urls, cache)
    with bar(f"Toucan-Test {server.model}", total=len(samples) * (settings.samples + 1)) as update:
        results = asyncio.run(
            toucan.evaluate(
                samples,
                tokenizer,
                server,
                clients,
                protocol,
                finished=Journal(folder / JOURNAL),
                on_done=lambda: update(advance=1),
            )
        )
    records = [record for _, record in results]
    limits_of = study.services
    refuse_failures(records, limits_of.failure_limit, f"Toucan-Test of {server.model}", unread_limit=limits_of.unread_limit)
    pd.DataFrame(records).to_parquet(folder / ROLLOUTS, compression="zstd")
    books = {
        "rollouts": len(records),
        "failures": errors_by_boundary(records),
        "unread": sum(record["unread"] > 0 for record in records),
        "overflowed": sum(record.get("overflowed", 0) > 0 for record in records),
    }
    used = {role: usage.to_json() for role, usage in usage_by_role(records).items()}
    return Asked(toucan.NAME, toucan.as_trials(results), {"items": len(samples), "too_long": too_long, **books}, used)


def ask_bfcl(study: Study, server: PolicyServer, folder: Path) -> Asked:
    """BFCL V3; raises ServiceError if too many items met a server that did not answer."""
    settings = study.evaluation.bfcl
    assert settings is not None
    python = require_bfcl()
    with bar(f"BFCL V3 {server.model}", total=bfcl_items(study)) as update:
        lines = bfcl.evaluate(server, settings, folder, python=python, on_poll=lambda done: update(completed=done))
    trials = bfcl.as_trials(lines)
    _refuse(study, trials, f"BFCL V3 of {server.model}")
    return Asked(bfcl.NAME, trials, {"bfcl_items": len(trials)})


def ask_tau2(study: Study, seed: int, server: PolicyServer, services: Serving, folder: Path) -> Asked:
    """tau2-bench; raises ServiceError if too many trials met an error."""
    settings = study.evaluation.tau2
    assert settings is not None
    python = require_tau2(settings)
    asked = ("user", "judge") if tau2.asks_judge(settings) and study.services.judge.managed != "standin" else ("user",)
    require_keys(study.services, asked)
    urls = services.urls(asked)
    at = {role: (services.settings.of(role), url) for role, url in urls.items()}
    with bar(f"tau2-bench {server.model}", total=tau2_trials(study)) as update:
        lines = tau2.evaluate(
            server,
            at["user"],
            at.get("judge"),
            settings,
            folder,
            python=python,
            seed=seed,
            on_poll=lambda done: update(completed=done),
        )
    trials = tau2.as_trials(lines)
    _refuse(study, trials, f"tau2-bench of {server.model}")
    return Asked(tau2.NAME, trials, {"tau2_trials": len(trials)}, {"user": tau2.asked_of_user(lines).to_json()})


def bfcl_items(study: Study) -> int:
    """How many a study asks of each checkpoint."""
    settings = study.evaluation.bfcl
    return sum(_first(BFCL_SIZES[name], settings.limit) for name in settings.categories) if settings else 0


def tau2_trials(study: Study) -> int:
    """How many a study asks of each checkpoint; at most so many where its split is not the base one."""
    settings = study.evaluation.tau2
    return settings.trials * tau2_tasks(study) if settings else 0


def tau2_tasks(study: Study) -> int:
    """How many tasks a study has of tau2-bench, likewise."""
    settings = study.evaluation.tau2
    return sum(_first(TAU2_SIZES[name], settings.limit) for name in settings.domains) if settings else 0


def _first(size: int, limit: int | None) -> int:
    return size if limit is None else min(size, limit)


def _refuse(study: Study, trials: Sequence[Trial], what: str) -> None:
    """Stops over servers that did not answer, and where so many tasks break in their own code that it is no matter of tasks.

    A task that breaks would break again: it is counted, and in no figure.
    """
    answered = [one for one in trials if not (one.error or "").startswith("task:")]
    refuse_failures([{"error": one.error, "unread": 0} for one in answered], study.services.failure_limit, what)
    if len(trials) - len(answered) > BROKEN * len(trials):
        first = next(one.error for one in trials if (one.error or "").startswith("task:"))
        broken = f"{len(trials) - len(answered)} of {len(trials)} trials broke in the benchmark's own code"
        raise ServiceError(f"{what}: {broken}; the first says: {first}")
