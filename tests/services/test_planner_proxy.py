"""Planner and summariser behind one endpoint: who answers what."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import aiohttp
import httpx
import pytest

from slca_core.services.planner_proxy import create_app

CALL = '<tool_call>\n{"name": "w", "arguments": {}}\n</tool_call>'


def text(content: str) -> dict[str, Any]:
    return {"choices": [{"text": content, "token_ids": [1], "finish_reason": "stop"}]}


def message(content: str | None, *calls: str) -> dict[str, Any]:
    made = [{"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}} for name in calls]
    return {"choices": [{"message": {"role": "assistant", "content": content, "tool_calls": made}}]}


def ask(path: str, body: dict, planner: Callable[[], httpx.Response]) -> tuple[httpx.Response, list[tuple[str, dict]]]:
    """The proxy's answer, and what each stage was asked; the summariser answers in its own name."""
    asked: list[tuple[str, dict]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((request.url.host, json.loads(request.content)))
        own = text("a summary") if request.url.path == "/v1/completions" else message("a summary")
        return planner() if request.url.host == "planner" else httpx.Response(200, json=own)

    app = create_app(("http://planner", "p"), ("http://sft", "s"), transport=httpx.MockTransport(answer))

    async def send() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://proxy") as http:
            return await http.post(path, json=body)

    return asyncio.run(send()), asked


@pytest.mark.parametrize(
    ("path", "planned"),
    [
        ("/v1/completions", text(f"I look it up.\n{CALL}")),
        ("/v1/completions", text("<tool_call>\nbroken")),
        ("/v1/chat/completions", message(None, "w")),
        ("/v1/chat/completions", message("<tool_call>\nbroken")),
    ],
)
def test_what_opens_a_call_is_the_planners(path, planned):
    answer, asked = ask(path, {"model": "x", "seed": 7}, lambda: httpx.Response(200, json=planned))
    assert answer.json() == planned
    assert asked == [("planner", {"model": "p", "seed": 7})]


@pytest.mark.parametrize(
    ("path", "planned", "forbids"),
    [
        ("/v1/completions", text("The weather is fine."), {"bad_words": ["<tool_call>"]}),
        ("/v1/chat/completions", message("The weather is fine."), {"tool_choice": "none"}),
    ],
)
def test_what_calls_nothing_the_summariser_writes_of_the_same_request_and_may_not_call(path, planned, forbids):
    answer, asked = ask(path, {"model": "x", "seed": 7, "tool_choice": "auto"}, lambda: httpx.Response(200, json=planned))
    assert "a summary" in answer.text
    assert [host for host, _ in asked] == ["planner", "sft"]
    assert asked[1][1] == {"seed": 7, "tool_choice": "auto", "model": "s", **forbids}


def test_a_refusal_of_the_planner_is_passed_on_and_one_that_is_gone_is_an_error_of_the_server():
    refused, asked = ask("/v1/completions", {}, lambda: httpx.Response(400, json={"error": "too long"}))
    assert (refused.status_code, refused.json(), len(asked)) == (400, {"error": "too long"}, 1)

    def gone() -> httpx.Response:
        raise httpx.ConnectError("refused")

    assert ask("/v1/completions", {}, gone)[0].status_code == 502


@pytest.mark.parametrize("content", [b"<html>", b"{}", b"[]", b'{"choices": []}', b"[" * 100_000 + b"]" * 100_000])
def test_an_answer_that_is_no_completion_is_an_error_of_the_server(content):
    assert ask("/v1/completions", {}, lambda: httpx.Response(200, content=content))[0].status_code == 502


def test_a_planner_that_speaks_no_http_is_an_error_of_the_server():
    def nonsense() -> httpx.Response:
        raise aiohttp.ClientPayloadError("half")

    assert ask("/v1/completions", {}, nonsense)[0].status_code == 502
