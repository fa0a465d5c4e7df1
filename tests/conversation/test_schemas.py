"""Tool definitions, their validators, and what they refuse."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from slca_core.conversation.calls import parse_turn
from slca_core.conversation.dialogue import ToolCall
from slca_core.conversation.schemas import ToolSet
from slca_core.errors import DataError

CONTACT = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "address": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "mail": {"type": "string", "format": "email"},
    },
    "required": ["name"],
}


def tool(name: str, parameters: Any = None) -> dict[str, Any]:
    function = {"name": name, "description": ""} | ({} if parameters is None else {"parameters": parameters})
    return {"type": "function", "function": function}


def takes(parameters: Any, **arguments: Any) -> bool:
    return ToolSet.of([tool("f", parameters)]).is_valid(ToolCall("f", arguments))


@pytest.mark.parametrize(
    ("call", "violations"),
    [
        (ToolCall("add", {"name": "Ada", "address": {"city": "Oslo"}}), []),
        (ToolCall("add", {}), [("missing", ("name",))]),
        (ToolCall("add", {"name": "Ada", "address": {}}), [("missing", ("address", "city"))]),
        (ToolCall("add", {"name": 7}), [("ill-typed", ("name",))]),
        (ToolCall("add", {"address": {"city": 1}}), [("ill-typed", ("address", "city")), ("missing", ("name",))]),
        (ToolCall("remove", {}), [("unknown-tool", ())]),
    ],
)
def test_each_violation_says_its_kind_and_place(call, violations):
    tools = ToolSet.of([tool("add", CONTACT)])
    assert sorted((found.kind, found.path) for found in tools.validate(call)) == sorted(violations)
    assert tools.is_valid(call) == (not violations)


@pytest.mark.parametrize("parameters", [None, {}])
def test_a_tool_without_a_schema_takes_any_object(parameters):
    assert takes(parameters, anything=[1, {"x": None}])


def test_formats_are_not_checked():
    assert takes(CONTACT, name="Ada", mail="not a mail address")


def test_arguments_are_judged_by_draft_2020_12_whatever_the_schema_declares():
    parameters = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {"pair": {"prefixItems": [{"type": "integer"}]}},
        "dependentRequired": {"pair": ["unit"]},
    }
    assert takes(parameters, pair=[1.0], unit="km")
    assert not takes(parameters, pair=["one"], unit="km")
    assert not takes(parameters, pair=[1])


def test_bfcl_type_names_are_read_as_json_schema():
    parameters = {
        "type": "dict",
        "properties": {
            "ratio": {"type": "float"},
            "span": {"type": "tuple", "items": {"type": "float"}},
            "type": {"type": "any", "default": {"type": "dict"}},
        },
    }
    assert takes(parameters, ratio=0.5, span=[1, 2.5], type=[None])
    assert not takes(parameters, ratio="half")
    assert not takes(parameters, span=["a"])
    assert ToolSet.of([tool("f", parameters)]).parameters("f")["properties"]["type"] == {"default": {"type": "dict"}}


def test_references_inside_the_definition_are_followed():
    parameters = {"definitions": {"day": {"enum": ["mon", "tue"]}}, "properties": {"day": {"$ref": "#/definitions/day"}}}
    assert takes(parameters, day="mon")
    assert not takes(parameters, day="sun")


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "strnig"},
        {"properties": ["a"]},
        {"required": "a"},
        {"properties": {"a": {"pattern": "("}}},
        {"$ref": "#/definitions/nowhere"},
        {"properties": {"a": {"$ref": "https://example.com/schema.json"}}},
        {"properties": {"a": {"$ref": "file:///etc/hostname"}}},
        "an object",
    ],
)
def test_a_definition_that_is_no_json_schema_or_points_elsewhere_is_refused_by_name(parameters):
    with pytest.raises(DataError, match="'bad'"):
        ToolSet.of([tool("good", CONTACT), tool("bad", parameters)])


def test_all_bad_definitions_are_named_at_once():
    with pytest.raises(DataError, match=r"tool 0 has no function name.*'b'.*'c' is defined twice"):
        ToolSet.of([{"name": "a"}, tool("b", {"type": 1}), tool("c", CONTACT), tool("c")])


def test_a_tool_listed_twice_alike_is_one_tool():
    assert ToolSet.of([tool("add", CONTACT), tool("add", CONTACT)]).names == ("add",)


def test_definitions_are_given_back_as_they_came():
    definition = tool("add", {"type": "dict"})
    tools = ToolSet.of([definition])
    assert tools.get("add") == definition
    assert tools.get("remove") is None
    assert "add" in tools
    assert "remove" not in tools


def test_a_tool_set_travels_between_processes():
    tools = pickle.loads(pickle.dumps(ToolSet.of([tool("add", CONTACT)])))
    assert tools.is_valid(ToolCall("add", {"name": "Ada"}))


GOLDEN = Path(__file__).parents[1] / "golden" / "hierr_own.jsonl"
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(-5, 5), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(["city", "zip", "a"]), inner, max_size=2)),
    max_leaves=4,
)


def golden_tools_and_arguments() -> list[tuple[ToolSet, str, dict]]:
    found = []
    for case in map(json.loads, GOLDEN.read_text().splitlines()):
        tools = ToolSet.of(case["tools"])
        made = [call for turn in case["turns"] for call in parse_turn(turn).calls]
        found += [(tools, call.name, call.arguments) for call in made if call.name in tools]
    return found


def test_the_compiled_validators_agree_with_jsonschema_on_every_golden_call():
    cases = golden_tools_and_arguments()
    verdicts = [tools.is_valid(ToolCall(name, arguments)) for tools, name, arguments in cases]
    assert verdicts == [Draft202012Validator(tools.parameters(name)).is_valid(arguments) for tools, name, arguments in cases]
    assert len(set(verdicts)) == 2, "some are valid and some are not"


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_the_compiled_validators_agree_with_jsonschema_on_spoilt_arguments(data):
    tools, name, arguments = data.draw(st.sampled_from(golden_tools_and_arguments()))
    keys = sorted({*arguments, *tools.parameters(name).get("properties", {}), "extra"})
    spoilt = {**arguments, data.draw(st.sampled_from(keys)): data.draw(json_values)}
    oracle = Draft202012Validator(tools.parameters(name))
    assert tools.is_valid(ToolCall(name, spoilt)) == oracle.is_valid(spoilt)
    assert bool(tools.validate(ToolCall(name, spoilt))) == bool(list(oracle.iter_errors(spoilt)))
