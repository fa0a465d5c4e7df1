"""An OpenAI-compatible endpoint whose answers are known."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from slca_core.processes.supervise import LOOPBACK

# A refusal: HTTP status and message.
Refusal = tuple[int, str]
TOO_LONG: Refusal = (400, "This model's maximum context length is 512 tokens.")
UNSUPPORTED: Refusal = (400, "Unsupported parameter: 'max_tokens' is not supported with this model.")
FAILS: Refusal = (401, "Not now.")  # Which no client asks again.
# Of a request's body: what is said, the calls that are made, or a refusal.
Said = str | list[tuple[str, dict]] | Refusal
Answer = Callable[[dict[str, Any]], Said]


@contextmanager
def endpoint(answer: Answer) -> Iterator[str]:
    """Chat completions as `answer` gives them; yields the root URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            given = answer(body)
            if isinstance(given, tuple):
                status, words = given
                self._send(status, {"error": {"message": words}})
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
