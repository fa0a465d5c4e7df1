"""The study's benchmarks asked of what no study trained: a checkpoint folder, or an endpoint that is there already."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from slca_core.benchmarks.toucan import PolicyServer
from slca_core.config import Study
from slca_core.errors import ConfigError
from slca_core.fingerprint import checkpoint_digest
from slca_core.policy import require_checkpoint
from slca_core.records import Record, Step
from slca_core.services.frozen import Serving
from slca_core.trainer.serve import served
from tasks.benchmarks import Asked, ask_others, ask_toucan
from tasks.curate import curation_step, split_path
from tasks.evaluate import ITEMS, benchmarks_step, context_of, write_items
from tasks.services import frozen_services
from tasks.tracking import Tracking
from tasks.workspace import Workspace

Asking = Callable[[Serving, Path], list[Asked]]


def evaluate_endpoint(study: Study, url: str, model: str, seed: int) -> Record:
    """BFCL V3 and tau2-bench of a model behind an OpenAI-compatible endpoint; Toucan-Test needs token ids, and so a checkpoint.

    Args:
        url: root of the endpoint, without /v1.
        model: the name under which it serves; BFCL takes "_" in it for "/".

    Raises:
        ConfigError: the study asks neither, or the name has a "_".
    """
    if not (study.evaluation.bfcl or study.evaluation.tau2):
        raise ConfigError(
            "An endpoint is asked BFCL V3 and tau2-bench; this study has neither. For instance --set evaluation.bfcl={} or "
            "--set evaluation.tau2={domains: [airline]}"
        )
    if "_" in model and study.evaluation.bfcl:
        raise ConfigError(f'A model name without "_" was expected, found {model!r}: BFCL takes it for "/". Serve it under another.')
    server = PolicyServer(url.rstrip("/").removesuffix("/v1"), model)
    step = benchmarks_step(study, model, seed, {"endpoint": server.url, "model": model}, with_toucan=False)

    def ask(services: Serving, folder: Path) -> list[Asked]:
        return ask_others(study, seed, server, server, services, folder)

    return _evaluate(study, step, model, seed, ask, checkpoint=model)


def evaluate_folder(study: Study, checkpoint: Path, seed: int) -> Record:
    """Every benchmark of the study on a Hugging Face checkpoint folder, which is served meanwhile.

    Raises:
        ConfigError: it is no checkpoint, or the study's data is not curated yet.
    """
    require_checkpoint(checkpoint)
    data = Workspace(study).store.find(curation_step(study))
    if data is None:
        raise ConfigError(
            f"Toucan-Test needs the curated data of {study.name}; there is none yet below {study.root}. Run: slca run"
        )
    digest = checkpoint_digest(checkpoint)
    name = f"{checkpoint.resolve().name}-{digest[:8]}".replace("_", "-")
    inputs = {"test_split": data.facts["files"]["test.parquet"], "checkpoint": digest}

    def ask(services: Serving, folder: Path) -> list[Asked]:
        options = {"max_length": context_of(study), "root": study.root, "log": folder / "server.log"}
        with served(checkpoint, name, study.machine, **options) as server:
            toucan = ask_toucan(study, seed, split_path(data, "test"), checkpoint, server, services, folder)
            return [toucan, *ask_others(study, seed, server, server, services, folder)]

    step = benchmarks_step(study, name, seed, inputs, with_toucan=True)
    return _evaluate(study, step, name, seed, ask, checkpoint=digest[:12])


def _evaluate(study: Study, step: Step, name: str, seed: int, ask: Asking, *, checkpoint: str) -> Record:
    def work(folder: Path) -> tuple[str, dict[str, Any]]:
        with frozen_services(study) as services:
            return write_items(ask(services, folder), folder, checkpoint=checkpoint, seed=seed)

    with Tracking(study).child(step, condition=name, seed=seed, of_study=False) as run:
        record = Workspace(study).store.run(step, work)
        for benchmark, items in pd.read_parquet(record.folder / ITEMS).groupby("benchmark"):
            run.log_items(items, str(benchmark))
        run.finish(record)
    return record
