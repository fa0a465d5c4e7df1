"""The stand-in for tau2-bench's user simulator: a customer who follows a script, and no language model.

He says why he calls and what he knows, as his scenario has it. Then, whatever the agent says: where it names something he can do
with his own device without further arguments ("toggle airplane mode"), he does it and reads out what came of it; where it transfers
him, he leaves for it; else he agrees, and after `PATIENCE` messages of his own he hangs up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

PATIENCE = 5
STOP, TRANSFER = "###STOP###", "###TRANSFER###"
AGREES = "Yes, please go ahead."

_SCENARIO = re.compile(r"<scenario>\n?(.*?)</scenario>", re.DOTALL)
# A heading of the scenario and what is indented below it.
_PART = "^\t{heading}:\n((?:\t\t.*\n?|\\s*\n)+)"
_TRANSFERRED = re.compile(r"being transferred|transferring you|transfer you")
_SAID_FIRST = ("Reason for call", "Known info")


def next_message(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()) -> str | list[str]:
    """What the customer says, or the names of the tools he uses, all without arguments.

    Args:
        messages: his side of the conversation in OpenAI's form: his own are the assistant's, the agent's the user's.
        tools: what he can do, as OpenAI's functions.
    """
    last = messages[-1]
    if last["role"] == "tool":
        return f"It says: {last['content']}"
    said = [message for message in messages if message["role"] == "assistant" and message.get("content")]
    if not said:
        return _opening(messages[0]["content"])
    heard = str(last["content"]).lower()
    if _TRANSFERRED.search(heard):
        return TRANSFER
    if named := _named(heard, tools):
        return named
    return AGREES if len(said) < PATIENCE else STOP


def _opening(system_prompt: str) -> str:
    found = _SCENARIO.search(system_prompt)
    scenario = found.group(1) if found else system_prompt
    parts = [re.search(_PART.format(heading=heading), scenario, re.MULTILINE) for heading in _SAID_FIRST]
    said = " ".join(" ".join(part.group(1).split()) for part in parts if part)
    return said or " ".join(scenario.split())


def _named(heard: str, tools: Sequence[Mapping[str, Any]]) -> list[str]:
    """The first tool that the agent names, as one word or several, and that needs no argument."""
    functions = [tool["function"] for tool in tools]
    ready = [function["name"] for function in functions if not function.get("parameters", {}).get("required")]
    spoken = [name for name in ready if name in heard or name.replace("_", " ") in heard]
    return spoken[:1]
