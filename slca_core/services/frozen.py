"""The frozen services by role: what bears on their answers, and where they answer while a block runs.

An endpoint has its own URL; stand-ins are one small server for all their roles; a vLLM server is started, watched and stopped here.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

from slca_core import secrets
from slca_core.config import CpuProfile, GpuProfile, LocalLauncher, ServiceConfig, ServicesConfig
from slca_core.judges.completeness import parse_vote
from slca_core.judges.outcome import parse_verdict
from slca_core.judges.summary import parse_rating
from slca_core.processes.leftovers import own_folder
from slca_core.processes.supervise import LOOPBACK, free_port, keep_serving, serve
from slca_core.records.fingerprint import code_digest
from slca_core.services.cache import AnswerCache
from slca_core.services.client import ChatClient, Line, Lines

STANDIN_CODE_KEY = "standin_code"
_STANDIN = ("slca_core.conversation.dialogue", "slca_core.standins.server")
_RATING = (
    "slca_core.judges.summary",
    "slca_core.standins.judge",
    "slca_core.simulator",
    "slca_core.judges.transcript",
    "slca_core.judges.outcome",
)
STANDIN_CODE = {
    "standin-mocker": (*_STANDIN, "slca_core.standins.mocker", "slca_core.simulator"),
    "standin-judge": (*_STANDIN, *_RATING),
    "standin-checker": (*_STANDIN, *_RATING, "slca_core.judges.completeness"),
    "standin-user": (*_STANDIN, "slca_core.standins.user"),
}


def identity(service: ServiceConfig) -> dict[str, Any]:
    """What of a service bears on its answers: model and decoding, the weights we serve or a stand-in's code; not where it runs."""
    values: dict[str, Any] = {"model": service.model, "temperature": service.temperature, "max_tokens": service.max_tokens}
    # As records have them: the value of a secret is no part of what a service is.
    given = secrets.map_options(service.extra_body, lambda _, text: str(secrets.reference_to(text)))
    if extra := secrets.without_references(given):
        values["extra_body"] = extra
    if service.managed == "standin":
        values[STANDIN_CODE_KEY] = code_digest(*STANDIN_CODE.get(service.model, _STANDIN))
    if service.managed == "vllm" and service.deployment:
        values |= {"checkpoint": service.deployment.checkpoint, "dtype": service.deployment.dtype}
    return values


def cache_path(root: Path) -> Path:
    """Where a study's state folder keeps the services' answers."""
    return root.resolve() / "cache" / "answers.sqlite"


def open_cache(services: ServicesConfig, root: Path, machine: CpuProfile | GpuProfile) -> AnswerCache | None:
    """The answers below `root`; None for a study that keeps none."""
    if not services.cache:
        return None
    one_node = isinstance(machine, CpuProfile) or machine.actor_nodes == 1
    return AnswerCache(cache_path(root), one_host=one_node and isinstance(machine.launcher, LocalLauncher))


class Clients:
    """The clients of some roles and the cache they share. Make one per event loop; `close` it at the end.

    Args:
        urls: role -> URL of its /v1 root.
        cache: None asks for every answer.
        shares: how many such sets of clients a run has at work, which share what each service takes at once.
        options: of each `ChatClient`.
    """

    def __init__(
        self,
        services: ServicesConfig,
        urls: Mapping[str, str],
        cache: AnswerCache | None,
        *,
        shares: int = 1,
        **options: Any,
    ) -> None:
        self._cache = cache
        self._by_role = {
            role: ChatClient(
                role=role,
                url=url,
                config=_share(services.of(role), shares),
                cache=cache,
                identity=identity(services.of(role)),
                reads=READS.get(role, lambda _: True),
                **options,
            )
            for role, url in urls.items()
        }

    def lines(self, asker: str, *, mocker: str = "mocker", one_world: bool = False) -> Lines:
        """The lines of one rollout.

        Args:
            asker: the rollout's identity. It tells the same question apart where sampling would answer it otherwise each time, so
                that samples of one prompt stay different; at temperature 0 the question alone counts.
            mocker: the role that mocks.
            one_world: the same call has the same response whoever makes it, so that every checkpoint meets the same world.
        """
        checker = self._line("checker", asker) if "checker" in self._by_role else None
        mocker_asker = None if one_world else asker
        return Lines(mocker=self._line(mocker, mocker_asker), judge=self._line("judge", asker), checker=checker)

    def _line(self, role: str, asker: str | None) -> Line:
        client = self._by_role[role]
        return client.line(asker if client.config.temperature > 0 else None)

    async def close(self) -> None:
        for client in self._by_role.values():
            await client.close()
        if self._cache:
            await self._cache.close()


