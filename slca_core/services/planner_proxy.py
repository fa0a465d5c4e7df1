"""RLTR's two stages behind one endpoint: a planner calls the tools; what calls nothing, the closing summary, another model writes.

An OpenAI-compatible proxy over two vLLM servers: a request goes to the planner, and where its answer calls no tool, the same one
goes to the summariser, who may not call any.

    python -m slca_core.services.planner_proxy --port 8902 --planner URL MODEL --summariser URL MODEL
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from httpx_aiohttp import HttpxAiohttpClient

from slca_core.conversation.chat import TAGS
from slca_core.processes.supervise import LOOPBACK, free_port, serve
from slca_core.services.client import TRANSPORT_ERRORS

if TYPE_CHECKING:
    from fastapi import FastAPI, Response

_CALL = TAGS[0]
# Path -> what of the request is other for the summariser, so that it calls nothing.
_FORBIDDING: Mapping[str, dict[str, Any]] = {
    "/v1/completions": {"bad_words": [_CALL]},
    "/v1/chat/completions": {"tool_choice": "none"},
}


def calls_a_tool(answer: Mapping[str, Any]) -> bool:
    """Whether a completion, of either kind, opens a tool call."""
    choice = answer["choices"][0]
    if "message" in choice:
        return bool(choice["message"].get("tool_calls")) or _CALL in (choice["message"].get("content") or "")
    return _CALL in choice["text"]


def create_app(
    planner: tuple[str, str], summariser: tuple[str, str], *, transport: httpx.AsyncBaseTransport | None = None
) -> FastAPI:
    """The proxy.

    Args:
        planner, summariser: root URL and the name of the served model.
        transport: answers in place of the network.
    """
    from fastapi import Body, FastAPI, Response

    many = httpx.Limits(max_connections=None)
    http = HttpxAiohttpClient(timeout=600, limits=many, trust_env=False, transport=transport)

    @asynccontextmanager
    async def closing(_: FastAPI) -> AsyncIterator[None]:
        yield
        await http.aclose()

    app = FastAPI(title="planner and summariser", lifespan=closing)

    async def ask(path: str, body: Mapping[str, Any], stage: tuple[str, str]) -> httpx.Response:
        url, model = stage
        return await http.post(url + path, json={**body, "model": model})

    async def answer(path: str, body: Mapping[str, Any]) -> Response:
        try:
            answered = await ask(path, body, planner)
            if answered.status_code == 200 and not calls_a_tool(answered.json()):
                answered = await ask(path, {**body, **_FORBIDDING[path]}, summariser)
        except TRANSPORT_ERRORS as error:
            return Response(f"planner or summariser went away: {type(error).__name__} {error}", status_code=502)
        except (LookupError, TypeError, RecursionError):
            return Response(f"planner or summariser answered with no completion: {answered.text[:200]}", status_code=502)
        return Response(answered.content, answered.status_code, media_type=answered.headers.get("content-type"))

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/v1/completions")
    async def complete(body: dict[str, Any] = Body()) -> Response:  # noqa: B008
        return await answer("/v1/completions", body)

    @app.post("/v1/chat/completions")
    async def chat(body: dict[str, Any] = Body()) -> Response:  # noqa: B008
        return await answer("/v1/chat/completions", body)

    return app


@contextmanager
def two_stage(planner: tuple[str, str], summariser: tuple[str, str], log: Path) -> Iterator[str]:
    """The proxy behind a loopback port until the block ends; yields its root URL."""
    port = free_port()
    argv = [sys.executable, "-m", __name__, "--port", str(port), "--planner", *planner, "--summariser", *summariser]
    with serve("proxy of planner and summariser", argv, port=port, log=log, timeout_s=120) as url:
        yield url


def main() -> None:
    import uvicorn

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    for stage in ("--planner", "--summariser"):
        parser.add_argument(stage, nargs=2, metavar=("URL", "MODEL"), required=True)
    options = parser.parse_args()
    app = create_app(tuple(options.planner), tuple(options.summariser))
    uvicorn.run(app, host=LOOPBACK, port=options.port, log_level="warning", timeout_keep_alive=3600)


if __name__ == "__main__":
    main()
