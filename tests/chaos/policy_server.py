"""A scripted policy behind vLLM's completions: its answer is a function of the prompt and the seed. python -m ... PORT"""

from __future__ import annotations

import json
import sys
import time
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from slca_core.processes.supervise import LOOPBACK

ANSWER_S = 0.05


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(ANSWER_S)
        chosen = sha256(json.dumps([body["prompt"], body["seed"]]).encode()).digest()
        self._answer({"choices": [{"token_ids": [300 + byte for byte in chosen[:6]], "finish_reason": "stop"}]})

    def _answer(self, value: dict) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    ThreadingHTTPServer((LOOPBACK, int(sys.argv[1])), Handler).serve_forever()
