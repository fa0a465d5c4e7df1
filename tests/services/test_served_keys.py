"""A model served to several nodes listens on all interfaces: it asks for a key of the run, which nodes read from a private file."""

from __future__ import annotations

import asyncio
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from slca_core.config import CpuProfile, GpuProfile, JudgeConfig, ServicesConfig
from slca_core.services.frozen import Clients, read_keys, serve_frozen

# Health for all; an answer for those who know the key.
SERVER = """
import json, os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self): self.answer(200, {})
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        known = self.headers["Authorization"] == "Bearer " + os.environ.get("VLLM_API_KEY", "EMPTY")
        self.answer(200 if known else 401, {"choices": [{"message": {"content": "<rating>0.5</rating>"}, "finish_reason": "stop"}]})
    def answer(self, status, value):
        data = json.dumps(value).encode()
        self.send_response(status); self.send_header("Content-Length", str(len(data))); self.end_headers(); self.wfile.write(data)
    def log_message(self, *_): pass

HTTPServer((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
"""
DEPLOYMENT = {"checkpoint": "m", "max_model_len": 256, "max_num_seqs": 4, "gpu_memory": 0.5}
SERVICES = ServicesConfig(judge=JudgeConfig(managed="vllm", model="m", deployment=DEPLOYMENT, retries=0, max_tokens=8))


@pytest.fixture
def serving(tmp_path, monkeypatch):
    def frozen_server(service, machine, root, *, host, port):
        hosts.append(host)
        return [sys.executable, "-c", SERVER, "127.0.0.1", str(port)], {}

    hosts: list[str] = []
    monkeypatch.setattr("slca_core.trainer.serve.frozen_server", frozen_server)
    monkeypatch.setattr("slca_core.services.frozen.socket.gethostname", lambda: "127.0.0.1")

    def start(machine):
        return serve_frozen(SERVICES, machine, root=tmp_path, logs=tmp_path / "logs"), hosts

    return start


def ask(services: ServicesConfig, url: str) -> str:
    async def once() -> str:
        clients = Clients(services, {"mocker": url, "judge": url}, None)
        try:
            return await clients.lines("me").judge("Rate the answer.")
        finally:
            await clients.close()

    return asyncio.run(once())


def status_for_a_stranger(url: str) -> int:
    request = urllib.request.Request(f"{url}/chat/completions", b"{}")
    try:
        return urllib.request.urlopen(request, timeout=10).status
    except urllib.error.HTTPError as error:
        return error.code


def test_only_who_has_the_key_of_the_run_is_answered_and_no_text_has_it(serving, tmp_path):
    block, hosts = serving(GpuProfile(actor_nodes=2))
    with block as services:
        url = services.urls(("judge",))["judge"]
        assert hosts == ["0.0.0.0"]
        assert status_for_a_stranger(url) == 401
        assert "0.5" in ask(services.settings, url)
        ((variable, path),) = services.key_files.items()
        key = path.read_text()
        assert (path.stat().st_mode & 0o777, len(key) > 30) == (0o600, True)
        assert key not in services.settings.model_dump_json()
        assert not any(key.encode() in file.read_bytes() for file in tmp_path.rglob("*.log"))
    assert not path.exists()
    assert variable not in os.environ


def test_a_process_on_another_node_finds_the_key_in_the_file(serving, monkeypatch):
    block, _ = serving(GpuProfile(actor_nodes=2))
    with block as services:
        url = services.urls(("judge",))["judge"]
        for variable in services.key_files:
            monkeypatch.delenv(variable)
        read_keys(services.key_files)
        assert "0.5" in ask(services.settings, url)


def test_on_one_machine_it_is_loopback_and_no_key(serving):
    block, hosts = serving(CpuProfile())
    with block as services:
        url = services.urls(("judge",))["judge"]
        assert (hosts, services.key_files, services.settings) == (["127.0.0.1"], {}, SERVICES)
        assert "0.5" in ask(services.settings, url)


def test_a_key_that_the_environment_has_is_left_as_it_is(monkeypatch, tmp_path):
    monkeypatch.setenv("SLCA_KEY_JUDGE", "mine")
    (tmp_path / "key").write_text("another's")
    read_keys({"SLCA_KEY_JUDGE": Path(tmp_path / "key")})
    assert os.environ["SLCA_KEY_JUDGE"] == "mine"
