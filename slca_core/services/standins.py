"""Stand-ins for the frozen LLMs: one small OpenAI-compatible server, rule-based and deterministic.

They make the flow run where no one has a 235B mocker and a 120B judge. Their figures are not the paper's: every record, table and
run tag names them ("standin-mocker", "standin-judge").

    python -m slca_core.services.standins --port 8901
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterator
from html import unescape
from typing import TYPE_CHECKING, Any

from slca_core.dialogue import ToolCall
from slca_core.judge import Rating
from slca_core.services.mocking import mock_response

if TYPE_CHECKING:
    from fastapi import FastAPI

_DEFINITION = re.compile(r"<tool_definition>(.*?)</tool_definition>", re.DOTALL)
_REQUEST = re.compile(r"Request: <tool_call>(.*)</tool_call>")
_SECTION = "<{0}>\n(.*?)\n</{0}>"
_NUMBER = re.compile(r"^\d+\. ", re.MULTILINE)
_WORD = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]{3,}")
_COMMON = frozenset({"and", "for", "the"})


def answer_as_mocker(prompt: str) -> str:
    """Reads the definition and the last request from the mocker's prompt and answers by `mock_response`."""
    definition = _DEFINITION.search(prompt)
    request = json.loads(_REQUEST.findall(prompt)[-1])
    body = mock_response(json.loads(definition.group(1)) if definition else None, ToolCall.from_json(request))
    return f"<tool_response>\n{body}\n</tool_response>"


def answer_as_judge(prompt: str) -> str:
    """Applies the rubric of `rate` to the judge's prompt and answers in the judge's XML."""
    sections = [re.search(_SECTION.format(name), prompt, re.DOTALL) for name in ("question", "tool_responses", "final_response")]
    question, responses, final = (unescape(section.group(1)) if section else "" for section in sections)
    rating, reason = rate(question, responses, final)
    quality = f"<reasoning>{reason}</reasoning><rating>{rating}</rating>"
    return f"<response><response_quality>{quality}</response_quality></response>"


def rate(question: str, responses: str, final: str) -> tuple[Rating, str]:
    """The written rubric.

    very poor: under 10 characters. poor: quotes none of the responses' values. acceptable: quotes some of them.
    good: quotes all, but names no word or number of the question, or runs past 60 words. excellent: quotes all, on topic, short.
    """
    if len(final.strip()) < 10:
        return "very poor", "hardly any answer"
    values = list(_values(responses))
    quoted = sum(_mentions(final, value) for value in values)
    if not quoted:
        return "poor", "no value of the tool responses is in the answer"
    if quoted < len(values):
        return "acceptable", f"{quoted} of {len(values)} values are in the answer"
    on_topic = any(_mentions(final, word) for word in _WORD.findall(question) if word.lower() not in _COMMON)
    if on_topic and len(final.split()) <= 60:
        return "excellent", "all values, on the question, short"
    return "good", "all values, but off the question or long"


def _values(responses: str) -> Iterator[str]:
    """The leaf values of every numbered response that is JSON; an error message has none."""
    for response in _NUMBER.split(responses):
        try:
            yield from _leaves(json.loads(response))
        except json.JSONDecodeError:
            continue


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    elif isinstance(value, bool):
        yield "true" if value else "false"
    elif value is not None:
        yield str(value)


def _mentions(text: str, value: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(value)}(?!\w|\.\d)", text, re.IGNORECASE) is not None


MODELS: dict[str, Callable[[str], str]] = {"standin-mocker": answer_as_mocker, "standin-judge": answer_as_judge}


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
        prompt = body["messages"][-1]["content"]
        try:
            answer = answer_as(prompt)
        except (ValueError, LookupError) as error:
            raise HTTPException(400, f"{body['model']} could not read this prompt: {error}") from error
        tokens = {"prompt_tokens": len(prompt.split()), "completion_tokens": len(answer.split())}
        message = {"role": "assistant", "content": answer}
        return {
            "id": "standin",
            "object": "chat.completion",
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": tokens,
        }

    return app


def main() -> None:
    import uvicorn

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    uvicorn.run(create_app(), host=options.host, port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
