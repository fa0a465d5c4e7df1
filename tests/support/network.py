"""What the processes of a run listen on, seen from outside while it goes on, and what a stranger gets who knocks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

import httpx
import psutil

FAMILIES = (socket.AF_INET, socket.AF_INET6)
# 127.0.0.2 is the same machine, and only a socket bound to every interface answers there.
WILDCARD_ONLY = "127.0.0.2"
AGENT = "dashboard/agent.py"
GCS = "gcs_server"
INTRUDED = Path(tempfile.gettempdir(), f"slca-intruder-{os.getpid()}")
JOB = {"entrypoint": f"touch {INTRUDED}"}
# Ray's client in a process of its own, since it reads its settings when it is imported.
ASK_FOR_NODES = """
import sys
from ray._raylet import GcsClient
try:
    print(len(GcsClient(address=sys.argv[1]).get_all_node_info()))
except Exception as error:
    print(type(error).__name__, error)
"""


def addresses_of_this_machine() -> list[str]:
    """Every address by which another process may reach this machine, loopback's own left out."""
    found = [one.address.partition("%")[0] for per in psutil.net_if_addrs().values() for one in per if one.family in FAMILIES]
    return [WILDCARD_ONLY, *(one for one in found if not ip_address(one).is_loopback and not ip_address(one).is_link_local)]


def answers(address: str, port: int) -> bool:
    """Whether anybody accepts a connection there."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as knock:
        knock.settimeout(2)
        return knock.connect_ex((address, port)) == 0


@dataclass
class Watch:
    """Looks at the run's processes until the block ends; knocks at Ray's doors the first time they are there.

    Attributes:
        seen: (command, address) of all that listened.
        reached: (address, port, command) that answered from outside loopback.
        jobs: status codes that a stranger got who submitted a job, from each HTTP server of the agent.
        nodes: what the cluster's store told a stranger.
        tokens: what Ray's store asks who talks to it for.
        leaked: command lines with such a token.
    """

    seen: set[tuple[str, str]] = field(default_factory=set)
    reached: set[tuple[str, int, str]] = field(default_factory=set)
    jobs: list[int] = field(default_factory=list)
    nodes: str = ""
    tokens: set[str] = field(default_factory=set)
    leaked: set[str] = field(default_factory=set)

    def __enter__(self) -> Watch:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        tried: set[int] = set()
        while not self._ended.wait(1):
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    command = " ".join(process.cmdline())
                    if GCS in command:
                        self.tokens.add(process.environ()["RAY_AUTH_TOKEN"])
                    self.leaked |= {command for token in self.tokens if token in command}
                    ports = [one.laddr for one in process.net_connections("inet") if one.status == psutil.CONN_LISTEN]
                    for ip, port in ports:
                        self.seen.add((command, ip))
                        if port not in tried:
                            tried.add(port)
                            self._knock(port, command)

    def _knock(self, port: int, command: str) -> None:
        self.reached |= {(address, port, command) for address in addresses_of_this_machine() if answers(address, port)}
        if GCS in command and not self.nodes:
            self.nodes = _ask_for_nodes(port)
        if AGENT in command:
            with suppress(httpx.HTTPError):
                url = f"http://127.0.0.1:{port}/api/job_agent/jobs/"
                self.jobs.append(httpx.post(url, json=JOB, trust_env=False, timeout=5).status_code)


def _ask_for_nodes(port: int) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    argv = [sys.executable, "-c", ASK_FOR_NODES, f"127.0.0.1:{port}"]
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False).stdout
