"""Ctrl-C, SIGTERM and a closed terminal: the command is gone soon, with one sentence, the shell's exit code and no leftovers."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest
import yaml

from slca_core.config import REPOSITORY, load_study
from tests.chaos import kills
from tests.chaos.conftest import STUDY
from tests.support.waiting import is_gone, wait_until

GONE_S = 10.0
SENTENCE = "stopped by {}. What is finished is kept; the same command goes on from there."
# Grace of half a second, so that the tests of an end by force are short.
BLOCK = """
import signal, sys, threading, time
from pathlib import Path
from flows.cli import interruption
from slca_core.processes import supervise

signal.signal(signal.SIGINT, signal.default_int_handler)  # A background job of a shell ignores it.
interruption.GRACE_S = {grace_s}
folder = Path(sys.argv[1])
with interruption.ending_at_signals(lambda sentence: print(sentence, flush=True)):
    child = supervise.start([sys.executable, "-c", "import time; time.sleep(300)"], folder / "log", {{}}, of_run=True)
    (folder / "child").write_text(str(child.pid))
{body}
"""


def start(tmp_path: Path, body: str, grace_s: float = 0.5) -> subprocess.Popen:
    code = BLOCK.format(body=textwrap.indent(textwrap.dedent(body), "    "), grace_s=grace_s)
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert wait_until(lambda: (tmp_path / "ready").exists())
    return process


READY = "(folder / 'ready').touch()\n"


@pytest.mark.parametrize(
    ("number", "code", "name"),
    [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM"), (signal.SIGHUP, 129, "a closed terminal (SIGHUP)")],
)
def test_a_signal_ends_the_command_in_one_sentence_and_its_processes_with_it(tmp_path, number, code, name):
    process = start(tmp_path, READY + "time.sleep(300)", grace_s=300)
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out.splitlines()) == (code, [SENTENCE.format(name)])
    assert wait_until(lambda: is_gone(int((tmp_path / "child").read_text())), 10)


@pytest.mark.parametrize(
    "body",
    [
        "try:\n    " + READY + "    time.sleep(300)\nfinally:\n    time.sleep(300)",
        "thread = threading.Thread(target=time.sleep, args=(300,))\nthread.start()\n" + READY + "thread.join()",
        "signal.signal(signal.SIGTERM, lambda *_: None)\n" + READY + "time.sleep(300)",
    ],
    ids=["a-slow-end", "a-thread-that-waits", "a-handler-of-a-library"],
)
def test_what_holds_an_end_up_is_left_behind(tmp_path, body):
    process = start(tmp_path, body)
    process.terminate()
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out.splitlines()) == (143, [SENTENCE.format("SIGTERM")])


def test_a_terminal_that_is_gone_holds_nothing_up(tmp_path):
    """What is said then fails, and a lane's thread still runs."""
    body = "threading.Thread(target=time.sleep, args=(300,)).start()\n" + READY + "time.sleep(300)"
    code = BLOCK.format(body=textwrap.indent(textwrap.dedent(body), "    "), grace_s=0.5)
    ours, terminal = pty.openpty()
    argv = [sys.executable, "-c", code, str(tmp_path)]
    process = subprocess.Popen(argv, cwd=REPOSITORY, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True)
    os.close(terminal)
    assert wait_until(lambda: (tmp_path / "ready").exists())
    os.close(ours)
    process.send_signal(signal.SIGHUP)
    assert process.wait(60) == 129


def test_a_second_ctrl_c_does_not_wait(tmp_path):
    process = start(
        tmp_path, "try:\n    " + READY + "    time.sleep(300)\nfinally:\n    (folder / 'slow').touch(); time.sleep(300)", 300
    )
    process.send_signal(signal.SIGINT)
    assert wait_until((tmp_path / "slow").exists)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130


def test_a_signal_that_is_ignored_stays_ignored(tmp_path):
    body = READY + "time.sleep(0.5); print('done')"
    code = BLOCK.format(body=textwrap.indent(textwrap.dedent(body), "    "), grace_s=0.5)
    argv = ["nohup", sys.executable, "-c", code, str(tmp_path)]
    process = subprocess.Popen(argv, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert wait_until(lambda: (tmp_path / "ready").exists())
    process.send_signal(signal.SIGHUP)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "done\n")


def test_an_error_of_the_block_is_the_callers(tmp_path):
    code = BLOCK.format(body="    raise ValueError('mine')", grace_s=0.5)
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ValueError: mine" in done.stderr


@pytest.mark.e2e
def test_a_study_is_gone_within_ten_seconds_from_wherever_it_is(tmp_path):
    path = tmp_path / "study.yaml"
    slow = {"arms": ["grpo"], "rl": {**STUDY["rl"], "updates": 30}, "evaluation": {"toucan_test": {"samples": 12}}}
    path.write_text(yaml.safe_dump({**STUDY, **slow, "root": str(tmp_path / "state")}))
    study, log = load_study(path), tmp_path / "log"
    begin = kills.starter([sys.executable, "-m", "tests.chaos.scripted", str(path)], log, {"PREFECT_API_URL": ""})
    for number, under_way, sentence in (
        (signal.SIGTERM, "train/*/metrics.jsonl", "stopped by SIGTERM"),
        (signal.SIGINT, "evaluate/*/server.log", "stopped by Ctrl-C"),
    ):
        log.write_text("")
        process = begin()
        assert wait_until(lambda under_way=under_way: any((study.root / "artifacts").glob(under_way)), 300), log.read_text()
        tree = [psutil.Process(process.pid), *kills.descendants(process.pid)]
        os.kill(process.pid, number)
        sent = time.monotonic()
        assert process.wait(60) == 128 + number
        seconds = time.monotonic() - sent
        assert seconds < GONE_S, log.read_text()
        assert not psutil.wait_procs(tree, timeout=GONE_S)[1]
        said = log.read_text()
        assert sentence in said
        assert "Traceback" not in said
