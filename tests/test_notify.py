"""Who hears that a run ended: the address or command that the study names, once a run, and never at the run's cost."""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import yaml
from prefect import flow

from flows.reproduce import reproduce, reproduce_file
from flows.sweep import sweep, sweep_file
from slca_core.config import Study
from tasks.notify import HOOKS, tell
from tasks.secrets import at_hand

WRITE = "import pathlib, sys; path = pathlib.Path(sys.argv[1]); path.open('a').write(sys.stdin.read() + '\\n')"


@pytest.fixture
def webhook():
    """(address, list of what was POSTed there)."""
    heard: list[dict] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/hook", heard
    server.shutdown()
    server.server_close()


def study_that(tmp_path, **notify) -> Study:
    return Study(name="told", root=tmp_path, policy={"scratch": {}}, notify=notify)


@flow(name="any", **HOOKS)
def run(study: Study, error: str = "") -> str:
    at_hand(study)
    if error == "interrupt":
        raise KeyboardInterrupt
    if error:
        raise ValueError(error)
    return "what it returns"


def test_a_completed_run_is_posted_with_its_report(prefect_server, webhook, tmp_path):
    url, heard = webhook
    run(study_that(tmp_path, url=url))
    (news,) = heard
    assert (news["study"], news["state"]) == ("told", "completed")
    assert news["report"] == str(tmp_path / "reports" / "told" / "report.html")


@pytest.mark.parametrize(("error", "state"), [("no such thing", "failed"), ("interrupt", "crashed")])
def test_a_run_that_fails_or_crashes_is_told_with_why_and_without_a_report(prefect_server, webhook, tmp_path, error, state):
    url, heard = webhook
    with pytest.raises((ValueError, KeyboardInterrupt)):
        run(study_that(tmp_path, url=url), error)
    (news,) = heard
    assert (news["state"], news["report"]) == (state, None)
    assert error in news["message"] or state == "crashed"


def test_a_command_has_the_news_on_its_standard_input(prefect_server, tmp_path):
    out = tmp_path / "heard.jsonl"
    run(study_that(tmp_path, command=[sys.executable, "-c", WRITE, str(out)]))
    assert json.loads(out.read_text())["state"] == "completed"


def test_a_flow_within_a_flow_is_told_of_once_for_a_study_by_file_too(prefect_server, webhook, tmp_path):
    url, heard = webhook
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump({"name": "by-file", "policy": {"scratch": {}}, "root": str(tmp_path)}))

    @flow(name="outer", **HOOKS)
    def outer(study_file: str, overrides: tuple[str, ...]) -> None:
        run(study_that(tmp_path, url=url))

    outer(str(path), (f"notify.url={url}",))
    assert [news["study"] for news in heard] == ["by-file"]


@pytest.mark.parametrize(
    "notify",
    [{"command": [sys.executable, "-c", "raise SystemExit(3)"]}, {"command": ["/no/such/program"]}, {"url": "http://127.0.0.1:9/"}],
    ids=["it fails", "it is not there", "nobody listens"],
)
def test_who_cannot_be_told_costs_the_run_one_sentence(prefect_server, tmp_path, capsys, notify):
    assert run(study_that(tmp_path, **notify)) == "what it returns"
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith("Who is to hear of told (notify) was not told that it completed: ")


def test_a_study_that_names_nobody_tells_nobody(prefect_server, tmp_path, capsys):
    run(study_that(tmp_path))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("outermost", [reproduce, reproduce_file, sweep, sweep_file], ids=lambda flow: flow.name)
def test_every_deployed_flow_has_the_hooks(outermost):
    for hooks in (outermost.on_completion_hooks, outermost.on_failure_hooks, outermost.on_crashed_hooks):
        assert hooks == [tell]
