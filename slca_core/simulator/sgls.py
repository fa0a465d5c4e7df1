"""The simulator in its two conditions.

SGLS: deterministic validation first, then a mocker that sees the tool's schema. Unconstrained (w/o SGLS): every call goes to the
mocker, which sees the call alone.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from slca_core.conversation.dialogue import ToolCall
from slca_core.conversation.schemas import ToolSet, Violation
from slca_core.errors import AnswerCut, PromptTooLong
from slca_core.simulator.prompts import extract_response, has_response, mocker_prompt

EMPTY_RESPONSE = "(empty response)"
MALFORMED_CALL = "The tool call could not be read: one JSON object with name and arguments was expected between the tags."
CALL_TOO_LONG = "The tool call could not be answered: it is too long for the server."
_ERROR = re.compile(
    r"Tool '.*' (?:not found in the current available tools set\."
    r"|missing required parameters: \[|got arguments of the wrong type: \[)",
    re.DOTALL,
)

Ask = Callable[[str], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Observation:
    """What one call got: the text, whether it was refused, and whether the mocker left its answer without a whole block."""

    text: str
    refused: bool = False
    broken: bool = False


def validation_error(call: ToolCall, tools: ToolSet) -> str | None:
    """Stage 1: the fixed error string of a call that cannot be served, None for a valid one.

    The first that applies: no such tool, required parameters missing, arguments the schema refuses.
    """
    violations = tools.validate(call)
    if not violations:
        return None
    if any(violation.kind == "unknown-tool" for violation in violations):
        return f"Tool '{call.name}' not found in the current available tools set."
    if missing := [violation for violation in violations if violation.kind == "missing"]:
        return f"Tool '{call.name}' missing required parameters: [{_places(missing)}]"
    return f"Tool '{call.name}' got arguments of the wrong type: [{_places(violations)}]"


def is_error(text: str) -> bool:
    """Whether an observation is one of the simulator's fixed errors."""
    return text in (MALFORMED_CALL, CALL_TOO_LONG) or _ERROR.match(text) is not None


async def simulate(call: ToolCall, tools: ToolSet, ask: Ask, condition: Literal["sgls", "unconstrained"]) -> Observation:
    """One call's observation. Never empty: an empty one would fuse two runs of the policy mask."""
    definition = None
    if condition == "sgls":
        if error := validation_error(call, tools):
            return Observation(error, refused=True)
        definition = tools.get(call.name)
    try:
        answer = await ask(mocker_prompt(call, definition))
    except PromptTooLong:
        return Observation(CALL_TOO_LONG, refused=True)
    except AnswerCut as cut:
        return Observation(extract_response(cut.text) or EMPTY_RESPONSE, broken=True)
    return Observation(extract_response(answer) or EMPTY_RESPONSE, broken=not has_response(answer))


def _places(violations: Iterable[Violation]) -> str:
    """Where, each place once; a fault of the arguments as a whole, such as one too many, has no key of its own."""
    return ", ".join(sorted({".".join(map(str, violation.path)) or "arguments" for violation in violations}))
