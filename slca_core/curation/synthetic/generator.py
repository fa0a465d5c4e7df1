"""Records of the small world in Toucan's `SFT` format, so that the default study needs no download.

Every record follows from the seed and the answers of `respond`. Five kinds are mixed: one call, two parallel calls, a chain whose
second call needs the first one's answer, two user turns, and questions no tool answers (which curation filters). Every string
argument stands verbatim in the question or in an earlier answer, and every summary quotes the values of its answers.
"""

from __future__ import annotations

import json
import random
import string
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slca_core.conversation.dialogue import ToolCall
from slca_core.curation.synthetic.words import POOLS
from slca_core.curation.synthetic.world import BY_NAME, CHAINS, OFF_TOPIC, WORLD, Chain
from slca_core.curation.synthetic.world_tool import Ask, WorldTool

Respond = Callable[[dict[str, Any], ToolCall], str]
Slots = dict[str, Any]

COLUMNS = ("uuid", "subset_name", "question", "target_tools", "tools", "messages")
_NAMESPACE = uuid.UUID("6f2b0f6e-5d3c-5f0a-9a54-3d1f0f5f7f11")
_ROWS_PER_BATCH = 1000
# A question asked before is drawn again: two splits never share a question, and large groups of equal ones would bend their sizes.
_REDRAWS = 50


@dataclass(frozen=True, slots=True)
class Mix:
    """Shares of the five kinds of record; they are weights and need not sum to 1."""

    single: float = 0.50
    parallel: float = 0.15
    chained: float = 0.15
    multi_turn: float = 0.15
    irrelevant: float = 0.05


@dataclass(frozen=True, slots=True)
class _Request:
    """What a user wants from one tool: the question, the call that answers it, and the word the summary names."""

    tool: WorldTool
    question: str
    call: ToolCall
    key: str


@dataclass(frozen=True, slots=True)
class _Draft:
    """A record before it is written out in Toucan's columns."""

    subset: str
    needed: tuple[WorldTool, ...]
    messages: tuple[dict[str, str], ...]


def generate(count: int, seed: int, respond: Respond, mix: Mix | None = None) -> Iterator[dict[str, str]]:
    """Yield `count` records; a smaller count gives a prefix of a larger one's.

    Args:
        seed: records of two seeds differ in their uuids too.
        respond: the answer to a call, a JSON object as text, from the tool in OpenAI form and the call; must be deterministic.
        mix: shares of the kinds; `Mix()` by default.
    """
    shares = asdict(mix or Mix())
    asked: set[str] = set()
    for index in range(count):
        rng = random.Random(f"{seed}/{index}")
        kind = rng.choices(list(shares), weights=list(shares.values()))[0]
        for _ in range(_REDRAWS):
            draft = _KINDS[kind](rng, respond)
            questions = {message["content"] for message in draft.messages if message["role"] == "user"}
            if not questions & asked:
                break
        asked |= questions
        yield _record(str(uuid.uuid5(_NAMESPACE, f"{seed}/{index}")), draft, rng)


def write_records(path: Path, count: int, seed: int, respond: Respond, mix: Mix | None = None) -> None:
    """Write `generate(...)` to a parquet file of string columns, a batch of rows at a time."""
    schema = pa.schema([(column, pa.string()) for column in COLUMNS])
    path.parent.mkdir(parents=True, exist_ok=True)
    records = generate(count, seed, respond, mix)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while rows := list(islice(records, _ROWS_PER_BATCH)):
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))


def _single(rng: random.Random, respond: Respond) -> _Draft:
    request = _request(rng, rng.choice(WORLD))
    return _Draft("single-turn-original", (request.tool,), (_user(request.question), *_answer((request,), respond)))


def _parallel(rng: random.Random, respond: Respond) -> _Draft:
    first = _request(rng, rng.choice(WORLD))
    second = first
    same_tool = rng.random() < 0.5
    while second.call == first.call:
        second = _request(rng, first.tool if same_tool else rng.choice(WORLD))
    question = f"{first.question} And {second.question[0].lower()}{second.question[1:]}"
    return _Draft("single-turn-diversify", (first.tool, second.tool), (_user(question), *_answer((first, second), respond)))


def _chained(rng: random.Random, respond: Respond) -> _Draft:
    chain = rng.choice(CHAINS)
    first_tool, second_tool = BY_NAME[chain.first], BY_NAME[chain.second]
    text = rng.choice(chain.asks)
    slots = _draw_slots(rng, text)
    first = _fill(first_tool, Ask(text), slots)
    first_answer = respond(first_tool.definition, first.call)
    second = _second_of(chain, second_tool, slots, first_answer)
    second_answer = respond(second_tool.definition, second.call)
    summary = f"{_clause(first, first_answer)} and {_clause(second, second_answer)}."
    messages = (
        _user(first.question),
        _call_message(first.call),
        _response_message(first_answer),
        _call_message(second.call),
        _response_message(second_answer),
        {"role": "assistant", "content": summary},
    )
    return _Draft("single-turn-diversify", (first_tool, second_tool), messages)


