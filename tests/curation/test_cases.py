"""Records as people have them, through `slca data inspect` and through a curation: what is taken, and why the rest is not.

The kinds are those of public bug reports on similar software; each record is either read as what it plainly is, or rejected with a
reason that names the field.
"""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from flows.cli.main import app
from slca_core.curation.pipeline import Manifest, curate
from slca_core.curation.synthetic.generator import write_records
from slca_core.standins.mocker import mock_response

CASES = Path(__file__).resolve().parents[2].parent / "shared" / "cases"
SIZES = {"test_size": 5, "sft_fraction": 0.6, "seed": 3, "quarantine_limit": 1.0}
REFUSED, UNUSABLE = "gold call that its tool's schema refuses", "tool definition that no validator can be made of"

# file -> records, samples, and how often each reason
EXPECTED: dict[str, tuple[int, int, dict[str, int]]] = {
    "01-mcp-inputschema/mcp.jsonl": (1, 1, {}),
    "03-sharegpt-system-column/system_column.jsonl": (1, 1, {}),
    "04-system-prompt-by-substring/policy.jsonl": (2, 2, {}),
    "06-json-in-tool_call/ms_swift.jsonl": (6, 6, {}),
    "07-two-observations/two.jsonl": (2, 2, {}),
    "08-arrow-none-padding/SFT-and-sharegpt.parquet": (5, 5, {}),
    "08-arrow-none-padding/SFT-and-teacher.parquet": (5, 5, {}),
    "08-arrow-none-padding/rows.jsonl": (3, 3, {}),
    "08-arrow-none-padding/rows.parquet": (3, 3, {}),
    "09-nan-arguments/nan.jsonl": (6, 0, {"broken tool call": 6}),
    "10-flat-xlam-parameters/flat.jsonl": (5, 5, {}),
    "11-invalid-schemas/schemas.jsonl": (14, 4, {REFUSED: 7, UNUSABLE: 3}),
    "17-bom/bom.json": (5, 5, {}),
    "17-bom/bom.jsonl": (5, 5, {}),
    "17-bom/crlf.jsonl": (5, 5, {}),
    "17-bom/llamafactory_folder": (5, 5, {}),
    "35-tool-call-ids/swapped.jsonl": (1, 1, {}),
    "38-timestamps-and-decimals/bytes.parquet": (4, 0, {"a value that JSON does not have": 4}),
    "38-timestamps-and-decimals/date.parquet": (4, 0, {"a value that JSON does not have": 4}),
    "38-timestamps-and-decimals/decimal.parquet": (4, 0, {"a value that JSON does not have": 4}),
    "38-timestamps-and-decimals/inferred.parquet": (4, 0, {"a value that JSON does not have": 4}),
    "38-timestamps-and-decimals/timestamp.parquet": (4, 0, {"a value that JSON does not have": 4}),
    "38-timestamps-and-decimals/tool_default.parquet": (4, 0, {"a value that JSON does not have": 4}),
    "41-half-a-surrogate/None.jsonl": (8, 8, {}),
    "41-half-a-surrogate/answer.jsonl": (8, 7, {"text that is not Unicode": 1}),
    "41-half-a-surrogate/argument.jsonl": (8, 7, {"broken tool call": 1}),
    "41-half-a-surrogate/question.jsonl": (8, 7, {"text that is not Unicode": 1}),
    "41-half-a-surrogate/tool.jsonl": (8, 7, {"broken JSON": 1}),
}


def inspected(source: Path) -> list[dict[str, Any]]:
    """What the command says of each record."""
    result = CliRunner().invoke(app, ["data", "inspect", str(source), "--format", "json"])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def reasons(lines: list[dict[str, Any]]) -> Counter[str]:
    return Counter(line["left_out"].partition(":")[0] for line in lines if line["left_out"])


@pytest.fixture(scope="module")
def filler(tmp_path_factory) -> Path:
    """Good records: a curation wants three samples at least."""
    path = tmp_path_factory.mktemp("filler") / "rows.parquet"
    write_records(path, 20, 1, mock_response)
    return path


@pytest.fixture(scope="module")
def filled(filler, tmp_path_factory) -> Manifest:
    return curate([filler], tmp_path_factory.mktemp("filled"), **SIZES)


def curated(source: Path, filler: Path, filled: Manifest, out: Path) -> tuple[int, int, Counter[str]]:
    manifest = curate([source, filler], out, **SIZES)
    left_out = Counter(manifest.rejected) + Counter(manifest.filtered) - Counter(filled.filtered)
    return manifest.read - filled.read, manifest.samples - filled.samples, left_out


@pytest.mark.skipif(not CASES.is_dir(), reason="the inputs in ../shared/cases are not part of a clone")
@pytest.mark.parametrize("name", EXPECTED)
def test_each_input_is_taken_or_left_out_as_the_table_says(name, filler, filled, tmp_path):
    read, samples, left_out = EXPECTED[name]
    lines = inspected(CASES / name)
    assert (len(lines), reasons(lines)) == (read, left_out)
    # Two of the records ask the same of the same tools: the sets are counted with repetitions.
    assert curated(CASES / name, filler, filled, tmp_path) == (read, samples, left_out)


