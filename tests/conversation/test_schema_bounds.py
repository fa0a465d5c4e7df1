"""Checks against a tool's schema end soon, whatever the schema: it is bounded by counting, so no verdict depends on a clock.

No test here measures time: where a bound did not hold, it would not come back at all.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from slca_core.conversation.dialogue import ToolCall
from slca_core.conversation.schema_bounds import MAX_STEPS, Bounds, UnboundedSchema
from slca_core.conversation.schemas import ToolSet, schema_fault
from slca_core.errors import DataError
from slca_core.simulator.sgls import simulate
from slca_core.standins.mocker import mock_response

TREE = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}, "additionalProperties": False}


def pairs(count: int, keyword: str = "anyOf") -> dict[str, Any]:
    """`count` nested pairs, each of which asks its validator the next one twice."""
    both = {f"a{at}": {keyword: [{"$ref": f"#/$defs/a{at + 1}"}] * 2} for at in range(count)}
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/a0"}}, "$defs": {**both, f"a{count}": {"type": "string"}}}


def branching() -> dict[str, Any]:
    """A tree whose every level is asked about by two branches: 2**depth questions."""
    below = {"properties": {"child": {"$ref": "#/$defs/node"}}}
    return {"$defs": {"node": {"anyOf": [{**below, "required": ["x"]}, {**below, "required": ["y"]}]}}, "$ref": "#/$defs/node"}


def nested(depth: int, key: str) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {key: value}
    return value


def tools(schema: dict[str, Any]) -> ToolSet:
    return ToolSet.of([{"type": "function", "function": {"name": "f", "description": "", "parameters": schema}}])


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_thirty_nested_pairs_are_refused_before_any_rollout(keyword):
    with pytest.raises(DataError, match=rf"'f': it expands to more than {MAX_STEPS:,} schemas"):
        tools(pairs(30, keyword))


def test_a_few_nested_pairs_are_checked_as_ever():
    assert tools(pairs(5)).is_valid(ToolCall("f", {"x": "a"}))
    assert not tools(pairs(5)).is_valid(ToolCall("f", {"x": 1}))


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"$ref": "#"}, "leads back to itself"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"not": {"$ref": "#/$defs/a"}}]}}}, "leads back to itself"),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "refers to nothing"),
        ({"properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}}}, "nothing is fetched"),
        ({"properties": {"a": {"$ref": "other.json#/a"}}}, "nothing is fetched"),
        ({"properties": {"a": {"$dynamicRef": "file:///etc/hostname"}}}, "nothing is fetched"),
        ({"properties": {"a": {"$id": "b", "$ref": "#/c"}}}, "nested $id"),
        (nested(150, "not"), "levels deep"),
        (
            {"$defs": {f"a{at}": {"$ref": f"#/$defs/a{at + 1}"} for at in range(400)} | {"a400": {}}, "$ref": "#/$defs/a0"},
            "levels deep",
        ),
        ({"description": "x" * 1_000_001}, "characters"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_schema_that_cannot_be_bounded_is_refused_with_the_reason(schema, said):
    assert said in (schema_fault(schema) or "")


@pytest.mark.parametrize(
    "schema",
    [
        {"$id": "https://h/s", "properties": {"a": {"$ref": "https://h/s#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}},
        {"properties": {"a": {"$ref": "#n"}}, "$defs": {"n": {"$anchor": "n", "type": "integer"}}},
        {"properties": {"a": {"$ref": "#/$defs/x~1y"}}, "$defs": {"x/y": {"type": "integer"}}},
    ],
)
def test_references_inside_the_definition_are_followed_however_they_are_written(schema):
    assert tools(schema).is_valid(ToolCall("f", {"a": 1}))
    assert not tools(schema).is_valid(ToolCall("f", {"a": "b"}))


def test_a_recursive_schema_takes_a_deep_value():
    assert Bounds.of(TREE).expanded is None
    deep: dict[str, Any] = {}
    for _ in range(90):
        deep = {"children": [deep]}
    assert tools(TREE).is_valid(ToolCall("f", deep))
    assert not tools(TREE).is_valid(ToolCall("f", {"children": [{"other": 1}]}))


def test_a_value_that_asks_too_much_of_a_recursive_schema_is_refused_like_one_that_does_not_fit():
    offered = tools(branching())
    assert offered.is_valid(ToolCall("f", {"x": 1, "child": {"y": 2}}))
    call = ToolCall("f", nested(100, "child"))
    assert not offered.is_valid(call)
    (violation,) = offered.validate(call)
    assert (violation.kind, violation.path) == ("ill-typed", ())


def test_the_simulator_answers_such_a_call_with_its_fixed_error():
    async def never(_: str) -> str:
        raise AssertionError("the mocker was asked")

    observation = asyncio.run(simulate(ToolCall("f", nested(100, "child")), tools(branching()), never, "sgls"))
    assert observation.refused
    assert observation.text == "Tool 'f' got arguments of the wrong type: [arguments]"


def test_many_values_against_a_wide_schema_are_counted_too():
    wide = {"items": {"anyOf": [{"const": at} for at in range(3000)]}}
    schema = {"properties": {"x": wide}}
    assert tools(schema).is_valid(ToolCall("f", {"x": [1, 2]}))
    assert not tools(schema).is_valid(ToolCall("f", {"x": list(range(1000)) * 3}))


def test_a_pattern_that_goes_back_and_forth_ends():
    schema = {"properties": {"x": {"pattern": "^(?=a)(a+)+$"}}}
    assert not tools(schema).is_valid(ToolCall("f", {"x": "a" * 40 + "!"}))


def test_the_stand_in_mocker_does_not_answer_by_a_schema_that_cannot_be_bounded():
    tool = {"function": {"name": "f", "description": "Returns n (integer).", "parameters": {}, "outputSchema": pairs(30)}}
    assert mock_response(tool, ToolCall("f", {})).startswith('{"n": ')


def test_bounds_are_told_without_the_validator():
    assert Bounds.of({"type": "string"}).expanded == 1
    assert Bounds.of(pairs(3)).expanded > 2**3
    with pytest.raises(UnboundedSchema):
        Bounds.of(pairs(40))
