"""Readers: every supported format becomes the same values, and a bad record is an outcome rather than a crash."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slca_core.conversation.dialogue import Dialogue, Message, Sample, ToolCall
from slca_core.curation.readers import Parsed, Rejected, RejectReason, read_record, read_source
from slca_core.curation.readers.records import MAX_LITERAL_CHARS, RecordError, call_of, parse_literal
from slca_core.errors import DataError

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the real records in ../shared/data are not part of a clone")

TOOL = {
    "name": "weather-now",
    "description": "Weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
TOOLS = json.dumps([{"type": "function", "function": TOOL}])
CALLS = (ToolCall("weather-now", {"city": "Oslo"}), ToolCall("weather-now", {"city": "Rome"}))
PARALLEL = (
    Message("user", "Weather in Oslo and Rome?"),
    Message("assistant", "Let me look.", CALLS),
    Message("tool", "17"),
    Message("tool", "21"),
    Message("assistant", "Oslo 17, Rome 21."),
)


def _call_repr(call: ToolCall) -> str:
    return repr({"name": call.name, "arguments": json.dumps(call.arguments)})


def _sft(messages: list[dict], /, **columns: str) -> dict[str, str]:
    return {"uuid": "u1", "subset_name": "single-turn-original", "tools": TOOLS, "messages": json.dumps(messages)} | columns


def _toucan_sft() -> dict:
    return _sft(
        [
            {"role": "user", "content": PARALLEL[0].content},
            {"role": "assistant", "content": "Let me look."},
            *({"role": "tool_call", "content": _call_repr(call)} for call in CALLS),
            {"role": "tool_response", "content": "17"},
            {"role": "tool_response", "content": "21"},
            {"role": "assistant", "content": PARALLEL[4].content},
        ]
    )


def _teacher() -> dict:
    functions = [{"name": call.name, "arguments": json.dumps(call.arguments)} for call in CALLS]
    messages = [
        {"role": "system", "content": "<|im_system|>tool_declare<|im_middle|>weather-now: not JSON<|im_end|>"},
        {"role": "user", "content": PARALLEL[0].content},
        {"role": "assistant", "content": "Let me look.", "function_call": functions[0]},
        {"role": "assistant", "content": "", "function_call": functions[1]},
        {"role": "function", "name": "weather-now", "content": "17"},
        {"role": "function", "name": "weather-now", "content": "21"},
        {"role": "assistant", "content": PARALLEL[4].content},
    ]
    return {"uuid": "u1", "subset_name": "single-turn-original", "available_tools": TOOLS, "messages": json.dumps(messages)}


def _sharegpt() -> dict:
    turns = [
        ("human", PARALLEL[0].content),
        ("gpt", "Let me look."),
        ("function_call", json.dumps([call.to_json() for call in CALLS])),
        ("observation", "[17, 21]"),
        ("gpt", PARALLEL[4].content),
    ]
    return {"conversations": [{"from": speaker, "value": value} for speaker, value in turns], "tools": json.dumps([TOOL])}


def _parts() -> dict:
    calls = [{"type": "tool_call", "value": json.dumps(call.to_json())} for call in CALLS]
    text = [{"type": "reasoning", "value": "Hm."}, {"type": "text", "value": "Let me look."}]
    messages = [
        {"role": "user", "content": [{"type": "text", "value": PARALLEL[0].content}]},
        {"role": "assistant", "content": [*text, *calls]},
        {"role": "tool", "content": [{"type": "text", "value": json.dumps([{"content": "17"}, {"content": "21"}])}]},
        {"role": "assistant", "content": [{"type": "text", "value": PARALLEL[4].content}]},
    ]
    return {"messages": messages, "tools": TOOLS}


def _verl(gold: object, **changes: object) -> dict:
    blocks = "".join(f"<tool_call>\n{json.dumps(call.to_json())}\n</tool_call>" for call in CALLS)
    prompt = [
        {"role": "system", "content": f"<tools>{TOOLS}</tools>"},
        {"role": "user", "content": PARALLEL[0].content},
        {"role": "assistant", "content": f"Let me look.\n{blocks}"},
        {"role": "user", "content": "<tool_response>\n17\n</tool_response>\n<tool_response>\n21\n</tool_response>"},
        {"role": "assistant", "content": PARALLEL[4].content},
        {"role": "user", "content": "And in Lima?"},
    ]
    truth = {"gold_tool_calls": gold, "tool_schemas": TOOLS, "subset_name": "tool_call"}
    return {"prompt": prompt, "reward_model": {"ground_truth": truth, "style": "rule"}, "tools": TOOLS, **changes}


def _reason(record: object) -> RejectReason:
    with pytest.raises(RecordError) as caught:
        read_record(record)
    return caught.value.reason


@pytest.mark.parametrize("record", [_toucan_sft(), _teacher(), _sharegpt(), _parts()], ids=["sft", "teacher", "sharegpt", "parts"])
def test_every_format_gives_the_same_messages_and_tools(record: dict) -> None:
    dialogue = read_record(record)
    assert isinstance(dialogue, Dialogue)
    assert dialogue.messages == PARALLEL
    assert dialogue.tools == ({"type": "function", "function": TOOL},)


def test_calls_with_answers_between_them_are_two_steps_not_parallel() -> None:
    messages = json.loads(_toucan_sft()["messages"])
    messages[3], messages[4] = messages[4], messages[3]
    dialogue = read_record(_sft(messages))
    assert [len(message.tool_calls) for message in dialogue.messages if message.tool_calls] == [1, 1]


GOLD = [[{"name": "weather-now", "arguments": {"city": "Lima"}}]]


@pytest.mark.parametrize(
    "record",
    [
        _verl(GOLD),
        _verl(json.dumps(GOLD)),
        _verl(GOLD, prompt=repr(_verl(GOLD)["prompt"]), reward_model=repr(_verl(json.dumps(GOLD))["reward_model"])),
        _verl(GOLD, prompt=json.dumps(_verl(GOLD)["prompt"]), reward_model=json.dumps(_verl(GOLD)["reward_model"])),
    ],
    ids=["nested", "json-gold", "repr-columns", "json-columns"],
)
def test_a_verl_row_is_a_sample_with_its_history_and_without_a_demonstration(record: dict) -> None:
    sample = read_record(record)
    assert isinstance(sample, Sample)
    assert sample.prompt == (*PARALLEL, Message("user", "And in Lima?"))
    assert (sample.gold, sample.demonstration) == (((ToolCall("weather-now", {"city": "Lima"}),),), ())
    assert (sample.turn, sample.subset) == (2, "decomposed")


def test_two_turns_of_one_verl_dialogue_share_its_id() -> None:
    record = _verl(GOLD)
    assert read_record(record).dialogue_id == read_record({**record, "prompt": record["prompt"][:2]}).dialogue_id


def test_flat_gold_is_rejected_because_it_cannot_be_scored() -> None:
    assert _reason(_verl(["weather-now"])) is RejectReason.FLAT_GOLD


def test_a_system_message_with_instructions_of_its_own_is_kept() -> None:
    record = _parts()
    record["messages"].insert(0, {"role": "system", "content": [{"type": "text", "value": "Be brief."}]})
    assert read_record(record).messages[0] == Message("system", "Be brief.")


def test_bare_definitions_and_python_type_names_become_json_schema() -> None:
    tool = {"name": "a", "parameters": {"type": "dict", "properties": {"type": {"type": "str"}}}, "required": ["type"]}
    function = read_record({**_sharegpt(), "tools": json.dumps([tool, tool])}).tools[0]["function"]
    assert function["parameters"] == {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]}


def _with_call(content: str) -> dict:
    return _sft([{"role": "user", "content": "Hi"}, {"role": "tool_call", "content": content}])


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (_sft([], messages="[{"), RejectReason.BROKEN_JSON),
        (_sft([], messages="7"), RejectReason.INCONSISTENT_ROLES),
        ({"uuid": "u", "messages": "[]"}, RejectReason.NO_TOOLS),
        (_sft([], tools="{}"), RejectReason.BROKEN_TOOLS),
        (_with_call("{'name': "), RejectReason.BROKEN_CALL),
        (_with_call("__import__('os').getcwd()"), RejectReason.BROKEN_CALL),
        (_with_call(repr({"name": "weather-now", "arguments": '{"city": '})), RejectReason.BROKEN_CALL),
        (_with_call(repr({"name": "weather-now", "arguments": "[1]"})), RejectReason.ARGUMENTS_NOT_OBJECT),
        (_sft([{"role": "user", "content": "Hi"}, {"role": "tool_response", "content": "17"}]), RejectReason.INCONSISTENT_ROLES),
        (_sft([{"role": "assistant", "content": "Hi"}]), RejectReason.INCONSISTENT_ROLES),
        (_sft([{"role": "user", "content": "Hi"}, {"role": "narrator", "content": "."}]), RejectReason.INCONSISTENT_ROLES),
        ({"reward_model": {"ground_truth": "<tool_call>"}, "prompt": []}, RejectReason.UNKNOWN_FORMAT),
        ({"instruction": "", "output": ""}, RejectReason.UNKNOWN_FORMAT),
        ([1], RejectReason.UNKNOWN_FORMAT),
    ],
)
def test_a_bad_record_is_rejected_with_its_reason(record: object, reason: RejectReason) -> None:
    assert _reason(record) is reason


def test_a_python_literal_has_a_size_bound() -> None:
    with pytest.raises(RecordError, match="characters"):
        parse_literal("'" + "x" * MAX_LITERAL_CHARS + "'", "a call", RejectReason.BROKEN_CALL)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
_turn = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["system", "user", "assistant", "tool_call", "tool_response", "function", "tool"]) | _json,
        "from": st.sampled_from(["human", "gpt", "function_call", "observation"]) | _json,
        "content": st.just(_call_repr(CALLS[0])) | _json,
        "value": st.just(json.dumps(CALLS[0].to_json())) | _json,
        "function_call": _json,
        "tool_calls": _json,
    },
)
_record = st.fixed_dictionaries(
    {},
    optional={
        "messages": st.lists(_turn, max_size=5) | _json,
        "conversations": st.lists(_turn, max_size=5) | _json,
        "prompt": st.lists(_turn, max_size=5) | _json,
        "reward_model": st.fixed_dictionaries({"ground_truth": st.fixed_dictionaries({"gold_tool_calls": _json})}) | _json,
        "tools": st.just(TOOLS) | _json,
    },
)


@settings(max_examples=400, deadline=None)
@given(_record)
def test_no_record_however_odd_stops_the_read(record: dict) -> None:
    with contextlib.suppress(RecordError):
        assert isinstance(read_record(record), Dialogue | Sample)


def test_a_broken_line_is_rejected_and_the_lines_around_it_are_read(tmp_path: Path) -> None:
    good = json.dumps(_toucan_sft())
    (tmp_path / "rows.jsonl").write_text(f"{good}\n{{broken\n\n{good}\n", encoding="utf-8")
    first, broken, last = read_source(tmp_path / "rows.jsonl")
    assert isinstance(first, Parsed)
    assert isinstance(broken, Rejected)
    assert (broken.position, broken.reason, broken.record_text) == (2, RejectReason.BROKEN_JSON, "{broken\n")
    assert last.position == 4


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("rows.parquet", b"PAR1 not really", "Expected a readable .parquet file"),
        ("rows.json", b"[{", "broken JSON"),
        ("rows.json", b"{}", "found a dict"),
        ("rows.jsonl", b"\xff\xfe{}", "Expected UTF-8"),
        ("rows.csv", b"a,b", "Expected a file ending in"),
    ],
)
def test_an_unreadable_file_is_one_sentence(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=sentence):
        list(read_source(tmp_path / name))


def test_a_missing_source_and_an_empty_folder_are_one_sentence(tmp_path: Path) -> None:
    for source in (tmp_path / "absent", tmp_path):
        with pytest.raises(DataError, match="Expected"):
            list(read_source(source))


@needs_shared
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("toucan_preview/toucan_toolcall_sft.preview.jsonl", {"Dialogue": 5}),
        ("toucan_preview/toucan_toolcall_rl.preview.jsonl", {"Sample": 3, RejectReason.FLAT_GOLD: 2}),
        ("toucan_rows", {"Dialogue": 3}),
        ("llamafactory/glaive_toolcall_en_demo.json", {"Dialogue": 300}),
        ("llamafactory/reason_tool_use_demo_50.jsonl", {"Dialogue": 50}),
        ("toolrl", {RejectReason.UNKNOWN_FORMAT: 480}),
    ],
)
def test_real_records_read_as_counted(path: str, expected: dict[str, int]) -> None:
    outcomes = read_source(SHARED / path)
    assert Counter(o.reason if isinstance(o, Rejected) else type(o.value).__name__ for o in outcomes) == expected


@needs_shared
def test_the_parallel_calls_of_a_real_toucan_row_are_one_step() -> None:
    first = next(iter(read_source(SHARED / "toucan_preview" / "toucan_toolcall_sft.preview.jsonl"))).value
    assert [[call.name.rpartition("-")[2] for call in m.tool_calls] for m in first.messages if m.tool_calls] == [
        ["get_current_weather", "get_current_weather"],
        ["add"],
        ["div"],
    ]


@pytest.mark.parametrize(
    ("outer", "inner", "expected"), [("OUTER", None, "OUTER"), ("OUTER", "own", "own"), (None, None, ""), (None, "own", "own")]
)
def test_a_description_around_a_function_without_one_is_its_own(outer, inner, expected) -> None:
    tool = {"type": "function", "description": outer, "function": {"name": "a", "description": inner}}
    assert read_record({**_sharegpt(), "tools": json.dumps([tool])}).tools[0]["function"]["description"] == expected


def test_a_description_that_is_no_text_is_rejected_by_name() -> None:
    with pytest.raises(RecordError, match="description is 5, not text"):
        read_record({**_sharegpt(), "tools": json.dumps([{"name": "a", "description": 5}])})


def test_text_beside_a_call_is_rejected_by_name_unless_it_says_nothing() -> None:
    call = {"name": "weather-now", "arguments": {}}
    with pytest.raises(RecordError, match="extra of weather-now is not read"):
        call_of({**call, "extra": "drop me"}, "a call")
    assert call_of({**call, "id": "c1", "type": "function", "index": 0, "note": ""}, "a call") == ToolCall("weather-now", {})
