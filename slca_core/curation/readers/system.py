"""The system message of a record: its column or its first message, without what only lists the tools.

The chat template writes the tools itself. Only what is a list of tools and nothing else goes; instructions before or after it stay.
"""

from __future__ import annotations

import re
from typing import Any

from slca_core.conversation.calls import RefusedJson, load_strict_json
from slca_core.conversation.dialogue import Message
from slca_core.conversation.tags import without_blocks
from slca_core.curation.readers.records import RecordError, RejectReason, text_of

_COLUMNS = ("system", "system_prompt", "system_message")
# Kimi's declaration, whose JSON is broken in Toucan; and the frame that Qwen's and the authors' templates put around a list.
_KIMI = re.compile(r"<\|im_system\|>\s*tool_declare\s*<\|im_middle\|>.*?(?:<\|im_end\|>|\Z)", re.DOTALL)
_KIMI_SYSTEM = re.compile(r"<\|im_system\|>\s*system\s*<\|im_middle\|>(.*?)(?:<\|im_end\|>|\Z)", re.DOTALL)
_FRAME_OPENS = re.compile(
    r"(?:You have access to the following tools:\s*)?"
    r"(?:# Tools\s*)?"
    r"(?:You may call one or more functions to assist with the user query\.\s*)?"
    r"(?:You are provided with function signatures within <tools></tools> XML tags:\s*)?"
    r"<tools>\s*[\[{]"
)
_FRAME_CLOSES = re.compile(
    r"</tools>\s*"
    r"(?:For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\s*"
    r'<tool_call>\s*\{"name": <function-name>, "arguments": <args-json-object>\}\s*</tool_call>\s*)?'
    r"(?:Use them when appropriate to help answer the user's questions\.)?"
)


def with_system(messages: list[Message], record: dict[str, Any], tools: tuple[dict[str, Any], ...]) -> tuple[Message, ...]:
    """The messages with one system message first, or none."""
    columns = {name: text_of(record[name], f"column {name}") for name in _COLUMNS if record.get(name)}
    first = messages[0].content if messages and messages[0].role == "system" else ""
    found = {name: without_tool_list(text, tools) for name, text in {**columns, "the first message": first}.items()}
    texts = {name: text for name, text in found.items() if text.strip()}
    if len(set(texts.values())) > 1:
        raise RecordError(RejectReason.AMBIGUOUS, f"system messages differ in {' and '.join(texts)}")
    rest = [message for message in messages if message.role != "system"]
    return (*(Message("system", text) for text in dict.fromkeys(texts.values())), *rest)


def without_tool_list(content: str, tools: tuple[dict[str, Any], ...]) -> str:
    """The text without declarations of tools; untouched if it has none."""
    rest = _KIMI_SYSTEM.sub(r"\1", _KIMI.sub("", without_blocks(content, _FRAME_OPENS, _FRAME_CLOSES)))
    if rest != content:
        content = rest.strip()
    return "" if _is_json_list(content, tools) else content


def _is_json_list(content: str, tools: tuple[dict[str, Any], ...]) -> bool:
    """Whether it is JSON that defines tools which the record offers, and nothing else."""
    if not content.lstrip().startswith(("[", "{")):
        return False
    try:
        value = load_strict_json(content)
    except RefusedJson:
        return False
    offered = {tool["function"]["name"] for tool in tools}
    listed = value if isinstance(value, list) else [value]
    functions = [item.get("function", item) if isinstance(item, dict) else item for item in listed]
    return bool(listed) and all(isinstance(part, dict) and part.get("name") in offered for part in functions)
