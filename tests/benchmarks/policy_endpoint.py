"""An OpenAI-compatible endpoint whose answers are known."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from slca_core.services.process import LOOPBACK

# Of a request's body: what is said, the calls that are made, or the HTTP status of a refusal; 400 says that it is too long.
Answer = Callable[[dict[str, Any]], str | list[tuple[str, dict]] | int]


@contextmanager
def endpoint(answer: Answer) -> Iterator[str]:
    """Chat completions as `answer` gives them; yields the root URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            given = answer(body)
            if isinstance(given, int):
                too_long = "This model's maximum context length is 512 tokens."
                self._send(given, {"error": {"message": too_long if given == 400 else "Not now."}})
                return
            message: dict[str, Any] = {"role": "assistant", "content": given if isinstance(given, str) else None}
            if isinstance(given, list):
                message["tool_calls"] = [
                    {"id": f"call{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
                    for at, (name, arguments) in enumerate(given)
                ]
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
            self._send(
                200, {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}
            )

        def _send(self, status: int, value: dict) -> None:
            content = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{LOOPBACK}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