@pytest.mark.skipif(not CASES.is_dir(), reason="the inputs in ../shared/cases are not part of a clone")
def test_a_parquet_file_of_structs_reads_as_the_same_rows_in_json_lines():
    folder = CASES / "08-arrow-none-padding"
    rows, table = ([{**line, "file": ""} for line in inspected(folder / f"rows.{suffix}")] for suffix in ("jsonl", "parquet"))
    assert rows == table


# The same kinds in words of our own, for where those inputs are not.
LAMP = {
    "name": "lamp",
    "description": "Switches a lamp.",
    "parameters": {"type": "object", "properties": {"room": {"type": "string"}, "on": {"type": "boolean"}}, "required": ["room"]},
}
CALL = {"name": "lamp", "arguments": {"room": "hall", "on": True}}


def conversation(*turns: tuple[str, Any], tools: Any = (LAMP,), **columns: Any) -> dict[str, Any]:
    listed = [{"from": speaker, "value": value if isinstance(value, str) else json.dumps(value)} for speaker, value in turns]
    return {"conversations": listed, "tools": tools if isinstance(tools, str) else json.dumps(list(tools)), **columns}


def lamp(*, question: str = "Light in the hall?", call: Any = CALL, tools: Any = (LAMP,), **columns: Any) -> dict[str, Any]:
    return conversation(
        ("human", question), ("function_call", call), ("observation", "ok"), ("gpt", "It is on."), tools=tools, **columns
    )


def with_parameters(parameters: Any, **arguments: Any) -> dict[str, Any]:
    return lamp(tools=[{"name": "lamp", "parameters": parameters}], call={"name": "lamp", "arguments": arguments})


def written(folder: Path, *records: Any, name: str = "rows.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def one(folder: Path, record: Any) -> dict[str, Any]:
    (line,) = inspected(written(folder, record))
    return line


def parameters_of(line: dict[str, Any]) -> dict[str, Any]:
    return line["tools"][0]["function"]["parameters"]


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "lamp", "inputSchema": LAMP["parameters"]},
        {"name": "lamp", "input_schema": LAMP["parameters"]},
        {"type": "function", "function": {"name": "lamp"}, "inputSchema": LAMP["parameters"]},
        {"type": "function", "function": {"name": "lamp", "parametersJsonSchema": LAMP["parameters"]}},
        {"name": "lamp", "parameters": json.dumps(LAMP["parameters"])},
    ],
)
def test_a_schema_is_kept_whatever_it_is_called_and_wherever_it_stands(tmp_path, tool):
    assert parameters_of(one(tmp_path, lamp(tools=[tool]))) == LAMP["parameters"]


@pytest.mark.parametrize("place", ["function", "tool"])
def test_the_schema_of_a_tools_output_is_kept(tmp_path, place):
    output = {"type": "object", "properties": {"on": {"type": "boolean"}}}
    tool = {**LAMP, "outputSchema": output} if place == "tool" else {"function": {**LAMP, "output_schema": output}}
    assert one(tmp_path, lamp(tools=[tool]))["tools"][0]["function"]["outputSchema"] == output


@pytest.mark.parametrize(
    ("tool", "named"),
    [
        ({"name": "lamp", "schema": LAMP["parameters"]}, "schema"),
        (
            {"name": "lamp", "parameters": LAMP["parameters"], "inputSchema": {"type": "object"}},
            "parameters and inputSchema differ",
        ),
        ({"name": "lamp", "parameters": {"type": "object", "room": {"type": "string"}}}, "room"),
        ({"name": "lamp", "parameters": {"room": "which one"}}, "room"),
        ({"name": "lamp", "parameters": {"room": {"type": "Callable"}}}, "parameters.room"),
        ({"name": "lamp", "parameters": {"type": "string"}}, "of type 'string'"),
    ],
)
def test_a_definition_whose_schema_cannot_be_told_is_rejected_by_its_field(tmp_path, tool, named):
    left_out = one(tmp_path, lamp(tools=[tool]))["left_out"]
    assert named in left_out
    assert "lamp" in left_out


@pytest.mark.parametrize("column", ["system", "system_prompt"])
@pytest.mark.parametrize("make", ["sharegpt", "messages", "verl"])
def test_a_system_column_becomes_the_system_message_in_every_format(tmp_path, column, make):
    text = "Answer in Celsius. Never book anything."
    messages = [{"role": "user", "content": "Light?"}, {"role": "assistant", "content": "", "tool_calls": [{"function": CALL}]}]
    messages += [{"role": "tool", "content": "ok"}, {"role": "assistant", "content": "On."}]
    record = {
        "sharegpt": lamp(),
        "messages": {"messages": messages, "tools": [LAMP]},
        "verl": {
            "prompt": messages[:1],
            "tools": [LAMP],
            "reward_model": {"ground_truth": {"gold_tool_calls": [[CALL]]}},
        },
    }[make]
    assert one(tmp_path, {**record, column: text})["system"] == text


