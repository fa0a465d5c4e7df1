"""BFCL V3 by its own code: data, function-calling handler and checkers of bfcl-eval, run in an environment of their own.

`bfcl_worker.py` is what runs there; here are the job it gets, what its lines mean, and the figures they make. A server that is gone
is an infrastructure error and never a score; a prompt that does not fit the model's context is a wrong answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from slca_core import secrets
from slca_core.benchmarks.worker import Worker, proxies
from slca_core.config import BFCL_SIZES, REPOSITORY, BfclConfig
from slca_core.processes.supervise import LOOPBACK
from slca_core.results import Trial
from slca_core.services.policy_server import PolicyServer

NAME, VERSION = "bfcl_v3", "2025.7.17"
LABEL = f"BFCL V3: data and graders of bfcl-eval {VERSION}, function-calling mode; the paper's harness had a later release"
SCRIPT = Path(__file__).with_name("workers") / "bfcl_worker.py"
ENVIRONMENT = REPOSITORY / ".venv-bfcl"

_NON_LIVE = ("multiple", "parallel", "parallel_multiple")
_SIMPLE = ("simple", "java", "javascript")
_LIVE = ("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple")
_MULTI_TURN = ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param")
SINGLE_TURN = (*_SIMPLE, *_NON_LIVE, *_LIVE)
# Of the paper: no relevance, no irrelevance, no long context.
PAPER = (*SINGLE_TURN, *_MULTI_TURN)

# What a table shows, with what it is the mean of.
FIGURES: Mapping[str, str] = {
    "paper_mean": f"unweighted mean of the paper's {len(PAPER)} subsets",
    "single_turn": f"unweighted mean of its {len(SINGLE_TURN)} single-turn subsets",
    "multi_turn": f"unweighted mean of its {len(_MULTI_TURN)} multi-turn subsets",
    "overall": "BFCL's own: mean of non-live, live (by items) and multi-turn, with relevance, irrelevance and long context",
}


def evaluate(
    server: PolicyServer, config: BfclConfig, folder: Path, *, python: Path, on_poll: Callable[[int], None] = lambda _: None
) -> list[dict[str, Any]]:
    """The worker's line of every item, those of an earlier attempt in `folder` that met no error included.

    Args:
        server: the checkpoint's; its model name must be the checkpoint's own, since BFCL keeps environments by model name, and
            without "_", which BFCL takes for "/".
        python: interpreter of bfcl-eval's environment.
        on_poll: hears how many items are done, now and then.

    Raises:
        ServiceError: the worker failed, with the end of its log.
    """
    worker = Worker("bfcl", SCRIPT, python)
    job = {
        "version": VERSION,
        "model": server.model,
        "categories": config.categories,
        "ids": [line["id"] for line in worker.finished(folder)],
        "limit": config.limit,
        "threads": config.concurrency,
        "max_tokens": config.max_tokens,
    }
    # BFCL evaluates what a model wrote: nothing of ours is in its environment.
    url, key = secrets.resolve([server.api_url, server.key or "EMPTY"], "endpoint")
    env = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": key, "BFCL_PROJECT_ROOT": str(folder / "bfcl")}
    if LOOPBACK not in server.url:
        env |= proxies()
    lines = worker.run(folder, job, env, hidden=secrets.values_of([server.api_url, server.key]), on_poll=on_poll)
    return sorted(lines, key=lambda line: (config.categories.index(line["category"]), line["id"]))


def as_trials(lines: Iterable[Mapping[str, Any]]) -> list[Trial]:
    """The worker's lines as `slca_core.results` has them; a category is a subset."""
    return [
        Trial(
            subset=line["category"],
            item=line["id"],
            trial=0,
            sampling="greedy",
            metrics={"correct": float(line["valid"]), "overflow": float(line["overflow"])},
            error=line["error"],
            tokens=line.get("output", 0),
            seconds=line["seconds"],
        )
        for line in lines
    ]


def figures(by_category: Mapping[str, float]) -> dict[str, float | None]:
    """`FIGURES` from the accuracy of each category, 0 to 1; None where a category it needs was not run."""

    def mean(categories: Iterable[str]) -> float | None:
        needed = list(categories)
        return fmean(by_category[name] for name in needed) if by_category.keys() >= set(needed) else None

    return {
        "paper_mean": mean(PAPER),
        "single_turn": mean(SINGLE_TURN),
        "multi_turn": mean(_MULTI_TURN),
        "overall": _overall(by_category),
    }


def _overall(by_category: Mapping[str, float]) -> float | None:
    """As `generate_leaderboard_csv` of bfcl-eval computes it, from categories that were run whole."""
    if by_category.keys() < BFCL_SIZES.keys():
        return None
    non_live = fmean([fmean(by_category[name] for name in _SIMPLE), *(by_category[name] for name in (*_NON_LIVE, "irrelevance"))])
    live = {name: BFCL_SIZES[name] for name in (*_LIVE, "live_irrelevance", "live_relevance")}
    weighted = sum(by_category[name] * size for name, size in live.items()) / sum(live.values())
    multi_turn = fmean(by_category[name] for name in (*_MULTI_TURN, "multi_turn_long_context"))
    return fmean((non_live, weighted, multi_turn))
