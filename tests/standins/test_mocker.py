"""What the stand-in mocker answers: an instance of the schema a tool promises, with the call's arguments in it."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slca_core.conversation.dialogue import ToolCall
from slca_core.standins.mocker import mock_response

names = st.sampled_from(["city", "temp", "unit", "user"])
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-1000, 1000), st.floats(-1000, 1000), st.sampled_from(["Oslo", "c", "f", "", "\u2028"])
)
arguments = st.dictionaries(names, st.one_of(scalars, st.lists(scalars, max_size=2), st.dictionaries(names, scalars, max_size=2)))


@st.composite
def numbers(draw: st.DrawFn) -> dict[str, Any]:
    """A number's schema that some number fits."""
    kind = draw(st.sampled_from(["integer", "number"]))
    value = st.integers(-1000, 1000) if kind == "integer" else st.floats(-1000, 1000)
    low, high = sorted((draw(value), draw(value)))
    bounds = {"minimum": low, "exclusiveMinimum": low - 1, "maximum": high, "exclusiveMaximum": high + 1}
    return {"type": kind, **{key: bounds[key] for key in draw(st.sets(st.sampled_from(sorted(bounds))))}}


@st.composite
def arrays(draw: st.DrawFn, items: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    least, more = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    lengths = {"minItems": least, "maxItems": least + more}
    return {"type": "array", "items": draw(items), **{key: lengths[key] for key in draw(st.sets(st.sampled_from(sorted(lengths))))}}


@st.composite
def objects(draw: st.DrawFn, values: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    properties = draw(st.dictionaries(names, values, max_size=3))
    required = draw(st.lists(st.sampled_from(sorted(properties)), unique=True)) if properties else []
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        **draw(st.sampled_from([{}, {"additionalProperties": False}])),
    }


leaves = st.one_of(
    numbers(),
    st.sampled_from(
        [{"type": "string"}, {"type": "boolean"}, {"type": "null"}, {"type": ["string", "null"]}, {"type": ["integer"]}]
    ),
    st.builds(lambda values: {"enum": values}, st.lists(scalars, min_size=1, max_size=3)),
    st.builds(lambda value: {"const": value}, scalars),
)
schemas = st.recursive(
    leaves,
    lambda inner: st.one_of(
        arrays(inner), objects(inner), st.builds(lambda some: {"anyOf": some}, st.lists(inner, min_size=1, max_size=2))
    ),
    max_leaves=6,
)


def tool(schema: Any = None, description: str = "Weather.") -> dict[str, Any]:
    function = {"name": "w", "description": description, "parameters": {}}
    return {"type": "function", "function": function if schema is None else {**function, "outputSchema": schema}}


def answer(schema: Any, description: str = "Weather.", **arguments: Any) -> Any:
    return json.loads(mock_response(tool(schema, description), ToolCall("w", arguments)))


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": sorted(properties)}


@settings(deadline=None, max_examples=300)
@given(schemas, arguments)
def test_an_answer_is_an_instance_of_the_tools_schema(schema, arguments):
    found = answer(schema, **arguments)
    jsonschema.Draft202012Validator(schema).validate(found)


@settings(deadline=None)
@given(objects(schemas), arguments)
def test_an_answer_has_every_field_of_the_schema_and_no_other(schema, arguments):
    assert set(answer(schema, **arguments)) == set(schema["properties"])


@settings(deadline=None)
@given(st.dictionaries(names, schemas, min_size=1, max_size=3), arguments)
def test_a_field_that_bears_an_arguments_name_gives_it_back_if_it_fits(properties, arguments):
    found = answer(of(**properties), **arguments)
    for name, schema in properties.items():
        given_value = arguments.get(name)
        if given_value is not None and jsonschema.Draft202012Validator(schema).is_valid(given_value):
            assert found[name] == given_value


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, "Oslo"),
        ({"type": "integer"}, 1234),
        ({"type": "number"}, 1234),
        ({"type": "boolean"}, False),
        ({"type": "integer", "minimum": 2000}, 2001),
        ({"type": "array", "items": {"type": "string"}}, ["Oslo", "Bergen", "Bodø"]),
        ({"type": "object"}, {"any": 1}),
        ({"type": ["null", "string"]}, "Oslo"),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, "Oslo"),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "Oslo"),
    ],
)
def test_an_argument_that_fits_its_field_comes_back(schema, value):
    assert answer(of(field=schema), field=value) == {"field": value}