def _share(service: ServiceConfig, shares: int) -> ServiceConfig:
    return service.model_copy(update={"concurrency": max(1, service.concurrency // shares)})


# Role -> whether an answer can be read; one that cannot is not kept.
READS: dict[str, Callable[[str], bool]] = {
    "judge": lambda answer: parse_rating(answer) is not None or parse_verdict(answer) is not None,
    "checker": lambda answer: parse_vote(answer) is not None,
}


class Serving:
    """Roles -> URLs of the /v1 roots. What is managed here starts when it is first asked for, by whatever thread, and ends with
    the block.
    """

    def __init__(
        self,
        services: ServicesConfig,
        machine: CpuProfile | GpuProfile,
        stack: ExitStack,
        *,
        root: Path,
        logs: Path,
        say: Callable[[str], None],
    ) -> None:
        self.services, self.machine, self.root, self.logs, self.say = services, machine, root, logs, say
        self._stack = stack
        self._urls: dict[str, str] = {}
        self.key_files: dict[str, Path] = {}
        self._starting = threading.Lock()

    @property
    def settings(self) -> ServicesConfig:
        """The services as they are to be asked once `urls` has started them: with the keys of those that other machines reach.

        A key is named by a variable that this process has; a process elsewhere finds its value in the file `key_files` names.
        """
        keyed = {
            role: self.services.of(role).model_copy(update={"api_key": f"${{env:{_key_variable(role)}}}"})
            for role in self._urls
            if _key_variable(role) in self.key_files
        }
        return self.services.model_copy(update=keyed)

    def urls(self, roles: Iterable[str]) -> dict[str, str]:
        with self._starting:
            return {role: self._url(role) for role in roles}

    def _url(self, role: str) -> str:
        service = self.services.of(role)
        if service.url is not None:
            return service.url
        started = "stand-ins" if service.managed == "standin" else role
        if started not in self._urls:
            serving = _standins(self.logs) if service.managed == "standin" else self._vllm(role, service)
            self._urls[started] = self._stack.enter_context(serving)
        return self._urls[started]

    @contextmanager
    def _vllm(self, role: str, service: ServiceConfig) -> Iterator[str]:
        # Only what serves by vLLM needs to know how this project runs it.
        from slca_core.trainer.serve import frozen_server

        everywhere = isinstance(self.machine, GpuProfile) and self.machine.actor_nodes > 1
        host, port = (socket.gethostname() if everywhere else LOOPBACK), free_port()
        argv, env = frozen_server(service, self.machine, self.root, host="0.0.0.0" if everywhere else LOOPBACK, port=port)
        if everywhere:
            env["VLLM_API_KEY"] = self._stack.enter_context(self._key(role))
        with keep_serving(
            f"vLLM server of the {role.replace('_', ' ')}",
            argv,
            port=port,
            log=self.logs / f"{role}.log",
            env={**os.environ, **env},
            timeout_s=3600,
            say=self.say,
            of_run=True,
        ):
            yield f"http://{host}:{port}/v1"

    @contextmanager
    def _key(self, role: str) -> Iterator[str]:
        """A key of this run alone for a server that others can reach: in the environment, and in a private file for other nodes."""
        variable, key = _key_variable(role), token_urlsafe(32)
        path = own_folder(self.root / "run") / variable
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(key)
        os.environ[variable], self.key_files[variable] = key, path
        try:
            yield key
        finally:
            del os.environ[variable], self.key_files[variable]
            path.unlink(missing_ok=True)


def _key_variable(role: str) -> str:
    return f"SLCA_KEY_{role.upper()}"


def read_keys(key_files: Mapping[str, Path]) -> None:
    """Put the keys of services that are served on another machine into the environment, where their clients look."""
    os.environ.update({variable: path.read_text() for variable, path in key_files.items() if variable not in os.environ})


@contextmanager
def serve_frozen(
    services: ServicesConfig,
    machine: CpuProfile | GpuProfile,
    *,
    root: Path,
    logs: Path,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[Serving]:
    """The services until the block ends."""
    with ExitStack() as stack:
        yield Serving(services, machine, stack, root=root, logs=logs, say=say)


@contextmanager
def _standins(logs: Path) -> Iterator[str]:
    port = free_port()
    argv = [sys.executable, "-m", "slca_core.standins.server", "--port", str(port)]
    with serve("stand-in server", argv, port=port, log=logs / "standins.log", timeout_s=120, of_run=True) as root:
        yield f"{root}/v1"
