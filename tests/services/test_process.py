"""Servers as child processes: up when the block begins, gone with their children when it ends, and their faults readable."""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

import httpx
import pytest

from slca_core.errors import ServiceError
from slca_core.services.process import LOOPBACK, free_port, require_free, serve, tail

# A server that starts a child, writes its pid to the file named first, and listens on the port named second.
SERVER = """
import http.server, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
open(sys.argv[1], "w").write(str(child.pid))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(__import__("os").environ.get("GREETING", "").encode())
http.server.HTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
"""


def _is_running(pid: int) -> bool:
    """Whether the process runs; one that ended and was not collected yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _ends(pid: int, within_s: float = 5) -> bool:
    deadline = time.monotonic() + within_s
    while _is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not _is_running(pid)


@pytest.fixture
def server(tmp_path: Path):
    port = free_port()
    argv = [sys.executable, "-c", SERVER, str(tmp_path / "pid"), str(port)]
    return {"name": "toy", "argv": argv, "port": port, "log": tmp_path / "logs" / "toy.log", "timeout_s": 30}


def test_a_server_answers_inside_the_block_with_the_environment_it_was_given(server):
    with serve(**server, env={"GREETING": "hello"}) as url:
        assert httpx.get(url, trust_env=False).text == "hello"


def test_the_server_and_its_children_end_with_the_block(server, tmp_path):
    with serve(**server):
        child = int((tmp_path / "pid").read_text())
        assert _is_running(child)
    assert _ends(child)
    assert require_free(server["port"], "the test") == server["port"]


def test_an_error_inside_the_block_ends_the_server_too(server, tmp_path):
    with pytest.raises(KeyError), serve(**server):
        raise KeyError
    assert _ends(int((tmp_path / "pid").read_text()))


def test_a_server_that_dies_is_reported_with_the_end_of_its_log(server):
    argv = [sys.executable, "-c", "import sys; print('no weights here'); sys.exit(3)"]
    with (
        pytest.raises(ServiceError, match=r"The toy ended with code 3 before it answered(.|\n)*no weights here"),
        serve(**{**server, "argv": argv}),
    ):
        pass


def test_a_server_that_never_answers_is_given_up(server):
    argv = [sys.executable, "-c", "import time; print('loading', flush=True); time.sleep(300)"]
    server |= {"argv": argv, "timeout_s": 1}
    with (
        pytest.raises(ServiceError, match=r"did not answer at http://127.0.0.1:\d+/health within 1 s(.|\n)*loading"),
        serve(**server),
    ):
        pass


def test_a_program_that_does_not_exist_is_named(server):
    with (
        pytest.raises(ServiceError, match=r"(?s)`/no/such/program.* could not be started"),
        serve(**{**server, "argv": ["/no/such/program"]}),
    ):
        pass


def test_a_free_port_can_be_bound_and_is_none_of_rays():
    port = free_port()
    assert not 10002 <= port <= 19999
    assert require_free(port, "the test") == port


def test_a_port_in_use_is_said_in_a_sentence():
    with socket.socket() as holder:
        holder.bind((LOOPBACK, 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(ServiceError, match=rf"Port {port} was expected to be free for the judge.*Choose another with --port"):
            require_free(port, "the judge")


def test_a_port_that_does_not_exist_is_said_in_a_sentence():
    with pytest.raises(ServiceError, match="Port 70000"):
        require_free(70000, "the judge")


def test_the_end_of_a_log_is_its_last_lines(tmp_path):
    log = tmp_path / "log"
    log.write_text("\n".join(map(str, range(30))))
    assert tail(log, lines=2) == f"28{os.linesep}29"
