"""The chat format: one Jinja template, used word for word by SFT, rollout and serving.

A rollout is built from pieces (prompt, each action's own token ids, each observation), SFT from the whole text at once. The
template's pieces start and end on special tokens, so both give the same ids; a test holds that over many conversations.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Template
from jinja2.sandbox import ImmutableSandboxedEnvironment

from slca_core.conversation.dialogue import Message
from slca_core.conversation.tags import blocks

TEMPLATE_PATH = Path(__file__).with_name("chat_template.jinja")
START, END = "<|im_start|>", "<|im_end|>"
SPECIAL_TOKENS = (START, END)
TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<tools>", "</tools>")
# Qwen's tokenizers have one more token that ends a text, wherever it stands.
_CONTROL = (*SPECIAL_TOKENS, "<|endoftext|>", *TAGS)
_TURN = re.compile(rf"{re.escape(START)}(\w+)\n"), re.compile(re.escape(END))
_RESPONSE = re.compile(r"<tool_response>\n"), re.compile(r"\n</tool_response>")


@cache
def _template() -> Template:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    # Jinja's own tojson escapes <, > and & for HTML; transformers replaces it in the same way.
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(TEMPLATE_PATH.read_text(encoding="utf-8"))


def render(messages: Sequence[Message], tools: Sequence[dict[str, Any]] = (), *, generate: bool = False) -> str:
    """The text of a conversation; with `generate`, it ends where the assistant's next turn begins.

    What users, tools and tool definitions bring along is data: the template breaks control tokens in it, as `neutralise` does.
    """
    turns = [message.to_json() for message in messages]
    return str(_template().render(messages=turns, tools=list(tools) or None, add_generation_prompt=generate))


def render_observation(responses: Sequence[str]) -> str:
    """What the environment appends to an assistant turn: the responses, one block a call, and the opening of the next turn."""
    if not responses:
        raise ValueError("an observation answers at least one call; an empty one would fuse two runs of the policy mask")
    return "\n" + render([Message("tool", response) for response in responses], generate=True)


def as_plain_turns(text: str) -> list[dict[str, str]]:
    """A rendered conversation as role and content alone, tools and calls written out; the template gives its text back unchanged.

    Responses are tool messages again: in a user's own words the template breaks their tags.
    """
    turns: list[dict[str, str]] = []
    for turn in blocks(text, *_TURN):
        role, content = turn.opening[1], turn.body
        if role == "user" and content.startswith("<tool_response>"):
            turns += [{"role": "tool", "content": response.body} for response in blocks(content, *_RESPONSE)]
        else:
            turns.append({"role": role, "content": content})
    return turns


def neutralise(text: str) -> str:
    """`text` as the template shows it in a user's or a tool's turn: what would act as a control token or a tag is broken."""
    for token in _CONTROL:
        text = text.replace(token, "< " + token[1:])
    return text
