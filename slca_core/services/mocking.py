"""What the stand-in mocker answers: values of the kinds a tool's description promises, fixed by the call.

A description that ends "Returns temp (integer), sky (string)." gives {"temp": 17, "sky": "amber"}; any other tool, or none, gives
{"result": 42}. The same call always gets the same answer.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

from slca_core.dialogue import ToolCall

_RETURNS = re.compile(r"Returns ((?:\w+ \((?:integer|number|string|boolean)\)(?:, )?)+)")
_FIELD = re.compile(r"(\w+) \((\w+)\)")
# fmt: off
_WORDS = (
    "amber", "birch", "cedar", "coral", "delta", "ember", "fern", "flint", "grove", "harbor", "iris", "ivory",
    "jade", "juniper", "laurel", "linen", "maple", "marble", "meadow", "mint", "ocean", "olive", "opal", "orchid",
    "pearl", "pine", "plum", "quartz", "raven", "river", "robin", "sable", "sage", "sierra", "slate", "spruce",
    "stone", "sunset", "timber", "topaz", "tulip", "velvet", "violet", "willow", "winter",
)
# fmt: on

_VALUES: dict[str, Callable[[int], Any]] = {
    "integer": lambda seed: seed % 100,
    "number": lambda seed: seed % 1000 / 10,
    "string": lambda seed: _WORDS[seed % len(_WORDS)],
    "boolean": lambda seed: seed % 2 == 0,
}


def returned_fields(tool: dict[str, Any] | None) -> dict[str, str]:
    """Field -> kind as the description promises; {"result": "integer"} where it promises nothing."""
    description = (tool or {}).get("function", tool or {}).get("description") or ""
    promise = _RETURNS.search(description)
    return dict(_FIELD.findall(promise.group(1))) if promise else {"result": "integer"}


def mock_response(tool: dict[str, Any] | None, call: ToolCall) -> str:
    """The answer to `call` as one line of JSON; `tool` is its definition in OpenAI form, or None if the mocker is not shown it."""
    identity = json.dumps(call.to_json(), sort_keys=True, ensure_ascii=False)
    answer = {
        name: _VALUES[kind](int.from_bytes(hashlib.sha256(f"{identity}/{name}".encode()).digest()[:8]))
        for name, kind in returned_fields(tool).items()
    }
    return json.dumps(answer, ensure_ascii=False)