def test_a_system_column_that_differs_from_the_system_message_is_rejected(tmp_path):
    record = conversation(("system", "Be brief."), ("human", "Hi"), ("gpt", "Hi."), system="Be long.")
    assert "system and the first message" in one(tmp_path, record)["left_out"]


TOOL_LIST = json.dumps([{"type": "function", "function": LAMP}])


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("You run the lamp and the lamplight. Today is Monday.", "You run the lamp and the lamplight. Today is Monday."),
        ("Policy: call lamp only once.", "Policy: call lamp only once."),
        (TOOL_LIST, ""),
        (f"<tools>\n{TOOL_LIST}\n</tools>", ""),
        ("<|im_system|>tool_declare<|im_middle|>lamp: no JSON<|im_end|>", ""),
        ("<|im_system|>tool_declare<|im_middle|>[<|im_end|><|im_system|>system<|im_middle|>Be brief.<|im_end|>", "Be brief."),
        (f"Be brief.\n\n# Tools\n\n<tools>\n{TOOL_LIST}\n</tools>", "Be brief."),
        (json.dumps([{"name": "siren"}]), json.dumps([{"name": "siren"}])),
        (" ", ""),
    ],
)
def test_of_a_system_message_only_a_list_of_tools_goes(tmp_path, text, kept):
    record = conversation(("system", text), ("human", "Light?"), ("function_call", CALL), ("observation", "ok"), ("gpt", "On."))
    assert one(tmp_path, record)["system"] == kept


@pytest.mark.parametrize(
    ("content", "arguments"),
    [
        ('{"name": "lamp", "arguments": {"room": "a\\/b", "on": true}}', {"room": "a/b", "on": True}),
        ('{"name": "lamp", "arguments": "{\\"room\\": \\"hall\\", \\"on\\": null}"}', {"room": "hall", "on": None}),
        ("{'name': 'lamp', 'arguments': '{\"room\": \"hall\"}'}", {"room": "hall"}),
        ("{'name': 'lamp', 'arguments': {'room': 'hall', 'on': True}}", {"room": "hall", "on": True}),
    ],
)
@pytest.mark.parametrize("role", ["tool_call", "function_call"])
def test_a_call_turn_is_json_first_and_a_python_literal_second(tmp_path, role, content, arguments):
    turns = [("user", "Light?"), (role, content), ("tool_response", "ok"), ("assistant", "On.")]
    tools = [{"name": "lamp", "parameters": {"type": "object", "properties": {"room": {}, "on": {}}}}]
    record = {"messages": [{"role": speaker, "content": text} for speaker, text in turns], "tools": tools}
    assert one(tmp_path, record)["gold"] == [[{"name": "lamp", "arguments": arguments}]]


@pytest.mark.parametrize(
    ("answers", "read"),
    [
        (["[1, 2]", "[3]"], ["[1, 2]", "[3]"]),
        (['[{"on": true}, {"on": false}]'], ['{"on": true}', '{"on": false}']),
        (['[{"content": "x", "status": 200}, null]'], ['{"content": "x", "status": 200}', ""]),
        (['[{"content": "x"}, {"content": "y"}]'], ["x", "y"]),
    ],
)
def test_answers_to_parallel_calls_stay_whole(tmp_path, answers, read):
    turns = [("human", "Both?"), ("function_call", [CALL, CALL]), *(("observation", text) for text in answers), ("gpt", "Done.")]
    assert one(tmp_path, conversation(*turns))["answers"] == read


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("field", ["call", "tools"])
def test_a_number_that_json_does_not_have_is_rejected(tmp_path, constant, field):
    call = f'{{"name": "lamp", "arguments": {{"room": "hall", "on": {constant}}}}}'
    tools = f'[{{"name": "lamp", "parameters": {{"properties": {{"room": {{"default": {constant}}}}}}}}}]'
    left_out = one(tmp_path, lamp(**{field: {"call": call, "tools": tools}[field]}))["left_out"]
    assert "non-finite" in left_out
    assert ("conversations[1]" if field == "call" else "tools") in left_out


def test_a_number_that_json_does_not_have_is_rejected_in_the_record_itself_too(tmp_path):
    messages = [{"role": "user", "content": "Light?"}]
    messages += [{"role": "assistant", "tool_calls": [{"function": {"name": "lamp", "arguments": {"room": float("nan")}}}]}]
    line = one(tmp_path, {"messages": messages, "tools": [LAMP]})
    assert line["left_out"] == "a value that JSON does not have: messages[1].tool_calls[0].arguments.room is nan"


