"""Training runs under one Prefect server: as many at once as its limits have slots for. The training itself is a script."""

from __future__ import annotations

import time
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from prefect import flow, task
from prefect.client.orchestration import get_client
from prefect.concurrency.asyncio import ConcurrencySlotAcquisitionError
from prefect.concurrency.sync import concurrency

import tasks.train as training
from slca_core.config import GpuProfile, JudgeConfig, ServicesConfig, Study, load_study
from slca_core.errors import ConfigError
from slca_core.trainer.spec import TrainSpec
from tasks.orchestration import limits
from tasks.orchestration.limits import GPUS, SERVICES, limited, slots
from tasks.planning.plan import make_plan
from tasks.tracking import Tracking
from tests.support.scripted import make, write_metrics, write_study

STUDY = Study(name="toy", policy={"scratch": {}})
EXTERNAL = ServicesConfig(judge=JudgeConfig(managed="external", url="http://127.0.0.1:9/v1", model="judge"))


@pytest.fixture
def server(prefect_server):
    """A client of the server every flow of this process runs on: Prefect asks the server of the first flow for slots ever after."""
    with get_client(sync_client=True) as client:
        yield client


@contextmanager
def limit(client, name: str, value: int):
    client.upsert_global_concurrency_limit_by_name(name, value)
    try:
        yield
    finally:
        client.delete_global_concurrency_limit_by_name(name)


@pytest.fixture
def two_runs(tmp_path, monkeypatch):
    """A flow that starts the training of two arms at once and returns when each was at work; each takes half a second."""
    study = load_study(write_study(tmp_path))
    while (one := make_plan(study).to_run[0].step).step != "train":
        make(study, one)
    made = {one.name: one.record for one in make_plan(study).steps}
    (made["finetune sft"].folder / "model").mkdir()
    Tracking(study)  # MLflow makes its store once.
    spans: list[tuple[float, float]] = []

    def train(spec: TrainSpec, spec_path: Path, **_) -> None:
        began = time.monotonic()
        time.sleep(0.5)
        write_metrics(spec.folder, spec.rl.updates)
        spec.model.mkdir()
        spans.append((began, time.monotonic()))

    monkeypatch.setattr(training.launchers, "train", train)
    monkeypatch.setattr(training, "write_prompts", lambda spec, rows: {"order_digest": "order"})
    monkeypatch.setattr(training, "bar", lambda *_, **__: nullcontext(lambda **_: None))

    @flow
    def compare() -> list[tuple[float, float]]:
        services = SimpleNamespace(urls=lambda roles: {}, settings=study.services, key_files={})
        data, sft = made["curate"], made["finetune sft"]
        runs = [training.train_arm.submit(study, arm, 1, data, sft, services) for arm in study.arms]
        assert [run.result().facts["updates"] for run in runs] == [2, 2]
        return sorted(spans)

    return compare


def test_two_training_runs_under_a_limit_of_one_do_not_overlap(server, two_runs):
    with limit(server, GPUS, 1):
        first, second = two_runs()
    assert first[1] <= second[0]


def test_without_the_limit_they_do(server, two_runs):
    first, second = two_runs()
    assert second[0] < first[1]


def test_what_has_a_record_waits_for_no_slot(server, two_runs):
    two_runs()
    with limit(server, GPUS, 1), concurrency(GPUS, occupy=1):
        assert len(two_runs()) == 2, "nothing was trained again"


def test_a_limit_below_what_one_step_holds_is_named(server):
    study = STUDY.model_copy(update={"machine": GpuProfile()})

    @flow
    def train() -> None:
        task(limited(GPUS)(lambda study: None))(study)

    with limit(server, GPUS, 4), pytest.raises(ConfigError, match=f"8 slots of Prefect's limit {GPUS}"):
        train()


@pytest.mark.parametrize(
    ("changes", "held"),
    [
        ({}, {GPUS: 1, SERVICES: 0}),
        ({"machine": GpuProfile(actor_nodes=4, actor_gpus_per_node=8)}, {GPUS: 32, SERVICES: 0}),
        ({"machine": GpuProfile(colocate=False, vllm_engines=4, vllm_tensor_parallel=2)}, {GPUS: 24, SERVICES: 0}),
        ({"services": EXTERNAL}, {GPUS: 1, SERVICES: 1}),
    ],
    ids=["two cores", "colocated", "engines beside", "external judge"],
)
def test_a_step_holds_the_gpus_of_its_profile_and_a_slot_at_shared_services(changes, held):
    assert slots(STUDY.model_copy(update=changes)) == held


def test_a_server_that_is_away_for_a_moment_is_asked_again(monkeypatch):
    asked: list[int] = []

    @contextmanager
    def away_once(name: str, occupy: int):
        asked.append(occupy)
        if len(asked) == 1:
            raise ConcurrencySlotAcquisitionError("no slots") from httpx.ConnectError("All connection attempts failed")
        yield

    monkeypatch.setattr(limits, "concurrency", away_once)
    monkeypatch.setattr(limits, "_AGAIN_S", 0.01)
    with limits._hold(GPUS, 1):
        assert asked == [1, 1]
