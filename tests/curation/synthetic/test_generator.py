"""The small world's records: deterministic, valid against their own schemas, and learnable because values stand verbatim."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import jsonschema
import pytest

from slca_core.conversation.dialogue import Dialogue, Message, ToolCall
from slca_core.curation.readers import Parsed, read_record, read_source
from slca_core.curation.synthetic.generator import COLUMNS, Mix, generate, write_records
from slca_core.curation.synthetic.world import BY_NAME, CHAINS, WORLD
from slca_core.standins.mocker import mock_response

COUNT = 600


@pytest.fixture(scope="module")
def records() -> list[dict[str, str]]:
    return list(generate(COUNT, 7, mock_response))


@pytest.fixture(scope="module")
def dialogues(records: list[dict[str, str]]) -> list[Dialogue]:
    return [read_record(record) for record in records]


def _turns(dialogue: Dialogue) -> Iterator[tuple[str, list[Message]]]:
    question, rest = "", []
    for message in (*dialogue.messages, Message("user")):
        if message.role == "user":
            if question:
                yield question, rest
            question, rest = message.content, []
        else:
            rest.append(message)


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _leaves(part)
    else:
        yield value


def test_a_seed_fixes_the_records_and_a_smaller_count_is_a_prefix(records: list[dict[str, str]]) -> None:
    assert list(generate(50, 7, mock_response)) == records[:50]


def test_two_seeds_share_no_uuid(records: list[dict[str, str]]) -> None:
    others = {record["uuid"] for record in generate(COUNT, 8, mock_response)}
    assert not others & {record["uuid"] for record in records}


def test_every_column_is_a_string_as_in_toucan(records: list[dict[str, str]]) -> None:
    assert all(tuple(record) == COLUMNS and all(isinstance(value, str) for value in record.values()) for record in records)


def test_no_question_is_asked_twice(dialogues: list[Dialogue]) -> None:
    questions = [question for dialogue in dialogues for question, _ in _turns(dialogue)]
    assert len(questions) == len(set(questions))


def test_every_call_is_valid_against_the_schema_of_an_offered_tool(dialogues: list[Dialogue]) -> None:
    for dialogue in dialogues:
        schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in dialogue.tools}
        for message in dialogue.messages:
            for call in message.tool_calls:
                schema = {**schemas[call.name], "additionalProperties": False}
                jsonschema.validate(call.arguments, schema, cls=jsonschema.Draft202012Validator)


def test_arguments_stand_verbatim_in_the_question_or_an_earlier_answer(dialogues: list[Dialogue]) -> None:
    for dialogue in dialogues:
        for question, messages in _turns(dialogue):
            known = question
            for message in messages:
                for call in message.tool_calls:
                    values = [value for value in _leaves(call.arguments) if not isinstance(value, bool)]
                    assert all(str(value) in known for value in values), (known, call)
                known += message.content if message.role == "tool" else ""


def test_the_summary_quotes_every_value_of_the_answers(dialogues: list[Dialogue]) -> None:
    for dialogue in dialogues:
        for _, messages in _turns(dialogue):
            for answer in (message for message in messages if message.role == "tool"):
                for value in json.loads(answer.content).values():
                    quoted = value if isinstance(value, str) else json.dumps(value)
                    assert quoted in messages[-1].content


def test_two_to_four_tools_are_offered_with_at_least_one_distractor(dialogues: list[Dialogue]) -> None:
    for dialogue in dialogues:
        needed = {call.name for message in dialogue.messages for call in message.tool_calls}
        assert 2 <= len(dialogue.tools) <= 4
        assert len(needed) < len(dialogue.tools)


def test_all_kinds_appear_near_their_stated_shares(dialogues: list[Dialogue]) -> None:
    steps = [[len(m.tool_calls) for m in dialogue.messages if m.tool_calls] for dialogue in dialogues]
    users = [sum(m.role == "user" for m in dialogue.messages) for dialogue in dialogues]
    kinds = Counter("multi_turn" if user > 1 else str(step) for step, user in zip(steps, users, strict=True))
    mix = Mix()
    expected = {"[1]": mix.single, "[2]": mix.parallel, "[1, 1]": mix.chained, "multi_turn": mix.multi_turn, "[]": mix.irrelevant}
    assert kinds.keys() == expected.keys()
    assert all(abs(kinds[kind] / COUNT - share) < 0.06 for kind, share in expected.items())


def test_a_mix_of_one_kind_gives_only_that_kind() -> None:
    only_irrelevant = Mix(single=0, parallel=0, chained=0, multi_turn=0, irrelevant=1)
    assert {record["subset_name"] for record in generate(20, 0, mock_response, only_irrelevant)} == {"irrelevant"}


def test_written_records_come_back_through_the_reader(tmp_path, records, dialogues) -> None:
    write_records(tmp_path / "deep" / "world.parquet", COUNT, 7, mock_response)
    outcomes = list(read_source(tmp_path))
    assert all(isinstance(outcome, Parsed) for outcome in outcomes)
    assert [outcome.value for outcome in outcomes] == dialogues
    assert [outcome.value.dialogue_id for outcome in outcomes] == [record["uuid"] for record in records]


def test_the_world_is_as_large_as_promised_and_its_names_are_unique() -> None:
    assert len({tool.server for tool in WORLD}) >= 8
    assert len(BY_NAME) == len(WORLD) >= 24


@pytest.mark.parametrize("tool", WORLD, ids=lambda tool: tool.name)
def test_the_mocker_answers_with_the_fields_of_the_return_convention(tool) -> None:
    assert len(tool.purpose.split()) <= 6
    assert json.loads(mock_response(tool.definition, ToolCall(tool.name, {}))).keys() == tool.returns.keys()


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: f"{chain.first}->{chain.second}")
def test_a_chain_hands_on_a_field_its_first_tool_returns(chain) -> None:
    assert chain.returned in BY_NAME[chain.first].returns
    assert f"${chain.slot}" in _leaves(BY_NAME[chain.second].arguments)
