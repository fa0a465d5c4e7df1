"""The chat format: pieces and whole give the same tokens, transformers renders the same text, and data never turns into control."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slca_core.conversation import chat
from slca_core.conversation.calls import render_call
from slca_core.conversation.dialogue import Message, Sample, ToolCall
from slca_core.conversation.tokens import encode
from slca_core.curation.decomposition import decompose
from slca_core.curation.readers import read_record
from slca_core.curation.synthetic.generator import generate
from slca_core.policy import train_tokenizer
from slca_core.standins.mocker import mock_response

TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": {"type": "object"}}}
CONTROL = (*chat.SPECIAL_TOKENS, "<|endoftext|>", *chat.TAGS)

pieces = st.one_of(st.sampled_from([*CONTROL, "<think>", "</think>", "<", "\n", " ", "is", "{"]), st.text(max_size=4))
texts = st.lists(pieces, max_size=5).map("".join)
calls = st.builds(
    ToolCall, name=texts, arguments=st.dictionaries(texts, st.one_of(texts, st.integers(), st.lists(texts, max_size=2)))
)


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    return [sample for record in generate(150, 3, mock_response) for sample in decompose(read_record(record))]


@pytest.fixture(scope="module")
def tokenizer(samples: list[Sample]):
    return train_tokenizer((_whole(sample) for sample in samples[:30]), 500)


def _whole(sample: Sample) -> str:
    return chat.render((*sample.prompt, *sample.demonstration), sample.tools)


def _turn(message: Message) -> str:
    """What the policy writes for a message, its end token included."""
    blocks = ([message.content] if message.content else []) + [render_call(call) for call in message.tool_calls]
    return "\n".join(blocks) + chat.END


def _pieces(sample: Sample) -> list[str]:
    """The texts a rollout tokenises one by one: the prompt, then turns and observations in turn."""
    parts = [chat.render(sample.prompt, sample.tools, generate=True)]
    responses: list[str] = []
    for message in sample.demonstration:
        if message.role == "tool":
            responses.append(message.content)
            continue
        if responses:
            parts.append(chat.render_observation(responses))
            responses = []
        parts.append(_turn(message))
    return parts


def _openai(message: Message) -> dict[str, Any]:
    value = message.to_json()
    if message.tool_calls:
        value["tool_calls"] = [{"type": "function", "function": call.to_json()} for call in message.tool_calls]
        value["content"] = message.content or None
    return value


def test_the_pieces_of_a_rollout_have_the_ids_of_the_whole_conversation(samples, tokenizer):
    assert len(samples) > 100
    for sample in samples:
        ids = [token for piece in _pieces(sample) for token in encode(tokenizer, piece)]
        assert ids == encode(tokenizer, _whole(sample))


@settings(deadline=None, max_examples=60)
@given(question=texts, said=texts, made=st.lists(calls, min_size=1, max_size=2), data=st.data())
def test_pieces_and_whole_agree_whatever_the_texts_are(tokenizer, question, said, made, data):
    answers = [Message("tool", data.draw(texts)) for _ in made]
    turns = (Message("assistant", chat.neutralise(said), tuple(made)), *answers, Message("assistant", "Done."))
    sample = Sample("d#1", "d", "single-turn", 1, (TOOL,), (Message("user", question),), turns, ())
    ids = [token for piece in _pieces(sample) for token in encode(tokenizer, piece)]
    assert ids == encode(tokenizer, _whole(sample))


@pytest.mark.parametrize("form", [Message.to_json, _openai], ids=["our-form", "openai-form"])
def test_transformers_renders_the_same_text(samples, tokenizer, form):
    for sample in samples[:40]:
        messages = [form(message) for message in (*sample.prompt, *sample.demonstration)]
        assert tokenizer.apply_chat_template(messages, tools=list(sample.tools), tokenize=False) == _whole(sample)


def test_transformers_renders_the_same_prompt(samples, tokenizer):
    sample = samples[0]
    messages = [message.to_json() for message in sample.prompt]
    rendered = tokenizer.apply_chat_template(messages, tools=list(sample.tools), tokenize=False, add_generation_prompt=True)
    assert rendered == chat.render(sample.prompt, sample.tools, generate=True)


def test_plain_turns_give_the_text_back(samples, tokenizer):
    for sample in samples[:40]:
        text = _whole(sample)
        assert tokenizer.apply_chat_template(chat.as_plain_turns(text), tokenize=False) == text


@settings(deadline=None)
@given(question=texts, said=texts, call=calls, answers=st.lists(texts, min_size=1, max_size=3))
def test_plain_turns_give_the_text_back_whatever_the_texts_are(tokenizer, question, said, call, answers):
    tools = [Message("tool", answer) for answer in answers]
    text = chat.render([Message("system", said), Message("user", question), Message("assistant", said, (call,)), *tools], [TOOL])
    assert tokenizer.apply_chat_template(chat.as_plain_turns(text), tokenize=False) == text


@settings(deadline=None)
@given(calls)
def test_the_template_and_render_call_write_the_same_block(call):
    assert chat.render([Message("assistant", "", (call,))]) == f"<|im_start|>assistant\n{render_call(call)}<|im_end|>"


def test_arguments_that_come_as_json_text_are_not_quoted_again(tokenizer):
    call = {"type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
    rendered = tokenizer.apply_chat_template([{"role": "assistant", "content": None, "tool_calls": [call]}], tokenize=False)
    assert rendered == chat.render([Message("assistant", "", (ToolCall("weather", {"city": "Oslo"}),))])


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
def test_a_message_without_content_is_an_empty_one(tokenizer, role):
    missing = tokenizer.apply_chat_template([{"role": role, "content": None}, {"role": "user", "content": "Hi"}], tokenize=False)
    assert missing == chat.render([Message(role), Message("user", "Hi")])


@settings(deadline=None)
@given(texts)
def test_a_user_cannot_write_a_control_token(text):
    rendered = chat.render([Message("user", text)])
    body = rendered.removeprefix("<|im_start|>user\n").removesuffix("<|im_end|>")
    assert not any(token in body for token in CONTROL)


@settings(deadline=None)
@given(texts)
def test_a_tool_cannot_close_its_response(text):
    rendered = chat.render_observation([text])
    body = rendered.removeprefix("\n<|im_start|>user\n<tool_response>\n")
    body = body.removesuffix("\n</tool_response><|im_end|>\n<|im_start|>assistant\n")
    assert not any(token in body for token in CONTROL)


@settings(deadline=None)
@given(texts, texts)
def test_a_tool_definition_cannot_end_the_list_of_tools(name, description):
    tool = {"type": "function", "function": {"name": name, "description": description, "parameters": {"title": description}}}
    plain = chat.render([Message("user", "Hi")], [TOOL])
    rendered = chat.render([Message("user", "Hi")], [tool])
    assert {token: rendered.count(token) for token in CONTROL} == {token: plain.count(token) for token in CONTROL}


@pytest.mark.parametrize("role", ["system", "assistant"])
def test_a_turn_cannot_end_before_its_end(role):
    assert chat.render([Message(role, "a<|im_end|>b")]) == f"<|im_start|>{role}\na< |im_end|>b<|im_end|>"


def test_an_assistants_own_tags_stay_as_it_wrote_them():
    assert "<tool_call>{broken" in chat.render([Message("assistant", "<tool_call>{broken")])


@given(texts)
def test_the_template_breaks_tokens_as_neutralise_does(text):
    assert chat.render([Message("user", text)]) == f"<|im_start|>user\n{chat.neutralise(text)}<|im_end|>"


@given(texts)
def test_neutralising_twice_changes_nothing_more(text):
    assert chat.neutralise(chat.neutralise(text)) == chat.neutralise(text)


def test_consecutive_responses_share_one_turn():
    assert chat.render_observation(["a", "b"]) == (
        "\n<|im_start|>user\n<tool_response>\na\n</tool_response>\n<tool_response>\nb\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )


def test_an_observation_of_nothing_is_refused():
    with pytest.raises(ValueError, match="fuse two runs"):
        chat.render_observation([])
