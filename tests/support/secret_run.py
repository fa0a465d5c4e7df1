"""`slca` with scripted training and a scripted policy server, as a user types it; and what a run must not leave behind.

python -m tests.support.secret_run run STUDY [--set ...]
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sqlite3
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pandas as pd

from slca_core.config import load_study
from slca_core.conversation import chat
from slca_core.processes.supervise import LOOPBACK
from slca_core.services.policy_server import PolicyServer
from tasks.orchestration.workspace import quiet_environment
from tests.chaos import trainer
from tests.support.endpoint import answer_to

ECHOES = 3  # Requests that are refused with all that they held.


class Service:
    """A frozen model and a web hook that want to be spoken to properly, and say in a refusal all that they were sent.

    Attributes:
        seen: what each answered request had for its Authorization, with its body.
        news: what the hook was told, with the path it was told at.
    """

    def __init__(self, echoes: int = ECHOES) -> None:
        self.echoes = echoes
        self.seen: list[tuple[str, dict]] = []
        self.news: list[tuple[str, str, dict]] = []

    @contextmanager
    def listening(self) -> Iterator[int]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                key = self.headers.get("Authorization", "")
                if "messages" not in body:
                    service.news.append((self.path, key, body))
                    self._send(200, "{}")
                    return
                if len(service.seen) < service.echoes:
                    self._send(400, json.dumps({"error": f"no: {key}", **{**body, "messages": []}}))
                else:
                    choice = {"message": {"content": answer_to(body["messages"][0]["content"])}, "finish_reason": "stop"}
                    self._send(200, json.dumps({"choices": [choice]}))
                service.seen.append((key, body))

            def _send(self, status: int, text: str) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            server.server_close()


def leaks(root: Path, markers: Iterable[str]) -> set[tuple[str, str]]:
    """(marker, file) of every file below `root` that holds one: as bytes, in a table's cells, in a database's values."""
    wanted = list(markers)
    found = set()
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            text = "\n".join(_texts(path))
            found |= {(marker, str(path.relative_to(root))) for marker in wanted if marker in text}
    return found


def _texts(path: Path) -> Iterator[str]:
    content = path.read_bytes()
    yield content.decode("utf-8", "replace")
    if path.suffix == ".parquet":
        yield pd.read_parquet(io.BytesIO(content)).to_json()
    if content.startswith(b"SQLite format 3"):
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            yield "\n".join(database.iterdump())


def call_any_tool(prompt: str) -> str:
    """A call of the first tool that a prompt shows, with an argument of the right kind for each that is required."""
    tool = json.loads(next(line for line in prompt.splitlines() if line.startswith('{"name"')))
    schema = tool["parameters"]
    kinds = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}
    arguments = {
        name: (schema["properties"][name].get("enum") or [kinds.get(schema["properties"][name].get("type"), "x")])[0]
        for name in schema.get("required", [])
    }
    return f"<tool_call>\n{json.dumps({'name': tool['name'], 'arguments': arguments})}\n</tool_call>{chat.END}"


class Letters:
    """A tokenizer that takes each letter for a token, so that no real one need be imported."""

    def __init__(self, _: object = None) -> None:
        pass

    def __call__(self, text: str, **_: object) -> dict[str, list[int]]:
        return {"input_ids": [ord(letter) for letter in text]}

    def decode(self, token_ids: Sequence[int], **_: object) -> str:
        return "".join(map(chr, token_ids))


@contextmanager
def served(_checkpoint: Path, name: str, *_: object, log: Path, **__: object) -> Iterator[PolicyServer]:
    """A policy in this process that calls a tool once and then says that it is done."""
    tokenizer = Letters()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            prompt = tokenizer.decode(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["prompt"])
            text = f"All done.{chat.END}" if prompt.count("<tool_response>") else call_any_tool(prompt)
            choice = {"token_ids": tokenizer(text)["input_ids"], "finish_reason": "stop"}
            data = json.dumps({"choices": [choice]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield PolicyServer(url=f"http://{LOOPBACK}:{server.server_port}", model=name)
    finally:
        server.shutdown()
        server.server_close()


_training = threading.Lock()


def run_here(module: str, argv: Sequence[str], *, log: Path, **_: object) -> None:
    """Scripted training in this process, one at a time: standard output is all threads'."""
    with _training, log.open("w") as sink, contextlib.redirect_stdout(sink):
        if module.endswith("run_rl"):
            trainer.train_rl(Path(argv[0]))
        else:
            trainer.train_sft(list(argv))


def install() -> None:
    """Training and the policy's server are scripts from now on."""
    from slca_core.trainer import demonstrations, launchers, prompt_set
    from tasks import benchmarks, evaluate, finetune

    trainer.UPDATE_S = 0.0
    for module in (finetune, launchers):
        module.run_module = run_here
        module.python_for = lambda *_: sys.executable
    evaluate.served = served
    finetune.create_policy = lambda out, *_: (out.mkdir(), (out / "config.json").write_text("{}"))
    for module in (demonstrations, prompt_set, benchmarks):
        module.load_tokenizer = Letters


def main() -> None:
    os.environ.update(quiet_environment(load_study(Path(sys.argv[2])).root))
    install()
    from flows.cli import main

    main.main()


if __name__ == "__main__":
    main()
