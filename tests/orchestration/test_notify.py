"""Who hears that a run ended: the address or command that the study names, once a run, and never at the run's cost."""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import yaml
from prefect import flow
from pydantic import ValidationError

from flows.reproduce import reproduce, reproduce_file
from flows.sweep import sweep, sweep_file
from slca_core.config import Study
from tasks.orchestration.notify import HOOKS, tell, tell_of_failure
from tasks.secrets import at_hand

WRITE = "import pathlib, sys; path = pathlib.Path(sys.argv[1]); path.open('a').write(sys.stdin.read() + '\\n')"


@pytest.fixture
def webhook():
    """(address, list of what was POSTed there)."""
    heard: list[dict] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(404 if self.path.startswith("/gone") else 204)
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


SECRET = "mk&secret"
FAIL = 'import sys\n# it\'s "{}"\n'


@pytest.mark.parametrize(
    ("notify", "kind"),
    [
        ({"command": [sys.executable, "-c", f"{FAIL}raise SystemExit(3)", SECRET]}, "exit code 3"),
        ({"command": [sys.executable, "-c", f"{FAIL}import os; os.kill(os.getpid(), 9)", SECRET]}, "ended by signal 9"),
        ({"command": ["/no/such/program", SECRET]}, "no such program"),
        ({"command": ["/", SECRET]}, "it could not be sent: PermissionError"),
        ({"command": [sys.executable, "-c", "pass", "${env:NOT_THERE}"]}, "expected in the environment variable NOT_THERE"),
        ({"url": f"http://LOCALHOST:9/hook/{SECRET}"}, "no answer: ConnectError"),
        ({"url": "${env:NO_HTTP}"}, "no answer: UnsupportedProtocol"),
        ({"url": "${env:BAD_HOST}"}, "it could not be sent: UnicodeError"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_of_who_cannot_be_told_the_kind_of_the_fault_is_said_and_nothing_of_address_or_command(
    monkeypatch, tmp_path, capsys, notify, kind
):
    monkeypatch.setenv("BAD_HOST", f"http://hooks..example.com/{SECRET}")
    monkeypatch.setenv("NO_HTTP", f"ftp://h/{SECRET}")
    tell_of_failure(study_that(tmp_path, **notify), "sft", "out of memory")
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith("Who is to hear of told (notify) was not told that sft failed: ")
    assert kind in said
    assert "mk" not in said


@pytest.mark.parametrize(
    "notify",
    [{"command": [sys.executable, "-c", "raise SystemExit(3)"]}, {"url": "${env:BAD_HOST}"}],
    ids=["it fails", "it is none"],
)
def test_who_cannot_be_told_costs_the_run_one_sentence(prefect_server, monkeypatch, tmp_path, capsys, notify):
    monkeypatch.setenv("BAD_HOST", "http://hooks..example.com/mk")
    assert run(study_that(tmp_path, **notify)) == "what it returns"
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith("Who is to hear of told (notify) was not told that it completed: ")


@pytest.mark.parametrize("path", ["/a%20b?t=mk", "/é?t=mk"])
def test_an_address_that_answers_with_an_error_is_not_repeated_in_any_form(webhook, tmp_path, capsys, path):
    url, _ = webhook
    gone = url.replace("127.0.0.1", "LOCALHOST").replace("/hook", "/gone") + path
    tell_of_failure(study_that(tmp_path, url=gone), "sft", "out of memory")
    assert " ".join(capsys.readouterr().err.split()).endswith("was not told that sft failed: HTTP 404")


@pytest.mark.parametrize(
    "notify",
    [
        {"url": "http://hooks..example.com/mk"},
        {"url": f"http://{'a' * 64}.example.com/mk"},
        {"url": "http://h/mk\ud800"},
        {"url": "http://h/m\0k"},
        {"url": "http://h/m k"},
        {"url": "http://h:99999/mk"},
        {"url": "http://hooks..example.com/${env:KEY}"},
        {"command": ["curl", "m\0k"]},
        {"command": ["curl", "mk\ud800"]},
    ],
    ids=ascii,
)
def test_whom_nobody_could_tell_is_refused_when_the_study_is_read_and_not_repeated(tmp_path, notify):
    with pytest.raises(ValidationError) as raised:
        study_that(tmp_path, **notify)
    assert "was expected" in str(raised.value)
    assert "mk" not in str(raised.value).replace("\0", "")


def test_a_study_that_names_nobody_tells_nobody(prefect_server, tmp_path, capsys):
    run(study_that(tmp_path))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("outermost", [reproduce, reproduce_file, sweep, sweep_file], ids=lambda flow: flow.name)
def test_every_deployed_flow_has_the_hooks(outermost):
    for hooks in (outermost.on_completion_hooks, outermost.on_failure_hooks, outermost.on_crashed_hooks):
        assert hooks == [tell]
