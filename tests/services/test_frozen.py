"""What of a service bears on its answers, and who is told apart in asking."""

from __future__ import annotations

import pytest

from slca_core.config import (
    CheckerConfig,
    CpuProfile,
    GpuProfile,
    JudgeConfig,
    LocalLauncher,
    MockerConfig,
    RayJobLauncher,
    ServicesConfig,
)
from slca_core.services.frozen import Clients, identity, open_cache

EXTERNAL = {"managed": "external", "url": "http://a.test/v1", "model": "m"}
DEPLOYED = {"max_model_len": 1, "max_num_seqs": 1, "gpu_memory": 0.5}


def managed(checkpoint: str, **deployment) -> MockerConfig:
    return MockerConfig(managed="vllm", model="m", deployment={"checkpoint": checkpoint, **DEPLOYED, **deployment})


@pytest.mark.parametrize(
    "other",
    [
        MockerConfig(**EXTERNAL | {"model": "n"}),
        MockerConfig(**EXTERNAL, temperature=0.7),
        MockerConfig(**EXTERNAL, max_tokens=7),
        MockerConfig(**EXTERNAL, extra_body={"top_k": 1}),
        MockerConfig(),
        managed("a"),
    ],
    ids=["model", "temperature", "tokens", "body", "stand-in", "served"],
)
def test_what_may_answer_otherwise_is_another_service(other):
    assert identity(other) != identity(MockerConfig(**EXTERNAL))


@pytest.mark.parametrize(
    "change", [{"url": "http://b.test/v1"}, {"concurrency": 1}, {"retries": 9}, {"api_key_env": "KEY"}, {"timeout_s": 1}]
)
def test_where_and_how_it_is_asked_makes_no_other_service(change):
    assert identity(MockerConfig(**{**EXTERNAL, **change})) == identity(MockerConfig(**EXTERNAL))


def test_weights_that_are_served_here_are_told_apart_and_their_place_is_not():
    assert identity(managed("a")) != identity(managed("b"))
    assert identity(managed("a", tensor_parallel=2, devices=(1, 2))) == identity(managed("a"))


@pytest.fixture
def lines():
    def make(**options):
        services = ServicesConfig(mocker=MockerConfig(**EXTERNAL), judge=JudgeConfig(**EXTERNAL), checker=CheckerConfig(**EXTERNAL))
        return Clients(services, dict.fromkeys(("mocker", "judge", "checker"), "http://a.test/v1"), None).lines("me", **options)

    return make


def test_in_training_who_asks_tells_samples_apart_where_sampling_does(lines):
    made = lines()
    assert (made.mocker.asker, made.judge.asker, made.checker.asker) == ("me", None, "me")


def test_in_evaluation_every_checkpoint_meets_one_world(lines):
    assert lines(one_world=True).mocker.asker is None


def test_usage_is_booked_under_the_role_that_answered():
    services = ServicesConfig(alternate_mocker=MockerConfig(**EXTERNAL))
    clients = Clients(services, dict.fromkeys(("alternate_mocker", "judge"), "http://a.test/v1"), None)
    assert list(clients.lines("me", mocker="alternate_mocker").usage()) == ["alternate_mocker", "judge"]


def test_the_rollout_actors_of_a_run_share_what_a_service_takes():
    clients = Clients(ServicesConfig(), {"mocker": "http://a.test/v1", "judge": "http://a.test/v1"}, None, shares=4)
    assert clients.lines("me").mocker.client.config.concurrency == 75


@pytest.mark.parametrize(
    ("machine", "journal"),
    [
        (CpuProfile(), "wal"),
        (GpuProfile(), "wal"),
        (GpuProfile(actor_nodes=4), "truncate"),
        (CpuProfile(launcher=RayJobLauncher(address="http://head:8265")), "truncate"),
    ],
    ids=["cpu", "one node", "four nodes", "a job elsewhere"],
)
def test_the_fast_journal_is_for_one_machine(tmp_path, machine, journal):
    assert isinstance(CpuProfile().launcher, LocalLauncher)
    assert open_cache(ServicesConfig(), tmp_path, machine)._journal == journal
    assert open_cache(ServicesConfig(cache=False), tmp_path, machine) is None