def test_a_nan_in_a_column_that_nobody_reads_harms_nothing(tmp_path):
    line = one(tmp_path, {**lamp(), "score": float("nan"), "messages": float("nan"), "uuid": None})
    assert (line["left_out"], line["format"]) == (None, "sharegpt")


@pytest.mark.parametrize("text", ['{"name": "lamp", "arguments": {"room": "a", "room": "b"}}', "{'name': 'lamp', 'name': 'lamp'}"])
def test_a_key_that_stands_twice_is_rejected(tmp_path, text):
    assert one(tmp_path, lamp(call=text))["left_out"].startswith("broken tool call: conversations[1]")


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json"])
def test_a_key_that_stands_twice_in_a_record_spoils_that_record_alone(tmp_path, name):
    texts = [json.dumps(lamp()), '{"conversations": [], "tools": "", "tools": ""}', json.dumps(lamp(question="And now?"))]
    (tmp_path / name).write_text(f"[{','.join(texts)}]" if name.endswith(".json") else "\n".join(texts), encoding="utf-8")
    lines = inspected(tmp_path / name)
    assert [line["left_out"] for line in lines] == [None, "broken JSON: the key 'tools' stands twice in one object", None]


@pytest.mark.parametrize(
    ("parameters", "properties", "required"),
    [
        (
            {"room": {"type": "str", "default": "hall"}, "level": {"type": "int, optional"}},
            {"room": {"type": "string", "default": "hall"}, "level": {"type": "integer"}},
            None,
        ),
        ({"type": {"type": "str"}, "room": {"type": "str"}}, {"type": {"type": "string"}, "room": {"type": "string"}}, None),
        (
            {"items": {"type": "List[str]"}},
            {"items": {"type": "array", "items": {"type": "string"}}},
            None,
        ),
        ({"required": {"type": "bool", "required": True}}, {"required": {"type": "boolean"}}, ["required"]),
        ({"properties": {"type": "dict", "description": "d"}}, {"properties": {"type": "object", "description": "d"}}, None),
        ({"default": {"description": "x"}}, {"default": {"description": "x"}}, None),
        (
            {"a": {"type": "Optional[int]"}, "b": {"type": "Dict[str, float]"}, "c": {"type": "Union[int, List[str]]"}},
            {
                "a": {"type": ["integer", "null"]},
                "b": {"type": "object", "additionalProperties": {"type": "number"}},
                "c": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}]},
            },
            None,
        ),
    ],
)
def test_flat_parameters_are_properties_whatever_they_are_called(tmp_path, parameters, properties, required):
    schema = parameters_of(one(tmp_path, with_parameters(parameters)))
    assert schema["properties"] == properties
    assert schema.get("required") == required


@pytest.mark.parametrize(
    ("part", "mended"),
    [
        ({"type": "number", "minimum": 0, "exclusiveMinimum": True}, {"type": "number", "exclusiveMinimum": 0}),
        ({"type": "number", "maximum": 9, "exclusiveMaximum": False}, {"type": "number", "maximum": 9}),
        ({"type": "any"}, {}),
        ({"type": ["str", "null"]}, {"type": ["string", "null"]}),
        ({"anyOf": [{"type": "int"}, {"type": "null"}]}, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (
            {"type": "object", "additionalProperties": {"type": "str"}},
            {"type": "object", "additionalProperties": {"type": "string"}},
        ),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "array", "items": [{"type": "int"}]}, {"type": "array", "prefixItems": [{"type": "integer"}]}),
        ({"type": "string", "enum": None, "default": None}, {"type": "string", "default": None}),
        ({"const": {"type": "dict"}}, {"const": {"type": "dict"}}),
    ],
)
def test_a_schema_in_older_words_is_put_into_todays_and_counted(tmp_path, part, mended):
    line = one(tmp_path, with_parameters({"type": "object", "properties": {"n": part}}))
    assert parameters_of(line)["properties"] == {"n": mended}
    assert bool(line["repaired"]) == (part != mended)


def test_a_propertys_own_required_flag_goes_into_its_parents_list(tmp_path):
    parts = {"a": {"type": "string", "required": True}, "b": {"type": "string", "required": False}, "c": {"type": "string"}}
    schema = parameters_of(one(tmp_path, with_parameters({"type": "object", "properties": parts}, a="x")))
    assert schema == {"type": "object", "properties": {key: {"type": "string"} for key in "abc"}, "required": ["a"]}


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object", "properties": {"n": {"type": "string", "enum": "a, b"}}},
        {"type": "object", "properties": {"n": {}}, "required": "n"},
        {"type": "object", "properties": [{"name": "n"}]},
        {"type": "object", "properties": {"n": {"type": "number", "exclusiveMinimum": True}}},
        {"type": "object", "properties": {"n": {"$ref": "https://example.com/n.json"}}},
        {"type": "object", "properties": {"n": {"pattern": "("}}},
    ],
)
def test_a_tool_that_no_validator_can_be_made_of_is_quarantined_unless_it_is_to_be_kept(tmp_path, filler, filled, parameters):
    source = written(tmp_path, with_parameters(parameters))
    assert reasons(inspected(source)) == {UNUSABLE: 1}
    assert curated(source, filler, filled, tmp_path / "out") == (1, 0, Counter({UNUSABLE: 1}))
    entry = json.loads((tmp_path / "out" / "quarantine.jsonl").read_text().splitlines()[-1])
    assert entry["detail"].startswith("parameters of 'lamp':")
    kept = curate([source, filler], tmp_path / "kept", **SIZES, keep_invalid=True)
    assert (kept.samples, kept.findings) == (filled.samples + 1, {UNUSABLE: 1})


