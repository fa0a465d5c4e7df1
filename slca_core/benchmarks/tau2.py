"""tau2-bench by its own code: domains, orchestrator and graders of an installed package, run in an environment of their own.

`tau2_worker.py` is what runs there; here are the job it gets and what its lines mean. A server that is gone, or an exception of a
task's own code, is an infrastructure error and never a score; a prompt that does not fit the policy's context, an empty answer or a
call that cannot be read is a wrong answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from slca_core import secrets
from slca_core.benchmarks.worker import Worker, proxies
from slca_core.config import REPOSITORY, TAU2_PACKAGED, ServiceConfig, Tau2Config
from slca_core.results import Trial
from slca_core.services.policy_server import PolicyServer
from slca_core.services.usage import Usage

NAME = "tau2"
SCRIPT = Path(__file__).with_name("workers") / "tau2_worker.py"
ENVIRONMENT = REPOSITORY / ".venv-tau2"
FLOOR_AGENT = "do_nothing"
RETRIES = 2  # Of a request to the policy's server, and of an empty answer of its.


def label(config: Tau2Config) -> str:
    """What stands beside every figure."""
    if config.version == TAU2_PACKAGED:
        return (
            f"tau2-bench as {config.version} packs it: NVIDIA's packaging of the official domains and graders, with other plumbing"
        )
    return f"tau2-bench by {config.version}, the official code"


def asks_judge(config: Tau2Config) -> bool:
    """Whether tasks of this release may be graded by a model too; those of the packaged one are not."""
    return config.version != TAU2_PACKAGED


def evaluate(
    server: PolicyServer,
    user: tuple[ServiceConfig, str],
    judge: tuple[ServiceConfig, str] | None,
    config: Tau2Config,
    folder: Path,
    *,
    python: Path,
    seed: int,
    on_poll: Callable[[int], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """The worker's line of every trial, those of an earlier attempt in `folder` that met no error included.

    Args:
        user: the user simulator and the URL of its /v1 root; `judge` likewise, where tasks are graded by one (`asks_judge`).
        seed: of the run; `config.seed` is added.

    Raises:
        ServiceError: the worker failed, with the end of its log.
    """
    agent = {
        "temperature": config.temperature,
        "max_tokens": config.max_tokens,
        "timeout": config.timeout_s,
        "num_retries": RETRIES,
    }
    return _play(
        config,
        folder,
        python=python,
        seed=config.seed + seed,
        trials=config.trials,
        agent=_endpoint(server.model, server.api_url, agent, server.key),
        user=_service(*user),
        judge=_service(*judge) if judge else None,
        on_poll=on_poll,
    )


def measure_floor(config: Tau2Config, folder: Path, *, python: Path) -> list[dict[str, Any]]:
    """The lines of an agent that does nothing, one trial a task: what a score must be read against. Asks no model.

    A user who leaves at once stands for it: nothing is done, nothing is said.
    """
    return _play(config, folder, python=python, seed=config.seed, trials=1, agent=None, user=None, judge=None)


def _play(
    config: Tau2Config,
    folder: Path,
    *,
    python: Path,
    on_poll: Callable[[int], None] = lambda _: None,
    **asked: Any,
) -> list[dict[str, Any]]:
    worker = Worker("tau2", SCRIPT, python)
    distribution, version = config.version.split()
    job = {
        "distribution": distribution,
        "version": version,
        "domains": config.domains,
        "split": config.split,
        "limit": config.limit,
        "done": [(line["domain"], line["id"], line["trial"]) for line in worker.finished(folder)],
        "max_steps": config.max_steps,
        "max_errors": config.max_errors,
        "threads": config.concurrency,
        **asked,
    }
    # Its import would fetch a price list otherwise.
    needed = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", **proxies()}
    if config.data_dir:
        needed["TAU2_DATA_DIR"] = str(config.data_dir.resolve())
    secrets.require_present(asked, "tau2-bench")
    kept = {one.variable: secrets.resolve(str(one), "tau2-bench") for one in secrets.references(asked)}
    hidden = secrets.values_of(asked)
    lines = worker.run(folder, secrets.as_variables(job), {**kept, **needed}, hidden=hidden, on_poll=on_poll)
    return sorted(lines, key=lambda line: (config.domains.index(line["domain"]), line["id"], line["trial"]))


def _service(service: ServiceConfig, url: str) -> dict[str, Any]:
    args: dict[str, Any] = {"temperature": service.temperature, "max_tokens": service.max_tokens, "timeout": service.timeout_s}
    args["num_retries"] = service.retries
    # By reference, as every file has them.
    recorded = service.model_dump(mode="json", include={"extra_body", "api_key"})
    if recorded["extra_body"]:
        args["extra_body"] = recorded["extra_body"]
    return _endpoint(service.model, url, args, recorded["api_key"] or service.key)


def _endpoint(model: str, url: str, args: Mapping[str, Any], key: str | None) -> dict[str, Any]:
    return {"model": model, "args": {"api_base": url, "api_key": key or "EMPTY", **args}}


def as_trials(lines: Iterable[Mapping[str, Any]]) -> list[Trial]:
    """The worker's lines as `slca_core.results` has them; a domain is a subset, tokens are the agent's."""
    return [
        Trial(
            subset=line["domain"],
            item=line["id"],
            trial=line["trial"],
            sampling="sampled",
            metrics={
                "success": float(line["success"]),
                "overflow": float(line["fault"] == "overflow"),
                "unusable": float(line["fault"] in ("empty", "unreadable")),
            },
            error=line["error"],
            tokens=line["agent"]["completion_tokens"],
            seconds=line["seconds"],
        )
        for line in lines
    ]


def asked_of_user(lines: Iterable[Mapping[str, Any]]) -> Usage:
    """What the user simulator was asked, as far as tau2-bench says: retries within it are not counted, and nothing is cached."""
    spent = Usage()
    for line in lines:
        spent.calls += line["user"]["calls"]
        spent.requests += line["user"]["calls"]
        spent.prompt_tokens += line["user"]["prompt_tokens"]
        spent.completion_tokens += line["user"]["completion_tokens"]
        spent.seconds += line["user"]["seconds"]
    return spent
