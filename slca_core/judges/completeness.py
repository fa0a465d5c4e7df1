"""RLTR's completeness checker (App. C): votes on whether the calls made, with their responses, are all that the question needs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Literal

from slca_core.conversation.calls import ParsedTurn
from slca_core.judges.transcript import NOTHING, as_data, fill, transcript

Vote = Literal[0, 1]

_TEMPLATE = """You check the plan of an assistant that answers questions by calling tools.
Its final answer is not shown; judge the calls.

<tools>
{tools}
</tools>
<question>
{question}
</question>
<calls>
{calls}
</calls>

Was every call made that the question needs, with the arguments it needs, so that the responses hold all that is asked for?
Reply with one digit and nothing else: 1 if the calls are complete, 0 if one is missing, wrong or without a usable response.
"""

_VOTE = re.compile(r"(?<![\w.,])[01](?!\w|[.,]\d)")


def completeness_prompt(
    tools: Sequence[dict[str, Any]], question: str, turns: Sequence[ParsedTurn], observations: Sequence[str]
) -> str:
    """The checker's single user message; every value in it is escaped."""
    listed = "\n".join(as_data(json.dumps(tool, ensure_ascii=False)) for tool in tools)
    calls = transcript(turns, observations)
    return fill(_TEMPLATE, {"tools": listed or NOTHING, "question": as_data(question), "calls": calls})


def parse_vote(answer: str) -> Vote | None:
    """The last 0 or 1 that stands alone; None without one."""
    found = _VOTE.findall(answer)
    return None if not found else 1 if found[-1] == "1" else 0