@pytest.mark.parametrize("unit", ["kelvin", "celsius", "rankine", "fahrenheit", "delisle"])
def test_an_argument_that_is_one_of_the_fields_choices_comes_back(unit):
    schema = of(unit={"enum": ["celsius", "delisle", "fahrenheit", "kelvin", "rankine"]})
    assert answer(schema, unit=unit) == {"unit": unit}


def test_an_argument_comes_back_in_a_nested_field_too():
    assert answer(of(place=of(city={"type": "string"})), city="Oslo") == {"place": {"city": "Oslo"}}


def test_a_field_whose_name_has_a_dot_gives_its_own_argument_back():
    assert answer(of(**{"geo.lat": {"type": "number"}}), **{"geo.lat": 5000.5, "lat": 6000.5}) == {"geo.lat": 5000.5}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, 17),
        ({"type": "integer"}, "Oslo"),
        ({"type": "integer"}, True),
        ({"type": "integer"}, 17.5),
        ({"type": "integer", "maximum": 5}, 17),
        ({"type": "boolean"}, "true"),
        ({"type": "array", "items": {"type": "integer"}}, ["Oslo"]),
        ({"enum": ["celsius", "kelvin"]}, "rankine"),
        ({"const": "celsius"}, "kelvin"),
        ({"type": "string"}, None),
    ],
)
def test_an_argument_that_does_not_fit_its_field_stays_out(schema, value):
    found = answer(of(field=schema), field=value)["field"]
    assert (type(found), found) != (type(value), value)
    assert jsonschema.Draft202012Validator(schema).is_valid(found)


@pytest.mark.parametrize(
    ("kind", "value"),
    [("integer", 1234), ("number", 1234.5), ("number", 1234), ("string", "Oslo"), ("boolean", False), ("boolean", True)],
)
def test_a_field_of_the_description_gives_its_argument_back(kind, value):
    assert answer(None, f"Weather. Returns temp ({kind}).", temp=value) == {"temp": value}


@pytest.mark.parametrize(
    ("kind", "value"),
    [("integer", "17"), ("integer", 17.5), ("integer", True), ("number", "17"), ("string", 17), ("boolean", 1), ("string", None)],
)
def test_a_field_of_the_description_takes_no_argument_of_another_kind(kind, value):
    found = answer(None, f"Weather. Returns temp ({kind}).", temp=value)["temp"]
    assert type(found) is {"integer": int, "number": float, "string": str, "boolean": bool}[kind]


def test_only_the_field_that_bears_the_name_gives_the_argument_back():
    found = answer(None, "Weather. Returns city (string), temp (integer).", city="Oslo", sky="amber")
    assert found["city"] == "Oslo"
    assert list(found) == ["city", "temp"]


@pytest.mark.parametrize("length", [0, 1, 3])
def test_a_list_has_the_length_that_is_asked_for(length):
    schema = of(days={"type": "array", "items": {"type": "string"}, "minItems": length, "maxItems": length})
    assert len(answer(schema)["days"]) == length


NOT_UNDERSTOOD = {
    "pattern": {"type": "string", "pattern": "^[0-9]{9}$"},
    "length": {"type": "string", "minLength": 50},
    "multiple": {"type": "integer", "multipleOf": 1009, "minimum": 1},
    "unique": {"type": "array", "items": {"const": 1}, "minItems": 2, "uniqueItems": True},
    "reference": {"$ref": "#/$defs/Reading"},
    "reference-to-nothing": {"$ref": "#/$defs/Nothing"},
    "reference-to-elsewhere": {"$ref": "https://nowhere.invalid/schema.json"},
    "broken-pattern": {"type": "string", "pattern": "["},
    "nothing-fits": False,
}
DEFINITIONS = {"Reading": {"type": "object", "properties": {"value": {"type": "integer"}}, "required": ["value"]}}