def test_gold_that_its_own_schema_refuses_is_quarantined_unless_it_is_to_be_kept(tmp_path, filler, filled):
    source = written(tmp_path, lamp(call={"name": "lamp", "arguments": {"on": "yes"}}))
    assert curated(source, filler, filled, tmp_path / "out") == (1, 0, Counter({REFUSED: 1}))
    kept = curate([source, filler], tmp_path / "kept", **SIZES, keep_invalid=True)
    assert (kept.samples, kept.findings) == (filled.samples + 1, {REFUSED: 1})


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b""])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json", "lines.json"])
def test_a_byte_order_mark_and_windows_line_ends_are_no_part_of_the_data(tmp_path, mark, end, name):
    texts = [json.dumps(lamp(question=question)).encode() for question in ("One?", "Two?")]
    body = b"[" + b",".join(texts) + b"]" if name == "rows.json" else end.join([*texts, b""])
    (tmp_path / name).write_bytes(mark + body)
    assert [line["question"] for line in inspected(tmp_path / name)] == [["One?"], ["Two?"]]


def test_two_files_put_together_with_their_byte_order_marks_are_read(tmp_path):
    text = "\ufeff" + json.dumps(lamp()) + "\n"
    (tmp_path / "rows.jsonl").write_text(text + text, encoding="utf-8")
    assert [line["left_out"] for line in inspected(tmp_path / "rows.jsonl")] == [None, None]


def test_a_table_of_contents_beside_the_data_is_no_data(tmp_path):
    written(tmp_path, lamp())
    for name in ("dataset_info.json", "state.json"):
        (tmp_path / name).write_text('{"mine": {"file_name": "rows.jsonl"}}', encoding="utf-8")
    assert len(inspected(tmp_path)) == 1


def test_a_file_of_one_record_is_one_record(tmp_path):
    (tmp_path / "one.json").write_text(json.dumps(lamp(), indent=1), encoding="utf-8")
    assert [line["left_out"] for line in inspected(tmp_path / "one.json")] == [None]


def test_a_line_that_is_not_utf8_spoils_that_line_alone(tmp_path):
    good = json.dumps(lamp()).encode()
    (tmp_path / "rows.jsonl").write_bytes(good + b"\n" + good[:40] + b"\xff" + good[40:] + b"\n" + good)
    assert [line["left_out"] for line in inspected(tmp_path / "rows.jsonl")] == [
        None,
        "text that is not Unicode: the line is not UTF-8",
        None,
    ]


def answered(*answers: dict[str, Any], ids: tuple[str | None, ...] = ("a", "b")) -> dict[str, Any]:
    calls = [{"id": name, "function": {**CALL, "name": tool}} for name, tool in zip(ids, ("lamp", "siren"), strict=True)]
    messages = [{"role": "user", "content": "Both?"}, {"role": "assistant", "content": None, "tool_calls": calls}]
    messages += [{"role": "tool", **answer} for answer in answers]
    return {"messages": [*messages, {"role": "assistant", "content": "Done."}], "tools": [LAMP, {**LAMP, "name": "siren"}]}


def test_an_answer_goes_to_the_call_whose_id_it_bears(tmp_path):
    record = answered({"tool_call_id": "b", "content": "second"}, {"tool_call_id": "a", "content": "first"})
    assert one(tmp_path, record)["answers"] == ["first", "second"]


@pytest.mark.parametrize("name", ["call_id", "tool_use_id"])
def test_an_id_may_be_called_otherwise(tmp_path, name):
    record = answered({name: "b", "content": "second"}, {name: "a", "content": "first"})
    assert one(tmp_path, record)["answers"] == ["first", "second"]


def test_ids_in_a_list_of_answers_and_a_list_of_calls_count_too(tmp_path):
    made = [{"id": "a", "name": "lamp", "arguments": {"room": "x"}}, {"id": "b", "name": "lamp", "arguments": {"room": "y"}}]
    answers = [{"tool_call_id": "b", "content": "second"}, {"tool_call_id": "a", "content": "first"}]
    record = conversation(("human", "Both?"), ("function_call", made), ("observation", answers), ("gpt", "Done."))
    assert one(tmp_path, record)["answers"] == ["first", "second"]


