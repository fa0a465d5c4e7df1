"""Stand-ins for the frozen LLMs: one small OpenAI-compatible server, rule-based and deterministic.

They make the flow run where no one has a 235B mocker, a 120B judge and a user simulator. Their figures are not the paper's: every
record, table and run tag names them ("standin-mocker", "standin-judge", "standin-checker", "standin-user"). What they answer is in
`mocker`, `judge` and `user`; here each reads the request of its role.

    python -m slca_core.standins.server --port 8901
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping
from html import unescape
from typing import TYPE_CHECKING, Any

from slca_core.conversation.dialogue import ToolCall
from slca_core.conversation.tags import blocks, tag_pair
from slca_core.standins.judge import is_complete, is_solved, rate
from slca_core.standins.mocker import mock_response
from slca_core.standins.user import next_message

if TYPE_CHECKING:
    from fastapi import FastAPI

_DEFINITION = tag_pair("tool_definition")
_REQUEST = re.compile(r"Request: <tool_call>(.*)</tool_call>")
_RESPONSE = re.compile(r"^   response: (.*(?:\n      .*)*)", re.MULTILINE)
_NUMBER = re.compile(r"^\d+\. ", re.MULTILINE)


def answer_as_mocker(prompt: str) -> str:
    """Reads the definition and the last request from the mocker's prompt and answers by `mock_response`."""
    definition = next(blocks(prompt, *_DEFINITION), None)
    request = json.loads(_REQUEST.findall(prompt)[-1])
    body = mock_response(json.loads(definition.body) if definition else None, ToolCall.from_json(request))
    return f"<tool_response>\n{body}\n</tool_response>"


def answer_as_judge(prompt: str) -> str:
    """A rating by `rubrics.rate`, or the verdict of ToolPO's outcome judge by `rubrics.is_solved`, as the prompt asks."""
    if "<verdict>" in prompt:
        question, calls, final = (_section(prompt, name) for name in ("question", "calls", "final_response"))
        verdict = is_solved(question or "", None if calls is None else _responses(calls), final or "")
        return f"<verdict>{verdict}</verdict>"
    question, listed, final = (_section(prompt, name) or "" for name in ("question", "tool_responses", "final_response"))
    rating, reason = rate(question, _NUMBER.split(listed), final)
    quality = f"<reasoning>{reason}</reasoning><rating>{rating}</rating>"
    return f"<response><response_quality>{quality}</response_quality></response>"


def answer_as_checker(prompt: str) -> str:
    """A completeness vote by `rubrics.is_complete`."""
    return str(int(is_complete(_responses(_section(prompt, "calls") or ""))))


def _section(prompt: str, name: str) -> str | None:
    """The prompt's section between the tags of `name`, as it was before it was escaped."""
    found = next(blocks(prompt, re.compile(f"<{name}>\n"), re.compile(f"\n</{name}>")), None)
    return unescape(found.body) if found else None


def _responses(calls: str) -> list[str]:
    return _RESPONSE.findall(calls)


def answer_as_user(body: Mapping[str, Any]) -> dict[str, Any]:
    """The message of tau2-bench's customer by `customer.next_message`: text, or calls of his tools."""
    said = next_message(body["messages"], body.get("tools") or ())
    if isinstance(said, str):
        return {"content": said}
    # A call's identity follows from its place, so that the same conversation is the same bytes.
    place = len(body["messages"])
    calls = [
        {"id": f"call-{place}-{at}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for at, name in enumerate(said)
    ]
    return {"content": None, "tool_calls": calls}


def _to_prompt(answer: Callable[[str], str]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    return lambda body: {"content": answer(body["messages"][-1]["content"])}


# Model -> the message it answers a request's body with.
MODELS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "standin-mocker": _to_prompt(answer_as_mocker),
    "standin-judge": _to_prompt(answer_as_judge),
    "standin-checker": _to_prompt(answer_as_checker),
    "standin-user": answer_as_user,
}


def create_app() -> FastAPI:
    """The FastAPI application: /health, /v1/models and /v1/chat/completions."""
    from fastapi import Body, FastAPI, HTTPException

    app = FastAPI(title="SLCA-GRPO stand-ins")

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": name, "object": "model"} for name in MODELS]}

    @app.post("/v1/chat/completions")
    async def complete(body: dict[str, Any] = Body()) -> dict[str, Any]:  # noqa: B008
        answer_as = MODELS.get(body.get("model", ""))
        if answer_as is None:
            raise HTTPException(404, f"model {body.get('model')!r} is not served here; served: {', '.join(MODELS)}")
        try:
            answer = answer_as(body)
        except (ValueError, LookupError) as error:
            raise HTTPException(400, f"{body['model']} could not read this prompt: {error}") from error
        read = sum(len(str(message.get("content") or "").split()) for message in body["messages"])
        written = len((answer["content"] or "").split())
        ending = "tool_calls" if "tool_calls" in answer else "stop"
        return {
            "id": "standin",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [{"index": 0, "message": {"role": "assistant", **answer}, "finish_reason": ending}],
            "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written},
        }

    return app


def main() -> None:
    import uvicorn

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    # A connection that is closed just as it is used costs a request; clients keep theirs for as long as a training.
    uvicorn.run(create_app(), host=options.host, port=options.port, log_level="warning", timeout_keep_alive=3600)


if __name__ == "__main__":
    main()
