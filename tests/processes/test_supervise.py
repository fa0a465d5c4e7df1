"""Servers as child processes: up when the block begins, gone with their children when it ends, and their faults readable."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from slca_core.errors import ServiceError
from slca_core.processes.supervise import LOOPBACK, free_port, keep_serving, require_free, serve, start, stop, stop_all, tail
from tests.support.waiting import wait_until

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


# A server that starts a child, writes both pids to the file named first, and answers with its own on the port named second; what
# stands third, if anything, runs in its place from the second attempt on.
KEPT = """
import http.server, os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
with open(sys.argv[1], "a") as pids:
    pids.write(f"{os.getpid()} {child.pid}\\n")
attempt = len(open(sys.argv[1]).readlines())
print("attempt", attempt, flush=True)
if attempt > 1:
    exec(sys.argv[3])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(os.getpid()).encode())
http.server.HTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
"""


class Kept:
    """A server that is kept up; `said` is what was said of it. Only death takes it down unless a test asks for less patience."""

    def __init__(self, folder: Path) -> None:
        self.pids, self.log, self.port = folder / "pids", folder / "logs" / "toy.log", free_port()
        self.said: list[str] = []

    @contextmanager
    def up(self, later: str = "", **settings):
        argv = [sys.executable, "-c", KEPT, str(self.pids), str(self.port), later]
        settings = {"silent_s": 120, "poll_s": 0.05, "timeout_s": 60, **settings}
        with keep_serving("toy", argv, port=self.port, log=self.log, say=self.said.append, **settings) as url:
            assert url == f"http://{LOOPBACK}:{self.port}"
            yield wait_until(self.answering)

    def answering(self) -> int | None:
        """The pid of the server that answers now."""
        try:
            return int(httpx.get(f"http://{LOOPBACK}:{self.port}", trust_env=False, timeout=2).text)
        except httpx.HTTPError:
            return None

    def another(self, than: int) -> int | None:
        pid = self.answering()
        return pid if pid != than else None

    def attempts(self) -> int:
        return len(self.pids.read_text().splitlines())

    def all_ended(self) -> bool:
        running = [process.info["cmdline"] for process in psutil.process_iter(["cmdline"]) if process.info["cmdline"]]
        return all(_ends(int(pid)) for pid in self.pids.read_text().split()) and not any(str(self.pids) in argv for argv in running)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def test_a_killed_server_is_started_again_on_its_port(kept):
    with kept.up() as first:
        os.kill(first, signal.SIGKILL)
        assert wait_until(lambda: kept.another(than=first))
        assert kept.said == ["the toy ended with code -9; it is started again"]
    assert kept.all_ended()


def test_the_log_of_each_attempt_stays(kept):
    with kept.up() as first:
        os.kill(first, signal.SIGKILL)
        assert wait_until(lambda: kept.another(than=first))
    assert "attempt 1" in kept.log.with_name("toy.1.log").read_text()
    assert "attempt 2" in kept.log.read_text()
    assert sorted(path.name for path in kept.log.parent.iterdir()) == ["toy.1.log", "toy.log"]


def test_what_a_killed_server_had_started_ends_with_it(kept):
    with kept.up() as first:
        child = int(kept.pids.read_text().split()[1])
        os.kill(first, signal.SIGKILL)
        assert wait_until(lambda: kept.another(than=first))
        assert _ends(child)


def test_after_so_many_restarts_a_server_is_left_alone(kept):
    with kept.up(restarts=2) as pid:
        for _ in range(2):
            os.kill(pid, signal.SIGKILL)
            pid = wait_until(lambda killed=pid: kept.another(than=killed))
        os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: len(kept.said) == 3)
        assert kept.said[-1] == "the toy ended with code -9; it was started 3 times and is left alone"
        assert kept.answering() is None
    assert kept.attempts() == 3
    assert kept.all_ended()


def test_a_restart_that_does_not_come_up_is_one_of_them(kept):
    with kept.up(later="print('no weights here'); sys.exit(3)", restarts=2) as first:
        os.kill(first, signal.SIGKILL)
        assert wait_until(lambda: len(kept.said) == 3)
        assert kept.said == [
            "the toy ended with code -9; it is started again",
            "the toy ended with code 3; it is started again",
            "the toy ended with code 3; it was started 3 times and is left alone",
        ]
    assert "no weights here" in kept.log.with_name("toy.3.log").read_text()


def test_a_server_that_hangs_is_started_again(kept):
    with kept.up(silent_s=3, restarts=50) as first:
        os.kill(first, signal.SIGSTOP)
        assert wait_until(lambda: kept.another(than=first), 180)
        assert kept.said[0] == "the toy has not answered for 3 s; it is started again"
    assert kept.all_ended()


def test_a_server_that_answers_is_left_to_run(kept):
    with kept.up(poll_s=0.01) as first:
        time.sleep(0.5)
        assert wait_until(kept.answering) == first
    assert (kept.said, kept.attempts()) == ([], 1)


def test_nothing_runs_after_a_block_that_ends_as_the_server_dies(kept):
    with kept.up() as first:
        os.kill(first, signal.SIGKILL)
    assert kept.all_ended()
    assert require_free(kept.port, "the test") == kept.port


def test_nothing_runs_after_a_block_that_ends_while_the_server_comes_up_again(kept):
    with kept.up(later="time.sleep(300)", timeout_s=250) as first:
        os.kill(first, signal.SIGKILL)
        assert wait_until(lambda: kept.attempts() == 2)
    assert kept.all_ended()
    assert kept.answering() is None


def test_an_error_inside_the_block_ends_a_server_that_was_started_again(kept):
    def work() -> None:
        with kept.up() as first:
            os.kill(first, signal.SIGKILL)
            assert wait_until(lambda: kept.another(than=first))
            raise KeyError

    with pytest.raises(KeyError):
        work()
    assert kept.all_ended()


def test_a_server_that_was_ended_with_all_others_is_not_started_again(kept, monkeypatch):
    monkeypatch.setattr("slca_core.processes.supervise._running", set())
    with kept.up():
        stop_all()
        time.sleep(1)
    assert (kept.said, kept.attempts()) == ([], 1)


@pytest.mark.parametrize(
    ("program", "timeout_s", "fault"),
    [
        ("import sys; sys.exit(3)", 60, "The toy ended with code 3 before it answered"),
        ("import time; time.sleep(300)", 1, r"The toy did not answer at http://127.0.0.1:\d+/health within 1 s"),
    ],
    ids=["dies", "never-answers"],
)
def test_a_server_that_does_not_come_up_at_first_is_an_error_and_not_tried_again(server, program, timeout_s, fault):
    said: list[str] = []
    argv = [sys.executable, "-c", program]
    with (
        pytest.raises(ServiceError, match=fault),
        keep_serving(**{**server, "argv": argv, "timeout_s": timeout_s}, say=said.append, poll_s=0.05),
    ):
        pass
    assert said == []
    assert [path.name for path in server["log"].parent.iterdir()] == ["toy.log"]


def test_a_process_may_be_given_its_environment_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "sesame")
    code = "import os; print(os.environ.get('SECRET'), os.environ['GREETING'])"
    for inherit, said in ((False, "None hello"), (True, "sesame hello")):
        process = start([sys.executable, "-c", code], tmp_path / "log", {"GREETING": "hello"}, inherit=inherit)
        assert process.wait(30) == 0
        stop(process)
        assert (tmp_path / "log").read_text().strip() == said