@pytest.mark.parametrize("padding", [None, [], ""])
def test_a_column_padded_with_nothing_is_not_there(tmp_path, padding):
    line = one(tmp_path, {**lamp(), "messages": padding, "available_tools": padding, "images": padding, "system": padding})
    assert (line["left_out"], line["format"]) == (None, "sharegpt")


def test_without_ids_an_answer_goes_to_the_call_whose_name_it_bears(tmp_path):
    record = answered({"name": "siren", "content": "second"}, {"name": "lamp", "content": "first"}, ids=(None, None))
    assert one(tmp_path, record)["answers"] == ["first", "second"]


def test_ids_of_answers_lead_nowhere_where_no_call_bears_one(tmp_path):
    record = answered({"tool_call_id": "x", "content": "first"}, {"tool_call_id": "y", "content": "second"}, ids=(None, None))
    assert one(tmp_path, record)["answers"] == ["first", "second"]


def test_with_neither_answers_stand_in_the_order_of_the_calls(tmp_path):
    assert one(tmp_path, answered({"content": "first"}, {"content": "second"}))["answers"] == ["first", "second"]


@pytest.mark.parametrize(
    ("record", "named"),
    [
        (answered({"tool_call_id": "c", "content": ""}, {"tool_call_id": "a", "content": ""}), "'c'"),
        (answered({"tool_call_id": "a", "content": ""}, {"tool_call_id": "a", "content": ""}), "answered twice"),
        (answered({"tool_call_id": "a", "content": ""}, {"content": ""}), "tool_call_id None"),
        (answered({"tool_call_id": "a", "content": ""}, {"tool_call_id": "a", "content": ""}, ids=("a", "a")), "the same id"),
        (answered({"name": "horn", "content": ""}, {"name": "lamp", "content": ""}), "'horn'"),
        (answered({"name": "lamp", "content": ""}, {"name": "lamp", "content": ""}), "names"),
    ],
)
def test_an_answer_that_fits_no_call_is_rejected(tmp_path, record, named):
    left_out = one(tmp_path, record)["left_out"]
    assert left_out.startswith("an answer that fits no call")
    assert named in left_out


@pytest.mark.parametrize("beside", [{"arguments": {"room": "hall"}}, {"name": "horn"}, {"call_id": "a"}])
def test_what_stands_beside_the_function_of_a_call_is_not_dropped(tmp_path, beside):
    record = answered({"content": "on"}, {"content": "off"}, ids=(None, None))
    record["messages"][1]["tool_calls"][1] |= beside
    assert f"tool_calls.{next(iter(beside))} is not read" in one(tmp_path, record)["left_out"]


def _messages(argument: Any, default: Any = None) -> dict[str, Any]:
    call = {"function": {"name": "book", "arguments": {"day": argument}}}
    tool = {"name": "book", "parameters": {"type": "object", "properties": {"day": {"type": "string", "default": default}}}}
    turns = [{"role": "user", "content": "Book."}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    return {"messages": [*turns, {"role": "tool", "content": "ok"}, {"role": "assistant", "content": "Booked."}], "tools": [tool]}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (pa.scalar(1_700_000_000, pa.timestamp("s")), "a timestamp"),
        (pa.scalar(1_700_000_000_000_000_001, pa.timestamp("ns")), "a timestamp"),
        (pa.scalar(2**60, pa.timestamp("ms")), "cannot be read"),
        (pa.scalar(19_000, pa.date32()), "a date"),
        (pa.scalar(60, pa.time32("s")), "a time"),
        (pa.scalar(60, pa.duration("s")), "a duration"),
        (pa.scalar(Decimal("3.50")), "a decimal"),
        (pa.scalar(b"\xff\x00"), "binary"),
    ],
    ids=lambda value: str(getattr(value, "type", value)),
)
@pytest.mark.parametrize("place", ["argument", "default", "column"])
def test_a_type_that_json_does_not_have_is_rejected_where_it_is_read(tmp_path, value, kind, place):
    day = pa.StructArray.from_arrays([pa.array([value], value.type)], ["day"])
    base = pa.Table.from_pylist([_messages("x", "y")])
    if place == "column":
        table = base.append_column("made", pa.array([value], value.type))
    else:
        wrapped = _wrapped_call(day) if place == "argument" else _wrapped_tool(pa.array([value], value.type))
        table = base.set_column(base.column_names.index("messages" if place == "argument" else "tools"), *wrapped)
    pq.write_table(table, tmp_path / "rows.parquet", use_deprecated_int96_timestamps=False)
    (line,) = inspected(tmp_path / "rows.parquet")
    if place == "column":
        assert line["left_out"] is None
    else:
        assert (line["left_out"] or "").startswith("a value that JSON does not have: ")
        assert kind in line["left_out"]


