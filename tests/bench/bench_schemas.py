"""Validating one call's arguments, validators warm: jsonschema-rs as ToolSet uses it, against jsonschema and fastjsonschema."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from jsonschema import Draft202012Validator

from slca_core.conversation.dialogue import ToolCall
from slca_core.conversation.schemas import ToolSet
from tests.bench.bench_hierr import GOLDEN
from tests.bench.measure import Peer, Row, compare


def run() -> list[Row]:
    import fastjsonschema

    calls: list[tuple[ToolSet, ToolCall]] = []
    for line in GOLDEN.read_text().splitlines():
        case = json.loads(line)
        tools = ToolSet.of(case["tools"])
        calls += [(tools, ToolCall.from_json(call)) for step in case["gold"] for call in step if call["name"] in tools]
    schemas = [tools.parameters(call.name) for tools, call in calls]
    slow = {json.dumps(schema): Draft202012Validator(schema).is_valid for schema in schemas}
    compiled = {json.dumps(schema): _boolean(fastjsonschema, schema) for schema in schemas}
    keys = [json.dumps(schema) for schema in schemas]

    def ours() -> list[bool]:
        return [tools.is_valid(call) for tools, call in calls]

    def with_validators(validators: dict[str, Callable[[Any], bool]]) -> Callable[[], list[bool]]:
        pairs = [(validators[key], call.arguments) for key, (_, call) in zip(keys, calls, strict=True)]
        return lambda: [validate(arguments) for validate, arguments in pairs]

    def disagreeing(other: Callable[[], list[bool]]) -> Callable[[], float]:
        return lambda: float(sum(a != b for a, b in zip(ours(), other(), strict=True)))

    peers = {}
    for name, validators, note in (
        ("jsonschema", slow, ""),
        ("fastjsonschema", compiled, "Draft 7, generated code"),
    ):
        other = with_validators(validators)
        peers[name] = Peer(other, disagreeing(other), note)
    return compare(f"schemas: {len(calls)} calls", ours, peers)


def _boolean(library: Any, schema: dict[str, Any]) -> Callable[[Any], bool]:
    validate = library.compile(schema)

    def is_valid(value: Any) -> bool:
        try:
            validate(value)
        except library.JsonSchemaValueException:
            return False
        return True

    return is_valid
