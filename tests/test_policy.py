"""The policy from scratch: its tokenizer keeps words whole, its checkpoint loads; foreign checkpoints adopt the format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slca_core.config import ScratchPolicy
from slca_core.conversation import chat
from slca_core.conversation.dialogue import Message, Sample, ToolCall
from slca_core.conversation.tokens import decode, encode
from slca_core.curation.decomposition import decompose
from slca_core.curation.readers import read_record
from slca_core.curation.synthetic.generator import generate
from slca_core.errors import ConfigError
from slca_core.policy import adopt_chat_format, create_policy, frequent_phrases, require_checkpoint, train_tokenizer
from slca_core.standins.mocker import mock_response

SPEC = ScratchPolicy(vocab_size=700, hidden_size=32, intermediate_size=64, layers=1, heads=1)
words = st.text(st.characters(categories=["Ll", "Lu", "Lo", "Mn"]), min_size=1, max_size=12)


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    return [sample for record in generate(60, 5, mock_response) for sample in decompose(read_record(record))]


@pytest.fixture(scope="module")
def checkpoint(samples, tmp_path_factory) -> Path:
    return create_policy(tmp_path_factory.mktemp("policy") / "scratch", samples, SPEC)


@pytest.fixture(scope="module")
def tokenizer(checkpoint: Path):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(checkpoint)


def _contains(ids: list[int], part: list[int]) -> bool:
    return any(ids[start : start + len(part)] == part for start in range(len(ids)))


@settings(deadline=None)
@given(words)
def test_a_word_has_the_same_tokens_wherever_it_stands(tokenizer, word):
    alone = encode(tokenizer, word)
    call = chat.render([Message("assistant", "", (ToolCall("f", {"city": word}),))])
    places = (
        f"What about {word}?",
        call,
        chat.render_observation([json.dumps({"x": word}, ensure_ascii=False)]),
        f"{word} is fine.",
    )
    assert all(_contains(encode(tokenizer, place), alone) for place in places)


@settings(deadline=None)
@given(st.text(max_size=30))
def test_decoding_gives_back_what_was_encoded(tokenizer, text):
    assert decode(tokenizer, encode(tokenizer, text)) == text


def test_the_vocabulary_has_the_size_asked_for(tokenizer):
    assert len(tokenizer) == SPEC.vocab_size


def test_the_end_of_a_turn_is_one_token_and_the_end_of_generation(tokenizer):
    assert encode(tokenizer, chat.END) == [tokenizer.eos_token_id]


def test_a_description_that_recurs_is_one_token(samples, tokenizer):
    phrase = frequent_phrases(sample.tools for sample in samples)[0]
    assert len(encode(tokenizer, phrase)) == 1


def test_phrases_of_few_records_are_left_out():
    tools = [[{"function": {"name": "f", "description": "A common description"}}]] * 9
    rare = [[{"function": {"name": "g", "description": "A rare description"}}]]
    assert frequent_phrases(tools + rare, share=0.2) == ["A common description"]


def test_a_vocabulary_without_room_for_the_bytes_is_refused():
    with pytest.raises(ConfigError, match="vocab_size"):
        train_tokenizer(["text"], 300, phrases=[f"a phrase, number {n}" for n in range(100)])


def test_the_checkpoint_loads_and_generates(checkpoint, tokenizer):
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(checkpoint)
    prompt = tokenizer(chat.render([Message("user", "Hi")], generate=True), return_tensors="pt")
    written = model.generate(**prompt, max_new_tokens=3, do_sample=False)
    assert written.shape[1] > prompt["input_ids"].shape[1]
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id


def test_the_same_seed_gives_the_same_weights(checkpoint, samples, tmp_path):
    again = create_policy(tmp_path / "again", samples, SPEC)
    assert (again / "model.safetensors").read_bytes() == (checkpoint / "model.safetensors").read_bytes()


def test_a_loaded_tokenizer_carries_the_chat_template(tokenizer):
    assert tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False) == chat.render(
        [Message("user", "Hi")]
    )


@pytest.mark.parametrize(
    ("files", "complaint"),
    [(None, "there is none"), ([], r"no config\.json"), (["config.json"], "no tokenizer")],
    ids=["no-folder", "no-config", "no-tokenizer"],
)
def test_what_is_no_checkpoint_is_named(tmp_path, files, complaint):
    folder = tmp_path / "base"
    if files is not None:
        folder.mkdir()
        for name in files:
            (folder / name).write_text("{}")
    with pytest.raises(ConfigError, match=complaint):
        require_checkpoint(folder)


def test_a_checkpoint_is_returned_as_it_is(checkpoint):
    assert require_checkpoint(checkpoint) == checkpoint


@pytest.fixture
def foreign(checkpoint: Path, tmp_path: Path, tokenizer) -> Path:
    """A base model that ends texts on another token and chats in another format."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    for file in checkpoint.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    for name in ("config.json", "generation_config.json"):
        settings_ = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**settings_, "eos_token_id": 7}))
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    return folder


def test_an_adopted_checkpoint_chats_in_our_format(foreign, tmp_path):
    from transformers import AutoTokenizer

    adopted = AutoTokenizer.from_pretrained(adopt_chat_format(foreign, tmp_path / "adopted"))
    assert adopted.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False) == chat.render([Message("user", "Hi")])


@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
def test_an_adopted_checkpoint_ends_on_the_end_of_a_turn(foreign, tmp_path, tokenizer, name):
    out = adopt_chat_format(foreign, tmp_path / "adopted")
    assert json.loads((out / name).read_text())["eos_token_id"] == tokenizer.eos_token_id


def test_adopting_leaves_the_source_as_it_was(foreign, tmp_path):
    before = {file.name: file.read_bytes() for file in foreign.iterdir()}
    adopt_chat_format(foreign, tmp_path / "adopted")
    assert {file.name: file.read_bytes() for file in foreign.iterdir()} == before


def test_weights_are_linked_not_copied(foreign, tmp_path):
    assert (adopt_chat_format(foreign, tmp_path / "adopted") / "model.safetensors").is_symlink()


def test_a_tokenizer_without_the_turn_tokens_is_refused(foreign, tmp_path):
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    plain = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    PreTrainedTokenizerFast(tokenizer_object=plain, unk_token="[UNK]").save_pretrained(foreign)
    with pytest.raises(ConfigError, match="Choose a ChatML checkpoint"):
        adopt_chat_format(foreign, tmp_path / "adopted")


def test_phrases_as_frequent_as_each_other_come_in_an_order_that_no_process_changes():
    names = ["gamma", "alpha", "delta", "beta", "epsilon"]
    toolset = [{"function": {"name": name, "description": f"{name} of the many tools", "parameters": {}}} for name in names]
    found = frequent_phrases([toolset] * 3)
    assert found == sorted(found)
    assert len(found) == len(names)
