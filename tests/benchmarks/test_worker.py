"""A benchmark's worker: what it is given, what it leaves, and what the next attempt finds."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from slca_core.benchmarks.worker import INHERITED, Worker, proxies
from slca_core.errors import ServiceError

SCRIPT = """
import json, os, sys, time
job = json.loads(open(sys.argv[1]).read())
with open(job["out"], "a") as out:
    for item in job["items"]:
        out.write(json.dumps({"id": item, "error": job["errors"].get(item), "env": sorted(os.environ)}) + "\\n")
        out.flush()
        time.sleep(0.3)
sys.exit(job["code"])
"""


@pytest.fixture
def worker(tmp_path) -> Worker:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    return Worker("toy", script, Path(sys.executable))


def job(*items: str, code: int = 0, **errors: str) -> dict:
    return {"items": items, "errors": errors, "code": code}


def test_its_lines_come_back_and_whoever_watches_hears_how_many_there_are(worker, tmp_path):
    heard: list[int] = []
    lines = worker.run(tmp_path, job("a", "b", "c", "d"), {}, on_poll=heard.append)
    assert [line["id"] for line in lines] == ["a", "b", "c", "d"]
    assert heard == sorted(heard)
    assert heard[-1] == 4
    assert len(set(heard)) > 2


def test_what_met_an_error_is_asked_again_and_the_rest_is_kept(worker, tmp_path):
    worker.run(tmp_path, job("a", "b", b="gone"), {})
    assert [line["id"] for line in worker.finished(tmp_path)] == ["a"]
    lines = worker.run(tmp_path, job("b"), {})
    assert [(line["id"], line["error"]) for line in lines] == [("a", None), ("b", None)]


def test_a_line_that_a_crash_cut_is_asked_again(worker, tmp_path):
    worker.run(tmp_path, job("a"), {})
    with (tmp_path / "toy.jsonl").open("a") as file:
        file.write('{"id": "b", "err')
    assert [line["id"] for line in worker.finished(tmp_path)] == ["a"]
    assert [line["id"] for line in worker.run(tmp_path, job("b"), {})] == ["a", "b"]


def test_it_sees_what_it_needs_of_our_environment_and_nothing_else(worker, tmp_path, monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", "sesame")
    (line,) = worker.run(tmp_path, job("a"), {"NEEDED": "1"})
    # LC_CTYPE is Python's own doing.
    assert set(line["env"]) - {"LC_CTYPE"} == {*(name for name in INHERITED if name in os.environ), "NEEDED", "PYTHONPATH"}


def test_one_that_fails_is_told_of_with_its_log_and_keeps_its_lines(worker, tmp_path):
    with pytest.raises(ServiceError, match=r"The worker of toy ended with code 3\. The end of .*toy\.log"):
        worker.run(tmp_path, job("a", code=3), {})
    assert json.loads((tmp_path / "toy.jsonl").read_text())["id"] == "a"


def test_our_own_servers_are_never_asked_through_a_proxy(monkeypatch):
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    assert proxies().items() >= {"HTTPS_PROXY": "http://proxy:3128", "no_proxy": "127.0.0.1,localhost"}.items()
    monkeypatch.setenv("NO_PROXY", "10.0.0.0/8")
    assert proxies()["NO_PROXY"] == "10.0.0.0/8,127.0.0.1,localhost"
