"""A training driver as a child process: watched while it runs, and its end read as a value or a sentence."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from slca_core.errors import DataError, ServiceError
from slca_core.trainer.launch import MAX_RAY_PATH, environment, run_module


@pytest.fixture
def launch(tmp_path):
    """(source, argv, on_poll) -> the log of a module of that source, once it has run."""
    log = tmp_path / "logs" / "run.log"

    def run(source: str, *argv: str, on_poll=lambda: None) -> str:
        (tmp_path / "slca_toy_driver.py").write_text(source)
        env = {"PYTHONPATH": str(tmp_path)}
        run_module("slca_toy_driver", argv, log=log, env=env, on_poll=on_poll, poll_s=0.05)
        return log.read_text()

    return run


def test_a_module_runs_to_its_end_with_its_arguments_and_both_outputs_in_the_log(launch):
    log = launch("import sys; print(sys.argv[1:]); print('warned', file=sys.stderr)", "--key", "value")
    assert "['--key', 'value']" in log
    assert "warned" in log


def test_it_is_watched_while_it_runs_and_once_more_after_its_end(launch, tmp_path):
    marker, seen = tmp_path / "written", []
    source = f"import time; time.sleep(0.5); open({str(marker)!r}, 'w').close()"
    launch(source, on_poll=lambda: seen.append(marker.exists()))
    assert seen[0] is False
    assert seen[-1] is True


def test_a_failure_that_left_a_sentence_of_ours_gives_that_sentence(launch):
    source = """
print("ray.exceptions.RayTaskError(DataError): ray::trainer.fit()")
print("  File 'x.py', line 3")
print("slca_core.errors.DataError: Rows were expected, none were found.")
print("more output")
raise SystemExit(1)
"""
    with pytest.raises(DataError, match=r"^Rows were expected, none were found\. \(log: .*run\.log\)$"):
        launch(source)


def test_an_error_of_ours_in_the_driver_itself_is_such_a_sentence(launch):
    source = "from slca_core.errors import ServiceError\nraise ServiceError('The judge at http://j went away.')"
    with pytest.raises(ServiceError, match=r"^The judge at http://j went away\. \(log:"):
        launch(source)


def test_any_other_failure_gives_its_code_and_the_end_of_the_log(launch):
    source = "for number in range(100): print('line', number)\nraise SystemExit(3)"
    with pytest.raises(ServiceError, match=r"slca_toy_driver ended with code 3") as caught:
        launch(source)
    assert "line 99" in str(caught.value)
    assert "line 50" not in str(caught.value)


def test_a_failure_while_watching_ends_the_process(launch, tmp_path):
    pid = tmp_path / "pid"

    def watch() -> None:
        if pid.exists() and pid.read_text():
            raise KeyboardInterrupt

    source = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(300)"
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        launch(source, on_poll=watch)
    assert time.monotonic() - started < 60
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_all_state_of_the_training_stack_lies_below_the_root(tmp_path):
    folders = [value for value in environment(tmp_path).values() if value.startswith("/")]
    assert len(folders) >= 7
    assert all(Path(folder).is_relative_to(tmp_path) for folder in folders)


@pytest.mark.parametrize(("root", "kept"), [("/r", True), ("/" + "r" * MAX_RAY_PATH, False)])
def test_ray_keeps_its_sockets_below_the_root_where_their_paths_are_short_enough(root, kept):
    assert ("RAY_TMPDIR" in environment(Path(root))) is kept


def test_nothing_calls_home(tmp_path):
    variables = environment(tmp_path)
    assert variables["RAY_USAGE_STATS_ENABLED"] == "0"
    assert variables["VLLM_NO_USAGE_STATS"] == variables["HF_HUB_OFFLINE"] == variables["DO_NOT_TRACK"] == "1"


@pytest.mark.parametrize(
    ("source", "kind", "sentence"),
    [
        ("print('OSError: [Errno 28] No space left on device'); raise SystemExit(1)", DataError, r"^No space left on the disk of "),
        ("import os; os.kill(os.getpid(), 9)", ServiceError, r"was killed, .* memory runs out\. .*machine\.parallel=1"),
        ("raise MemoryError('Cannot allocate memory')", ServiceError, r"memory runs out\. .*machine\.parallel=1"),
        ("print('ray.exceptions.OutOfMemoryError: Task was killed'); raise SystemExit(1)", ServiceError, r"machine\.parallel=1"),
        (
            "raise RuntimeError('CUDA out of memory. Tried to allocate 2 GiB')",
            ServiceError,
            r"the GPU's memory.*machine\.gpu_memory",
        ),
    ],
    ids=["disk", "killed", "memory", "ray's monitor", "gpu"],
)
def test_a_fault_that_the_log_shows_is_a_sentence_with_advice_and_no_traceback(launch, source, kind, sentence):
    with pytest.raises(kind, match=sentence) as caught:
        launch(source)
    assert "Traceback" not in str(caught.value)
    assert str(caught.value).endswith("run.log)")
