"""Random conversations, and how each format that is read writes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from slca_core.conversation.dialogue import Message, ToolCall

# No half surrogates, which no file can hold, and nothing that opens a tag.
texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="<"), max_size=12)
words = texts.map(lambda text: f"w{text.strip()}")
names = st.sampled_from(["lamp", "siren/2", "météo now", "type"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
calls = st.builds(ToolCall, names, st.dictionaries(texts, values, max_size=2))


@st.composite
def _turns(draw) -> list[Message]:
    """A question, rounds of calls with an answer each, and a final text."""
    messages = [Message("user", draw(words))]
    for made in draw(st.lists(st.lists(calls, min_size=1, max_size=3), max_size=2)):
        messages.append(Message("assistant", draw(st.just("") | words), tuple(made)))
        messages += [Message("tool", draw(texts)) for _ in made]
    return [*messages, Message("assistant", draw(words))]


@st.composite
def conversations(draw) -> tuple[Message, ...]:
    system = draw(st.none() | words.map(lambda text: f"Policy: {text}"))
    turns = [message for turn in draw(st.lists(_turns(), min_size=1, max_size=3)) for message in turn]
    return (*([Message("system", system)] if system else []), *turns)


def tool(name: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"type": {"type": "string"}, "n": {"type": ["integer", "null"]}}}
    return {"type": "function", "function": {"name": name, "description": f"{name}?", "parameters": schema}}


TOOLS = tuple(tool(name) for name in ("lamp", "siren/2", "météo now", "type"))


def toucan_sft(messages: tuple[Message, ...]) -> dict[str, Any]:
    turns: list[dict[str, str]] = []
    for message in messages:
        if message.content or not message.tool_calls:
            turns.append({"role": {"tool": "tool_response"}.get(message.role, message.role), "content": message.content})
        for call in message.tool_calls:
            turns.append({"role": "tool_call", "content": repr({"name": call.name, "arguments": json.dumps(call.arguments)})})
    return {"uuid": "u", "subset_name": "multi-turn", "tools": json.dumps(TOOLS), "messages": json.dumps(turns)}


def toucan_teacher(messages: tuple[Message, ...]) -> dict[str, Any]:
    turns: list[dict[str, Any]] = []
    waiting: list[str] = []
    for message in messages:
        if message.role == "tool":
            turns.append({"role": "function", "name": waiting.pop(0), "content": message.content})
            continue
        if message.content or not message.tool_calls:
            turns.append({"role": message.role, "content": message.content})
        for call in message.tool_calls:
            legacy = {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)}
            turns.append({"role": "assistant", "content": "", "function_call": legacy})
        waiting = [call.name for call in message.tool_calls]
    return {"uuid": "u", "subset_name": "multi-turn", "available_tools": json.dumps(TOOLS), "messages": json.dumps(turns)}


def openai(messages: tuple[Message, ...]) -> dict[str, Any]:
    """Answers in the order of completion, which is not that of the calls."""
    turns: list[dict[str, Any]] = []
    ids: list[str] = []
    for at, message in enumerate(messages):
        if message.role == "tool":
            place = len(turns) - (message_count := _answers_since(turns))
            turns.insert(place, {"role": "tool", "tool_call_id": ids[message_count], "content": message.content})
            continue
        ids = [f"{at}-{number}" for number in range(len(message.tool_calls))]
        made = [
            {"id": name, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
            for name, call in zip(ids, message.tool_calls, strict=True)
        ]
        content = [{"type": "text", "text": message.content}] if message.role == "user" else message.content
        turns.append({"role": message.role, "content": content, **({"tool_calls": made} if made else {})})
    return {"messages": turns, "tools": [dict(one) for one in TOOLS]}


def _answers_since(turns: list[dict[str, Any]]) -> int:
    count = 0
    while turns[-1 - count]["role"] == "tool":
        count += 1
    return count


def sharegpt(messages: tuple[Message, ...]) -> dict[str, Any]:
    speakers = {"user": "human", "assistant": "gpt", "tool": "observation"}
    turns: list[dict[str, str]] = []
    system = ""
    for message in messages:
        if message.role == "system":
            system = message.content
        elif message.content or not message.tool_calls:
            turns.append({"from": speakers[message.role], "value": message.content})
        if message.tool_calls:
            turns.append({"from": "function_call", "value": json.dumps([call.to_json() for call in message.tool_calls])})
    return {"conversations": turns, "tools": json.dumps([one["function"] for one in TOOLS]), "system": system}


def parts(messages: tuple[Message, ...]) -> dict[str, Any]:
    turns = []
    for message in messages:
        content = [{"type": "text", "value": message.content}] if message.content or not message.tool_calls else []
        content += [{"type": "tool_call", "value": json.dumps(call.to_json())} for call in message.tool_calls]
        turns.append({"role": message.role, "content": [{"type": "reasoning", "value": "Hm."}, *content]})
    return {"messages": turns, "tools": [dict(one) for one in TOOLS]}


def verl(messages: tuple[Message, ...]) -> dict[str, Any]:
    """All but the last answer as the prompt, and the calls of that as gold."""
    last = max(at for at, message in enumerate(messages) if message.role == "user")
    prompt: list[dict[str, str]] = []
    for message in messages[: last + 1]:
        blocks = [f"<tool_call>\n{json.dumps(call.to_json())}\n</tool_call>" for call in message.tool_calls]
        if message.role == "tool":
            answer = f"<tool_response>\n{message.content}\n</tool_response>"
            prompt.append({"role": "user", "content": answer})
        else:
            prompt.append({"role": message.role, "content": "\n".join([*([message.content] if message.content else []), *blocks])})
    gold = [[call.to_json() for call in message.tool_calls] for message in messages[last:] if message.tool_calls]
    truth = {"gold_tool_calls": json.dumps(gold)}
    return {"prompt": prompt, "tools": json.dumps(TOOLS), "reward_model": {"ground_truth": truth, "style": "rule"}}


DIALOGUES: dict[str, Callable[[tuple[Message, ...]], dict[str, Any]]] = {
    "toucan-sft": toucan_sft,
    "toucan-teacher": toucan_teacher,
    "sharegpt": sharegpt,
    "openai": openai,
    "parts": parts,
}
