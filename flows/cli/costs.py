"""What `slca plan` says of the costs of all steps that are to run, a line each, with what each figure rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slca_core.config import ServiceConfig, Study
from slca_core.reporting.report import duration
from tasks.benchmarks import bfcl_items, tau2_trials
from tasks.planning.estimates import Estimate
from tasks.planning.plan import Plan

_ABOUT = {"measured": "about", "assumed": "about", "at most": "at most"}
_BASIS = {"measured": " (as measured)", "assumed": " (assumed)", "at most": ""}


def cost_lines(plan: Plan) -> Iterator[str]:
    """Time and GPU-hours, rollouts and tokens, calls of the services, disk."""
    costs = [one.estimate for one in plan.to_run]
    if not costs:
        yield "total    nothing to run"
        return
    yield f"total    {len(costs)} steps to run, {_time(plan, costs)}"
    if any(cost.timed == "assumed" and cost.seconds is not None for cost in costs):
        yield f"assumed  {_assumptions(plan.study)}"
    if made := [cost for cost in costs if cost.rollouts]:
        services, counted = plan.study.services, made[0].counted
        about, basis = _ABOUT[counted], _BASIS[counted]
        rollouts, tokens = sum(cost.rollouts for cost in made), sum(cost.tokens for cost in made)
        yield f"rollouts {rollouts:,}, in all {about} {tokens:,} tokens{basis}"
        calls = sum(cost.judge_calls for cost in made)
        yield f"judge    at most {calls:,} calls, {_answers(services.judge)}"
        calls = sum(cost.mocker_calls for cost in made)
        one_a_turn = ", if a turn makes one" if counted == "at most" else ""
        yield f"mocker   {about} {calls:,} calls{basis}{one_a_turn}, {_answers(services.mocker)}"
    yield from _benchmark_lines(plan.study, costs)
    yield f"disk     {_disk(costs)}"


def _benchmark_lines(study: Study, costs: Sequence[Estimate]) -> Iterator[str]:
    evaluations = sum(cost.rollouts > 0 and cost.trials > 0 for cost in costs)
    if evaluations and study.evaluation.bfcl:
        yield f"BFCL V3  {evaluations * bfcl_items(study):,} items, answers of at most {study.evaluation.bfcl.max_tokens:,} tokens"
    if evaluations and (tau2 := study.evaluation.tau2):
        yield (
            f"tau2     at most {evaluations * tau2_trials(study):,} trials of at most {tau2.max_steps} steps, each "
            f"of agent, user or environment; the user's {_answers(study.services.user)}"
        )


def _time(plan: Plan, costs: Sequence[Estimate]) -> str:
    known = [(cost.seconds, cost.gpus) for cost in costs if cost.seconds is not None]
    if not known:
        return "time unknown: no step of this size was run here yet"
    assumed = " (assumed)" if any(cost.timed == "assumed" for cost in costs) else ""
    lanes = plan.study.machine.parallel
    text = f"about {duration(plan.known_seconds)}{assumed} {'one after another' if lanes == 1 else f'{lanes} side by side'}"
    if gpu_hours := sum(seconds * gpus for seconds, gpus in known) / 3600:
        text += f", {gpu_hours:,.0f} GPU-hours"
    return text + _without(len(costs) - len(known))


def _disk(costs: Sequence[Estimate]) -> str:
    known = [cost.disk for cost in costs if cost.disk is not None]
    return f"about {sum(known) / 1e9:,.1f} GB" + _without(len(costs) - len(known)) if known else "unknown"


def _answers(service: ServiceConfig) -> str:
    return f"answers of at most {service.max_tokens:,} tokens"


def _without(steps: int) -> str:
    return f", not counting {steps} of them" if steps else ""


def _assumptions(study: Study) -> str:
    values = study.assumptions.model_dump() if study.assumptions else {}
    return ", ".join(f"{key} = {value:,}" for key, value in values.items())