def _wrapped_call(arguments: pa.StructArray) -> tuple[str, pa.Array]:
    call = pa.StructArray.from_arrays([pa.array(["book"]), arguments], ["name", "arguments"])
    calls = pa.ListArray.from_arrays([0, 1], pa.StructArray.from_arrays([call], ["function"]))
    turns = pa.StructArray.from_arrays(
        [pa.array(["user", "assistant"]), pa.array(["Book.", ""]), pa.concat_arrays([pa.nulls(1, calls.type), calls])],
        ["role", "content", "tool_calls"],
    )
    return "messages", pa.ListArray.from_arrays([0, 2], turns)


def _wrapped_tool(default: pa.Array) -> tuple[str, pa.Array]:
    day = pa.StructArray.from_arrays([pa.array(["string"]), default], ["type", "default"])
    parameters = pa.StructArray.from_arrays([pa.StructArray.from_arrays([day], ["day"])], ["properties"])
    tool = pa.StructArray.from_arrays([pa.array(["book"]), parameters], ["name", "parameters"])
    return "tools", pa.ListArray.from_arrays([0, 1], tool)


def test_nulls_that_arrow_pads_structs_with_are_not_there(tmp_path):
    lamps = {"messages": answered({"content": "x"}, {"content": "y"})["messages"], "tools": [LAMP, {**LAMP, "name": "siren"}]}
    rows = [_messages("2026-03-04"), lamps]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    table = [{**line, "file": ""} for line in inspected(tmp_path / "rows.parquet")]
    # A null of the record's own cannot be told from padding in a table; here `default` is one.
    del rows[0]["tools"][0]["parameters"]["properties"]["day"]["default"]
    assert table == [{**line, "file": ""} for line in inspected(written(tmp_path, *rows))]
    assert table[0]["gold"] == [[{"name": "book", "arguments": {"day": "2026-03-04"}}]]


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_a_rows_format_is_told_by_the_fields_it_fills(tmp_path, suffix):
    toucan = {
        "uuid": "u",
        "subset_name": "single-turn-original",
        "tools": json.dumps([LAMP]),
        "messages": json.dumps(lamp_messages()),
    }
    teacher = {"uuid": "v", "available_tools": json.dumps([LAMP]), "messages": json.dumps(lamp_messages())}
    rows = [toucan, teacher, {**lamp(), "conversations": json.dumps(lamp()["conversations"])}]
    padded = [{key: row.get(key) for other in rows for key in other} for row in rows]
    if suffix == "parquet":
        pq.write_table(pa.Table.from_pylist(padded), tmp_path / "rows.parquet")
    else:
        written(tmp_path, *padded)
    assert [line["format"] for line in inspected(tmp_path / f"rows.{suffix}")] == ["toucan-sft", "toucan-teacher", "sharegpt"]


def lamp_messages() -> list[dict[str, str]]:
    turns = [("user", "Light?"), ("tool_call", json.dumps(CALL)), ("tool_response", "ok"), ("assistant", "On.")]
    return [{"role": role, "content": content} for role, content in turns]


HALF = "\ud83d"


@pytest.mark.parametrize(
    ("record", "named"),
    [
        (lamp(question=f"Hi{HALF}"), "messages[0].content"),
        (conversation(("human", "Hi"), ("function_call", CALL), ("observation", HALF), ("gpt", "On.")), "messages[2].content"),
        (lamp(call={"name": "lamp", "arguments": {"room": HALF}}), "conversations[1]"),
        (lamp(call={"name": "lamp", "arguments": {HALF: 1}}), "conversations[1]"),
        (lamp(tools=[{**LAMP, "description": HALF}]), "tools"),
        ({"messages": lamp_messages(), "tools": [{**LAMP, "description": HALF}]}, "tools[0].description"),
        ({"messages": lamp_messages(), "tools": [LAMP], "uuid": HALF}, "id"),
        (lamp(system=HALF), "messages[0].content"),
    ],
)
def test_half_a_surrogate_pair_is_rejected_wherever_it_stands(tmp_path, record, named):
    left_out = one(tmp_path, record)["left_out"]
    assert "not-unicode" in left_out or "half a surrogate" in left_out
    assert named in left_out


def parts(*content: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(content)}, {"role": "assistant", "content": "Hi."}], "tools": [LAMP]}