@pytest.mark.parametrize("part", NOT_UNDERSTOOD.values(), ids=NOT_UNDERSTOOD)
@pytest.mark.parametrize("arguments", [{}, {"field": 17}], ids=["no-argument", "an-argument-of-its-name"])
def test_of_a_schema_that_is_not_understood_the_description_counts(part, arguments):
    schema = {**of(field=part), "$defs": DEFINITIONS}
    assert answer(schema, "Weather. Returns dry (boolean).", **arguments).keys() == {"dry"}
    assert answer(schema, **arguments).keys() == {"result"}


def test_an_argument_for_a_field_with_a_reference_inside_does_no_harm():
    user = {"type": "object", "properties": {"reading": {"$ref": "#/$defs/Reading"}}}
    found = answer({**of(user=user), "$defs": DEFINITIONS}, user={"reading": {"value": 17}})
    assert found in ({"user": {"reading": {"value": 17}}}, answer(None, user={"reading": {"value": 17}}))


@pytest.fixture
def asked() -> Iterator[tuple[str, list[str]]]:
    """The URL of a server, and what it was asked for."""
    paths: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/schema.json", paths
        server.shutdown()


@pytest.mark.parametrize(
    "schema",
    [lambda url: of(field={"$ref": url}), lambda url: {**of(field={"type": "integer"}), "$schema": url}],
    ids=["reference", "dialect"],
)
def test_what_a_schema_refers_to_elsewhere_is_not_fetched(asked, schema):
    url, paths = asked
    assert isinstance(answer(schema(url)), dict)
    assert paths == []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "strin"},
        {"type": "object", "properties": []},
        {"type": "object", "required": "temp"},
        {"enum": "amber"},
        {"type": "integer", "minimum": "1"},
        {"type": "object", "properties": {"a": {"type": "nothing"}}},
        "object",
        ["object"],
        True,
        None,
    ],
    ids=str,
)
def test_a_schema_that_is_none_is_ignored(schema):
    assert answer(schema, "Weather. Returns dry (boolean).") == answer(None, "Weather. Returns dry (boolean).")


def test_the_schema_counts_before_the_description():
    assert answer(of(temp={"type": "integer"}), "Weather. Returns dry (boolean).").keys() == {"temp"}


def test_the_schema_may_stand_beside_the_function():
    beside = {**tool(), "outputSchema": of(temp={"type": "integer"})}
    assert json.loads(mock_response(beside, ToolCall("w", {}))).keys() == {"temp"}


READING = of(a={"type": "integer"}, b={"type": "number"}, c={"type": "string"}, d={"type": "array", "items": {"type": "integer"}})


@settings(deadline=None)
@given(schemas, arguments)
def test_the_same_call_has_the_same_answer_whatever_the_order_of_its_arguments(schema, arguments):
    turned = ToolCall("w", dict(reversed(arguments.items())))
    assert mock_response(tool(schema), ToolCall("w", arguments)) == mock_response(tool(schema), turned)


@pytest.mark.parametrize("schema", [READING, None], ids=["schema", "description"])
def test_other_calls_have_other_answers(schema):
    definition = tool(schema, "Weather. Returns a (integer), b (number), c (string), e (number).")
    calls = [ToolCall("w", {"city": str(number)}) for number in range(20)] + [ToolCall("v", {"city": "1"}), ToolCall("w", {})]
    assert len({mock_response(definition, call) for call in calls}) == len(calls)


def test_fields_of_one_kind_have_values_of_their_own():
    found = answer(of(**{f"field{number}": {"type": "number"} for number in range(6)}))
    assert len(set(found.values())) > 1
