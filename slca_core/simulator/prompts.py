"""The mocker's prompt. With and without the tool definition it differs by that block alone (App. B, "prompt-unconstrained")."""

from __future__ import annotations

import json
import re
from typing import Any

from slca_core.conversation.dialogue import ToolCall
from slca_core.conversation.tags import blocks, tag_pair

_ROLE = """You stand in for an API server. A request arrives; you reply as the server would, with plausible data.

Reply with exactly one block and nothing around it:
<tool_response>
the response body, JSON wherever a real server would send JSON
</tool_response>

Never explain yourself. Never write <tool_call>. Never ask a question back. Never mention that the data is made up.

Request: <tool_call>{"name": "calculator-add", "arguments": {"a": 19, "b": 23}}</tool_call>
<tool_response>
{"result": 42}
</tool_response>

Request: <tool_call>{"name": "weather-current", "arguments": {"city": "Oslo"}}</tool_call>
<tool_response>
{"city": "Oslo", "temperature_c": -3, "sky": "light snow"}
</tool_response>

Request: <tool_call>{"name": "search-web", "arguments": {"query": "tallest tree"}}</tool_call>
<tool_response>
{"results": [{"title": "Hyperion", "snippet": "A coast redwood of 116 metres."}]}
</tool_response>
"""

_DEFINITION = """
The called tool is defined as:
<tool_definition>
{definition}
</tool_definition>
"""

_REQUEST = """
Request: <tool_call>{request}</tool_call>
"""

# A tag inside the caller's JSON would end the definition or the request; escaped, it is the same JSON.
_TAG_START = re.compile(r"<(?=/?(?:tool_call|tool_response|tool_definition)>)")
_RESPONSE, _CALL = tag_pair("tool_response"), tag_pair("tool_call")


def mocker_prompt(call: ToolCall, definition: dict[str, Any] | None) -> str:
    """The request to the mocker; `definition` None leaves the tool-definition block out (w/o SGLS)."""
    block = "" if definition is None else _DEFINITION.replace("{definition}", _to_json(definition, indent=2))
    return _ROLE + block + _REQUEST.replace("{request}", _to_json(call.to_json()))


def extract_response(answer: str) -> str:
    """The body of the mocker's answer: last response block, else last call block, else the text after a tag left open, else all."""
    for pair in (_RESPONSE, _CALL):
        if found := list(blocks(answer, *pair)):
            return found[-1].body.strip()
    for tag in ("<tool_response>", "<tool_call>"):
        if tag in answer:
            return answer.rpartition(tag)[2].strip()
    return answer.strip()


def has_response(answer: str) -> bool:
    """Whether the mocker kept to its contract, one whole response block at least; a cut answer does not."""
    return any(blocks(answer, *_RESPONSE))


def _to_json(value: dict[str, Any], indent: int | None = None) -> str:
    return _TAG_START.sub(r"\\u003c", json.dumps(value, ensure_ascii=False, indent=indent))