def _multi_turn(rng: random.Random, respond: Respond) -> _Draft:
    tools = rng.sample(WORLD, 2)
    requests = [_request(rng, tool) for tool in tools]
    messages = [message for request in requests for message in (_user(request.question), *_answer((request,), respond))]
    return _Draft("multi-turn", tuple(tools), tuple(messages))


def _irrelevant(rng: random.Random, respond: Respond) -> _Draft:
    text = rng.choice(OFF_TOPIC)
    question = text.format(**_draw_slots(rng, text))
    return _Draft("irrelevant", (), (_user(question), {"role": "assistant", "content": "No tool here can help with that."}))


_KINDS: dict[str, Callable[[random.Random, Respond], _Draft]] = {
    "single": _single,
    "parallel": _parallel,
    "chained": _chained,
    "multi_turn": _multi_turn,
    "irrelevant": _irrelevant,
}


def _request(rng: random.Random, tool: WorldTool) -> _Request:
    ask = rng.choice(tool.asks)
    return _fill(tool, ask, _draw_slots(rng, ask.text))


def _draw_slots(rng: random.Random, text: str) -> Slots:
    """A value for each {slot} of the text; no value twice, so that {city} and {city2} differ."""
    slots: Slots = {}
    for _, name, _, _ in string.Formatter().parse(text):
        if name is not None:
            pool = [value for value in POOLS[name.rstrip(string.digits)] if value not in slots.values()]
            slots[name] = rng.choice(pool)
    return slots


def _fill(tool: WorldTool, ask: Ask, slots: Slots) -> _Request:
    arguments = {**_bind(tool.arguments, slots), **ask.fixed}
    return _Request(tool, ask.text.format(**slots), ToolCall(tool.name, arguments), _spoken(slots[tool.key]))


def _second_of(chain: Chain, tool: WorldTool, slots: Slots, first_answer: str) -> _Request:
    handed_on = json.loads(first_answer)[chain.returned]
    return _fill(tool, Ask(""), {**slots, chain.slot: handed_on})


def _bind(template: Any, slots: Slots) -> Any:
    """The template with its "$slot" leaves filled; a key whose slot the question does not have is left out."""
    if isinstance(template, str):
        return slots[template.removeprefix("$")]
    if isinstance(template, list):
        return [_bind(item, slots) for item in template]
    present = {key: part for key, part in template.items() if not isinstance(part, str) or part.removeprefix("$") in slots}
    return {key: _bind(part, slots) for key, part in present.items()}


def _answer(requests: tuple[_Request, ...], respond: Respond) -> list[dict[str, str]]:
    """The calls in parallel, their answers in the same order, and one sentence that quotes them."""
    answers = [respond(request.tool.definition, request.call) for request in requests]
    clauses = [_clause(request, answer) for request, answer in zip(requests, answers, strict=True)]
    return [
        *(_call_message(request.call) for request in requests),
        *(_response_message(answer) for answer in answers),
        {"role": "assistant", "content": f"{' and '.join(clauses)}."},
    ]


def _clause(request: _Request, answer: str) -> str:
    fields = json.loads(answer)
    return f"{request.key} " + ", ".join(f"{name} is {_spoken(value)}" for name, value in fields.items())


def _spoken(value: Any) -> str:
    """A value as the summary quotes it: as it stands in the JSON of the answer, without a string's quotation marks."""
    return value if isinstance(value, str) else json.dumps(value)


def _user(question: str) -> dict[str, str]:
    return {"role": "user", "content": question}


def _call_message(call: ToolCall) -> dict[str, str]:
    # Toucan keeps a call as the repr of a Python dict whose arguments are JSON text.
    return {"role": "tool_call", "content": repr({"name": call.name, "arguments": json.dumps(call.arguments)})}


def _response_message(answer: str) -> dict[str, str]:
    return {"role": "tool_response", "content": answer}


def _record(record_id: str, draft: _Draft, rng: random.Random) -> dict[str, str]:
    needed = {tool.name: tool for tool in draft.needed}
    offered_count = max(rng.choice((2, 3, 3, 4)), len(needed) + 1)
    others = [tool for tool in WORLD if tool.name not in needed]
    offered = [*needed.values(), *rng.sample(others, offered_count - len(needed))]
    rng.shuffle(offered)
    return {
        "uuid": record_id,
        "subset_name": draft.subset,
        "question": draft.messages[0]["content"],
        "target_tools": ", ".join(tool.target for tool in needed.values()),
        "tools": json.dumps([tool.definition for tool in offered]),
        "messages": json.dumps(list(draft.messages)),
    }
