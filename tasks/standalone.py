"""The study's benchmarks asked of what no study trained: a checkpoint folder, or an endpoint that is there already."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from slca_core import secrets
from slca_core.config import MAX_NAME, Study, api_url
from slca_core.errors import ConfigError
from slca_core.policy import adopt_chat_format, require_checkpoint
from slca_core.records.fingerprint import checkpoint_digest
from slca_core.records.store import Record, Step
from slca_core.results import read_results
from slca_core.services.frozen import Serving
from slca_core.services.policy_server import PolicyServer
from slca_core.trainer.serve import served
from tasks.benchmarks import Asked, ask_others, ask_toucan
from tasks.curate import curation_step, split_path
from tasks.evaluate import ITEMS, benchmarks_step, log_results, write_items
from tasks.floor import measure_floor
from tasks.orchestration.progress import say
from tasks.orchestration.watch import watched
from tasks.orchestration.workspace import Workspace
from tasks.secrets import at_hand
from tasks.services import frozen_services
from tasks.tracking import Tracking

Asking = Callable[[Serving, Path], list[Asked]]


def evaluate_endpoint(study: Study, url: str, model: str, seed: int, key_env: str | None = None) -> Record:
    """BFCL V3 and tau2-bench of a model behind an OpenAI-compatible endpoint; Toucan-Test needs token ids, and so a checkpoint.

    Args:
        url: of the endpoint: a path is kept as it is given, a bare host gets /v1. User and password are best by reference.
        model: the name under which it serves; BFCL takes "_" in it for "/".
        key_env: environment variable with its key.

    Raises:
        ConfigError: the study asks neither, the name has a "_", or the key is not there.
    """
    if not (study.evaluation.bfcl or study.evaluation.tau2):
        raise ConfigError(
            "An endpoint is asked BFCL V3 and tau2-bench; this study has neither. For instance --set 'evaluation.bfcl={}' or "
            "--set 'evaluation.tau2={domains: [airline]}'"
        )
    if "_" in model and study.evaluation.bfcl:
        raise ConfigError(f'A model name without "_" was expected, found {model!r}: BFCL takes it for "/". Serve it under another.')
    server = endpoint(url, model, key_env)
    address = secrets.public_url(server.api_url)
    inputs = {"endpoint": address.removesuffix("/v1"), "model": model}
    step = benchmarks_step(study, _folder_name(model), seed, inputs, with_toucan=False, of_study=False)

    def ask(services: Serving, folder: Path) -> list[Asked]:
        say(f"asks {model} at {address}")
        return ask_others(study, seed, server, server, services, folder)

    return _evaluate(study, step, model, seed, ask, checkpoint=model)


def endpoint(url: str, model: str, key_env: str | None = None) -> PolicyServer:
    """The server at `url`; what is private in the URL is in this process's environment from now on, and nowhere else.

    Raises:
        ConfigError: it is no address, or a reference in it or the key leads nowhere.
    """
    login, at, _ = urlsplit(url).netloc.rpartition("@")
    if at and not secrets.references(login):
        kept = secrets.reference_to(login)
        os.environ[kept.variable] = login
        url = url.replace(f"{login}@", f"{kept}@", 1)
    try:
        whole = api_url(url)
    except ValueError as error:
        raise ConfigError(f"--endpoint: {error}") from None
    path = "" if whole.startswith("${") else urlsplit(whole).path
    server = PolicyServer(whole.removesuffix(path) if path else whole, model, key_env, path)
    secrets.require_present([server.api_url, server.key], "endpoint")
    return server


def evaluate_folder(study: Study, checkpoint: Path, seed: int) -> Record:
    """Every benchmark of the study on a Hugging Face checkpoint folder, served meanwhile with this project's chat format, as the
    study's own checkpoints are.

    Raises:
        ConfigError: it is no checkpoint, its tokenizer lacks the chat format's tokens, or the study's data is not curated yet.
    """
    require_checkpoint(checkpoint)
    data = Workspace(study).store.find(curation_step(study))
    if data is None:
        raise ConfigError(
            f"Toucan-Test needs the curated data of {study.name}; there is none yet below {study.root}. `slca run` with this study "
            "makes it first of all."
        )
    digest = checkpoint_digest(checkpoint)
    # BFCL takes "_" for "/".
    name = f"{_folder_name(checkpoint.resolve().name)}-{digest[:8]}".replace("_", "-")
    inputs = {"test_split": data.facts["files"]["test.parquet"], "checkpoint": digest}

    def ask(services: Serving, folder: Path) -> list[Asked]:
        model = adopt_chat_format(checkpoint, folder / "model")
        options = {"max_length": study.context, "root": study.root, "log": folder / "server.log"}
        with served(model, name, study.machine, **options) as server:
            toucan = ask_toucan(study, seed, split_path(data, "test"), model, server, services, folder)
            return [toucan, *ask_others(study, seed, server, server, services, folder)]

    step = benchmarks_step(study, name, seed, inputs, with_toucan=True, of_study=False)
    return _evaluate(study, step, name, seed, ask, checkpoint=digest[:12])


def _folder_name(text: str) -> str:
    """A model's name as part of a path."""
    return re.sub(r"[^A-Za-z0-9.-]+", "-", text)[:MAX_NAME].strip(".-") or "model"


@watched
def _evaluate(study: Study, step: Step, name: str, seed: int, ask: Asking, *, checkpoint: str) -> Record:
    at_hand(study)

    def work(folder: Path) -> tuple[str, dict[str, Any]]:
        with frozen_services(study) as services:
            return write_items(ask(services, folder), folder, checkpoint=checkpoint, seed=seed)

    with Tracking(study).child(step, condition=name, seed=seed, of_study=False) as run:
        if study.evaluation.tau2:
            measure_floor.fn(study)
        record = Workspace(study).store.run(step, work)
        log_results(run, study, read_results(record.output(ITEMS)).assign(condition=name))
        run.finish(record)
    return record