@pytest.mark.parametrize(
    ("record", "named"),
    [
        (conversation(("human", "Hi"), ("gpt", f"<tool_call>{json.dumps(CALL)}</tool_call>")), "conversations[1]: <tool_call>"),
        (conversation(("human", "Hi"), ("gpt", '<functioncall> {"name": "lamp"}')), "<functioncall>"),
        (conversation(("human", "Hi"), ("function_call", CALL), ("tool", "<tool_response>1</tool_response>")), "<tool_response>"),
        (parts({"type": "image_url", "image_url": {"url": "x"}}), "messages[0].content[0]"),
        (parts({"type": "tool_use", "name": "lamp", "input": {}}), "tool_use"),
        ({**lamp(), "messages": lamp_messages()}, "conversations and messages"),
        ({**lamp(), "images": ["a.png"]}, "images"),
        ({**lamp(), "chosen": {"from": "gpt", "value": "x"}}, "chosen"),
        (
            {"messages": [*lamp_messages()[:3], {"role": "assistant", "tool_uses": [CALL]}], "tools": [LAMP]},
            "messages[3].tool_uses",
        ),
        ({"messages": [{"role": "user", "content": "Hi", "images": ["a"]}], "tools": [LAMP]}, "messages[0].images"),
        ({"messages": [{"role": "user", "content": "Hi", "tool_calls": [CALL]}], "tools": [LAMP]}, "messages[0]"),
        (lamp(call={"name": "lamp", "input": {"room": "x"}}), "input"),
        ({"messages": lamp_messages(), "tools": [LAMP], "available_tools": [{"name": "siren"}]}, "available_tools and tools"),
        ({"messages": lamp_messages(), "tools": [LAMP], "uuid": {"a": 1}}, "uuid"),
        ({"messages": lamp_messages(), "tools": [LAMP], "subset_name": 7}, "subset_name"),
        (conversation(("human", "Hi"), ("narrator", "x")), "'narrator'"),
    ],
)
def test_what_a_reader_does_not_take_up_is_rejected_by_its_field(tmp_path, record, named):
    assert named in one(tmp_path, record)["left_out"]


def test_a_user_and_a_tool_may_talk_of_tags(tmp_path):
    record = conversation(
        ("human", "What is a <tool_call> tag?"), ("function_call", CALL), ("observation", "See [TOOL_CALLS]."), ("gpt", "A tag.")
    )
    line = one(tmp_path, record)
    assert (line["question"], line["answers"]) == (["What is a <tool_call> tag?"], ["See [TOOL_CALLS]."])


def test_openais_messages_are_read_with_their_content_parts_and_the_developers_role(tmp_path):
    messages = [
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": [{"type": "text", "text": "Light"}, {"type": "text", "text": "please"}]},
        {"role": "assistant", "content": None, "refusal": None, "tool_calls": [{"id": "a", "type": "function", "function": CALL}]},
        {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "ok"}]},
        {"role": "assistant", "content": "On.", "reasoning_content": "Hm.", "weight": 1},
    ]
    line = one(tmp_path, {"messages": messages, "functions": [LAMP]})
    assert (line["left_out"], line["system"], line["question"]) == (None, "Be brief.", ["Light\nplease"])
    assert (line["gold"], line["answers"], line["final"]) == ([[CALL]], ["ok"], "On.")


def _toucan(question: str, uuid: str = "u") -> dict[str, Any]:
    messages = [{"role": "user", "content": question}, *lamp_messages()[1:]]
    return {"uuid": uuid, "subset_name": "single-turn-original", "tools": json.dumps([LAMP]), "messages": json.dumps(messages)}


def test_different_records_under_one_id_are_both_quarantined_and_equal_ones_counted(tmp_path, filler, filled):
    rows = [_toucan("One?"), _toucan("Two?"), _toucan("Three?", "v"), _toucan("Three?", "v"), _toucan("Four?")]
    expected = (5, 1, Counter({"different records under one id": 3, "duplicate record": 1}))
    assert curated(written(tmp_path, *rows), filler, filled, tmp_path / "out") == expected
    assert curated(written(tmp_path, *reversed(rows)), filler, filled, tmp_path / "back") == expected
    entries = map(json.loads, (tmp_path / "out" / "quarantine.jsonl").read_text().splitlines())
    assert sorted(entry["position"] for entry in entries if entry["reason"] == "different records under one id") == [1, 2, 5]


def test_two_verl_rows_of_one_question_and_other_gold_are_two_samples(tmp_path, filler, filled):
    rows = [
        {
            "prompt": [{"role": "user", "content": "Light?"}],
            "tools": [LAMP],
            "reward_model": {"ground_truth": {"gold_tool_calls": [[{"name": "lamp", "arguments": {"room": room}}]]}},
        }
        for room in ("hall", "attic", "hall")
    ]
    expected = (3, 2, Counter({"duplicate record": 1}))
    assert curated(written(tmp_path, *rows), filler, filled, tmp_path / "out") == expected


def test_a_line_of_text_moves_no_cursor_and_is_no_markup(tmp_path):
    path = written(tmp_path, lamp(question="[/x] [red]a\u001b[31m\u202eb"))
    result = CliRunner().invoke(app, ["data", "inspect", str(path)])
    assert "[/x] [red]a\\x1b[31m\\u202eb" in result.stdout
    assert len(result.stdout.splitlines()) == 1


def test_a_limit_looks_at_so_many_records_and_no_more(tmp_path):
    path = written(tmp_path, *(lamp(question=f"{at}?") for at in range(5)))
    result = CliRunner().invoke(app, ["data", "inspect", str(path), "--limit", "2", "--format", "json"])
    assert len(result.stdout.splitlines()) == 2
