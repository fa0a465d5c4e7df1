"""Stores and Ray listen where a run on one machine needs them, and nowhere else."""

from __future__ import annotations

import os
import socket
import sys
from importlib.metadata import entry_points
from types import SimpleNamespace

import psutil
import pytest
from torch.distributed import TCPStore

from slca_core.processes.supervise import LOOPBACK, free_port
from slca_core.trainer import run_rl
from slca_core.trainer.loopback import keep_stores_on_loopback, ray_environment
from tests.support.network import WILDCARD_ONLY, answers


@pytest.fixture(autouse=True)
def kept(monkeypatch):
    monkeypatch.setattr(TCPStore, "__init__", TCPStore.__init__)
    keep_stores_on_loopback()


def served(host: str, **options) -> TCPStore:
    return TCPStore(host, free_port(), 1, True, wait_for_workers=False, **options)


@pytest.mark.parametrize("host", [LOOPBACK, "localhost"])
def test_a_store_at_a_loopback_address_is_reached_there_alone(host):
    store = served(host)
    assert answers(LOOPBACK, store.port)
    assert not answers(WILDCARD_ONLY, store.port)
    TCPStore(LOOPBACK, store.port, 1, False).set("key", "value")
    assert store.get("key") == b"value"


def test_a_port_of_the_systems_choice_is_the_stores_own():
    store = TCPStore(LOOPBACK, 0, 1, True, wait_for_workers=False)
    assert store.port > 0
    assert not answers(WILDCARD_ONLY, store.port)


def test_two_stores_of_a_process_share_a_server_as_ever():
    first = served(LOOPBACK, multi_tenant=True)
    second = TCPStore(LOOPBACK, first.port, 1, True, multi_tenant=True)
    second.set("key", "value")
    assert first.get("key") == b"value"


def test_a_store_for_other_machines_listens_for_them():
    assert answers(WILDCARD_ONLY, served("0.0.0.0").port)


def test_to_ask_twice_changes_nothing():
    before = TCPStore.__init__
    keep_stores_on_loopback()
    assert TCPStore.__init__ is before


def test_a_rendezvous_of_torch_is_kept_on_loopback_too():
    import torch.distributed as dist

    port = free_port()
    dist.init_process_group("gloo", init_method=f"tcp://{LOOPBACK}:{port}", rank=0, world_size=1)
    try:
        here = {one.laddr.ip for one in psutil.Process().net_connections("tcp") if one.laddr.port == port}
        assert answers(LOOPBACK, port)
        assert not answers(WILDCARD_ONLY, port)
        assert here <= {LOOPBACK, f"::ffff:{LOOPBACK}"}
    finally:
        dist.destroy_process_group()


def test_every_process_of_a_vllm_server_keeps_its_stores_on_loopback():
    (plugin,) = entry_points(group="vllm.general_plugins", name="slca_loopback")
    assert plugin.load() is keep_stores_on_loopback


def test_each_training_has_a_token_of_its_own():
    tokens = {ray_environment()["RAY_AUTH_TOKEN"] for _ in range(3)}
    assert len(tokens) == 3
    assert min(map(len, tokens)) == 64


def test_the_family_of_an_address_does_not_matter():
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    store = served("::1")
    assert answers("::1", store.port)
    assert not answers(WILDCARD_ONLY, store.port)


@pytest.mark.parametrize(
    ("machine", "own"),
    [
        ({"kind": "cpu"}, True),
        ({"kind": "gpu", "ray_address": None}, True),
        ({"kind": "gpu", "ray_address": "local"}, True),
        ({"kind": "gpu"}, False),
        ({"kind": "cpu", "launcher": {"kind": "ray_job", "address": "http://head:8265"}}, False),
    ],
    ids=["cpu", "gpu without a cluster", "gpu, local", "gpu of a cluster", "job"],
)
def test_a_ray_that_a_run_starts_is_on_loopback_with_a_token_and_one_that_it_joins_is_as_it_is(
    make_spec, monkeypatch, machine, own
):
    asked: dict = {}
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=lambda **options: asked.update(options)))
    for name in ("_install_cpu_actors", "_install_seams", "_cpu_environment"):
        monkeypatch.setattr(run_rl, name, lambda *_: {})
    monkeypatch.setattr(run_rl.runpy, "run_module", lambda *_, **__: None)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(sys, "argv", ["run_rl", str(make_spec(machine=machine).write())])
    run_rl.main()
    token = os.environ.get("RAY_AUTH_TOKEN")
    assert (asked.get("_node_ip_address"), bool(token), os.environ.get("GLOO_SOCKET_IFNAME")) == (
        (LOOPBACK, True, "lo") if own else (None, False, None)
    )
    assert asked["address"] == ("local" if own else "auto")
    assert "RAY_AUTH_TOKEN" not in asked["runtime_env"]["env_vars"]
