"""A fork behaves as the interpreter it stands for: arguments, streams, environment, exit codes, signals, its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from slca_core.processes.forkserver import ForkServer
from tests.support.waiting import is_gone, wait_until


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = ForkServer(["colorsys"], tmp_path_factory.mktemp("fork"), {"OF_THE_SERVER": "1"})
    yield server
    server.close()


def run(server: ForkServer, *argv: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([str(server.python), *argv], capture_output=True, text=True, timeout=60, **options)


def start(server: ForkServer, code: str) -> tuple[subprocess.Popen, int]:
    """The process that stands for a fork, and the fork's own id, once it runs."""
    process = subprocess.Popen(
        [str(server.python), "-c", f"import os; print(os.getpid(), flush=True)\n{code}"], stdout=subprocess.PIPE
    )
    return process, int(process.stdout.readline())


def test_modules_are_there_already(server):
    assert run(server, "-c", "import sys; print('colorsys' in sys.modules, 'ray' in sys.modules)").stdout == "True False\n"


def test_arguments_environment_and_folder_are_the_callers(server, tmp_path):
    code = "import json, os, sys; print(json.dumps([sys.argv, os.getcwd(), os.environ.get('OF_THE_SERVER'), os.environ['MINE']]))"
    found = run(server, "-u", "-c", code, "a", "b c", cwd=tmp_path, env={**os.environ, "MINE": "yes"})
    assert json.loads(found.stdout) == [["-c", "a", "b c"], str(tmp_path), None, "yes"]


def test_streams_are_the_callers(server):
    found = run(server, "-c", "import sys; print(sys.stdin.read()); print('oh', file=sys.stderr)", input="hello")
    assert (found.stdout, found.stderr) == ("hello\n", "oh\n")


def test_a_module_and_a_script_run_as_main(server, tmp_path):
    assert "usage" in run(server, "-m", "json.tool", "--help").stdout
    script = tmp_path / "script.py"
    script.write_text("import sys, beside\nif __name__ == '__main__': print(sys.argv[1], beside.__name__, __file__)")
    (tmp_path / "beside.py").touch()
    assert run(server, str(script), "x").stdout == f"x beside {script}\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [("pass", 0), ("raise SystemExit(7)", 7), ("raise SystemExit('no')", 1), ("1 / 0", 1), ("import os; os._exit(3)", 3)],
)
def test_exit_codes(server, code, expected):
    assert run(server, "-c", code).returncode == expected


def test_an_exception_is_shown(server):
    assert "ZeroDivisionError" in run(server, "-c", "1 / 0").stderr


def test_functions_registered_for_the_end_run(server):
    assert run(server, "-c", "import atexit; atexit.register(print, 'end')").stdout == "end\n"


def test_descriptors_are_inherited_under_their_numbers(server):
    reading, writing = os.pipe()
    run(server, "-c", f"import os; os.write({writing}, b'here')", pass_fds=[writing])
    os.close(writing)
    assert os.read(reading, 10) == b"here"
    os.close(reading)


def test_forks_spawn_forks(server, tmp_path):
    script = tmp_path / "spawns.py"
    script.write_text(
        textwrap.dedent("""
            import multiprocessing, sys
            def child(): print("colorsys" in sys.modules, flush=True)
            if __name__ == "__main__":
                process = multiprocessing.get_context("spawn").Process(target=child)
                process.start(); process.join(); sys.exit(process.exitcode)
        """)
    )
    found = run(server, str(script))
    assert (found.returncode, found.stdout) == (0, "True\n")


def test_a_fork_bears_the_name_of_what_it_runs(server):
    process, fork = start(server, "import time; time.sleep(60)")
    assert "time.sleep(60)" in " ".join(psutil.Process(fork).cmdline())
    process.kill()
    process.wait()


def test_random_numbers_differ(server):
    code = "import random; print(random.random())"
    assert run(server, "-c", code).stdout != run(server, "-c", code).stdout


def test_a_signal_reaches_the_fork_and_its_end_the_caller(server):
    process, fork = start(server, "import time; time.sleep(60)")
    process.terminate()
    assert process.wait(20) == -signal.SIGTERM
    assert wait_until(lambda: is_gone(fork), 20)


def test_a_fork_may_handle_its_signal(server):
    process, _ = start(
        server, "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(5)); print(flush=True); time.sleep(60)"
    )
    process.stdout.readline()
    process.terminate()
    assert process.wait(20) == 5


def test_a_killed_fork_is_seen(server):
    process, fork = start(server, "import time; time.sleep(60)")
    os.kill(fork, signal.SIGKILL)
    assert process.wait(20) == -signal.SIGKILL


def test_a_fork_ends_with_whoever_stands_for_it(server):
    process, fork = start(server, "import time; time.sleep(60)")
    process.kill()
    process.wait(20)
    assert wait_until(lambda: is_gone(fork), 20)


def test_what_a_fork_leaves_running_ends_with_it(server):
    process, _ = start(server, "import subprocess; print(subprocess.Popen(['sleep', '60']).pid, flush=True)")
    left = int(process.stdout.readline())
    assert process.wait(20) == 0
    assert wait_until(lambda: is_gone(left), 20)


def test_closing_ends_the_forks_and_later_commands_run_plainly(tmp_path):
    server = ForkServer([], tmp_path, {})
    process, fork = start(server, "import time; time.sleep(60)")
    command = server.python.read_text()
    server.close()
    assert process.wait(20) != 0
    assert wait_until(lambda: is_gone(fork), 20)
    assert not server.python.exists()
    plain = tmp_path / "plain"
    plain.write_text(command)
    code = "import sys; print(sys.executable)"
    assert subprocess.run(["sh", str(plain), "-c", code], capture_output=True, text=True).stdout == f"{sys.executable}\n"


def test_everything_ends_with_the_process_that_made_the_server(tmp_path):
    code = textwrap.dedent(f"""
        import subprocess, sys, time
        from pathlib import Path
        from slca_core.processes.forkserver import ForkServer
        server = ForkServer([], Path({str(tmp_path)!r}), {{}})
        subprocess.Popen([str(server.python), "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(60)"])
        time.sleep(60)
    """)
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
    fork = int(owner.stdout.readline())
    servers = [child.pid for child in psutil.Process(owner.pid).children()]
    owner.kill()
    owner.wait()
    assert wait_until(lambda: all(is_gone(pid) for pid in (fork, *servers)), 20)


@pytest.mark.parametrize(
    "end", [ForkServer.close, lambda server: os.kill(server._process.pid, signal.SIGKILL)], ids=["closed", "killed"]
)
def test_what_a_fork_has_forked_ends_with_the_server_even_if_it_will_not(tmp_path, end):
    server = ForkServer([], tmp_path, {})
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(os.getpid(), flush=True); time.sleep(300)"
    process, _ = start(server, f"import subprocess, sys, time\nif os.fork() == 0:\n    {stubborn}\ntime.sleep(300)")
    child = int(process.stdout.readline())
    end(server)
    assert wait_until(lambda: is_gone(child), 30)
    process.wait(30)
    server.close()
