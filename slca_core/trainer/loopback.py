"""What a run opens on one machine listens on loopback alone, and its Ray asks for a token that nobody else has.

Ray would replace 127.0.0.1 by the host's address, gloo binds the interface of the host's name, and torch's store every interface
whatever host it is given; through each of these a stranger on the network could run code as the run's user.
"""

from __future__ import annotations

import errno
import ipaddress
import secrets
import socket
import sys
from typing import Any

from slca_core.processes.supervise import LOOPBACK

_INTERFACE = "lo0" if sys.platform == "darwin" else "lo"
# Of processes that talk to none on another machine; gloo, NCCL and vLLM read these when they open their first socket.
ENVIRONMENT = {"GLOO_SOCKET_IFNAME": _INTERFACE, "NCCL_SOCKET_IFNAME": _INTERFACE, "VLLM_HOST_IP": LOOPBACK}


def ray_environment() -> dict[str, str]:
    """Return variables that keep a Ray started here on loopback and make it ask for a new token; set them before Ray is imported.

    A login node is shared: loopback alone would leave the run open to the other users of the machine. What Ray starts inherits the
    token; it is in no file and in no argument list.
    """
    return {
        # Only as on Windows and macOS does Ray keep the loopback address it is given.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
    }


def keep_stores_on_loopback() -> None:
    """Make every `TCPStore` that is served at a loopback address listen there and nowhere else; other stores stay as they are.

    The entry point of a vLLM plugin too (pyproject.toml), so that each process of a vLLM server calls this before it opens a store.
    """
    from torch.distributed import TCPStore

    stock = TCPStore.__init__
    if getattr(stock, "on_loopback", False):
        return

    def listen(
        self: Any, host_name: str, port: int, world_size: int | None = None, is_master: bool = False, *args: Any, **kwargs: Any
    ):
        if is_master and kwargs.get("master_listen_fd") is None and (listener := _listener(host_name, port)):
            port = listener.getsockname()[1]
            kwargs["master_listen_fd"] = listener.detach()
        stock(self, host_name, port, world_size, is_master, *args, **kwargs)

    listen.on_loopback = True
    TCPStore.__init__ = listen


def _listener(host: str, port: int) -> socket.socket | None:
    """Return a socket that listens at a loopback host; None for another host, and where this process's store listens already."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        if not ipaddress.ip_address(address[0]).is_loopback:
            return None
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE or isinstance(error, socket.gaierror):
            return None  # The stock store shares its own server, or says what is wrong.
        raise
