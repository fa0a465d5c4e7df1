"""A study finished by a script: each step's record, with as much as the flow, MLflow and the report read of it."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import yaml

from slca_core.config import Study
from slca_core.failures import BOUNDARIES
from slca_core.records.store import Step
from slca_core.reporting.figures import QUANTITIES
from slca_core.results import Trial, as_table
from slca_core.services.usage import Usage
from tasks.orchestration.workspace import Workspace
from tasks.planning.plan import make_plan

EXTERNAL = {"managed": "external", "url": "http://127.0.0.1:9/v1", "model": "never called"}
SETTINGS = {
    "name": "scripted",
    "policy": {"scratch": {}},
    "data": {"test_size": 4},
    "rl": {"updates": 2, "prompts_per_update": 2, "minibatch_prompts": 2, "group_size": 2},
    "arms": ["grpo", "slca"],
    "services": {"mocker": EXTERNAL, "judge": EXTERNAL},
}
SPENT = {"rollouts": 4, "prompt_tokens": 8.0, "response_tokens": 4.0, "error_rate": 0.0, "seconds_total": 1.0, "judge/calls": 4.0}
# What an evaluation tells of its rollouts.
BOOKS = {"rollouts": 4, "failures": dict.fromkeys(BOUNDARIES, 0), "unread": 0, "services": {"judge": Usage(calls=4).to_json()}}


def write_study(folder: Path, **changes) -> Path:
    """A study file with its root beside it."""
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump({**SETTINGS, "root": str(folder / "state"), **changes}))
    return path


def finish(study: Study) -> None:
    """Makes every step that has no record, in the order of the plan."""
    while waiting := make_plan(study).to_run:
        make(study, waiting[0].step)


def make(study: Study, step: Step) -> None:
    """One step's record; its output follows from its identity."""
    facts = {
        **{"curate": _curate, "policy": _policy, "finetune": _finetune},
        **{"train": _train, "evaluate": _evaluate, "floor": _floor},
    }[step.step]
    Workspace(study).store.run(step, lambda folder: (f"out-{step.identity}", facts(folder, step)))


def _curate(folder: Path, step: Step) -> dict:
    for split in ("sft", "rl", "test"):
        pd.DataFrame({"sample_id": ["a", "b"]}).to_parquet(folder / f"{split}.parquet")
    files = {f"{split}.parquet": f"{step.identity}-{split}" for split in ("sft", "rl", "test")}
    return {"read": 6, "files": files, "splits": {split: {"single": 2} for split in ("sft", "rl", "test")}}


def _policy(folder: Path, step: Step) -> dict:
    return {"made": "by a script"}


def _finetune(folder: Path, step: Step) -> dict:
    (folder / "loss.jsonl").write_text(json.dumps({"step": 1, "loss": 0.5}) + "\n")
    return {"samples": 2, "steps": 1, "loss": 0.5}


def _train(folder: Path, step: Step) -> dict:
    write_metrics(folder, updates=step.config["rl"]["updates"])
    return {"updates": step.config["rl"]["updates"], "order_digest": f"order-{step.config['seed']}"}


def write_metrics(folder: Path, updates: int) -> None:
    """`metrics.jsonl` of a run of so many updates."""
    means = {quantity.column: 0.5 for quantity in QUANTITIES}
    lines = [json.dumps({"update": update, **SPENT, **means}) for update in range(1, updates + 1)]
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")


def _evaluate(folder: Path, step: Step) -> dict:
    metrics = {"process": 0.75, "success_process": 0.5, "exact": 0.25}
    trials = [Trial("single-turn", item, 0, "greedy", metrics, None, 8, 0.5) for item in ("a", "b", "c", "d")]
    tables = [as_table(trials, "toucan_test", checkpoint=step.name, seed=step.config["seed"])]
    facts = {**metrics, "items": 4, "too_long": 0, **BOOKS}
    if "bfcl" in step.config:
        asked = [
            Trial(category, f"{category}_{at}", 0, "greedy", {"correct": float(at), "overflow": 0.0}, None, 4, 0.5)
            for category in step.config["bfcl"]["categories"]
            for at in (0, 1)
        ]
        tables.append(as_table(asked, "bfcl_v3", checkpoint=step.name, seed=step.config["seed"]))
        facts["bfcl_items"] = len(asked)
    if "tau2" in step.config:
        tables.append(_tau2(step.config["tau2"]["domains"], step.name, step.config["seed"]))
        facts["tau2_trials"] = 2 * len(step.config["tau2"]["domains"])
    pd.concat(tables, ignore_index=True).to_parquet(folder / "items.parquet")
    return facts


def _floor(folder: Path, step: Step) -> dict:
    _tau2(step.config["domains"], "do_nothing", 0).to_parquet(folder / "items.parquet")
    return {"tau2_trials": 2 * len(step.config["domains"])}


def _tau2(domains: list[str], checkpoint: str, seed: int) -> pd.DataFrame:
    """Two tasks a domain, one of them solved."""
    trials = [
        Trial(domain, str(task), 0, "sampled", {"success": float(task), "overflow": 0.0, "unusable": 0.0}, None, 4, 0.5)
        for domain in domains
        for task in (0, 1)
    ]
    return as_table(trials, "tau2", checkpoint=checkpoint, seed=seed)
