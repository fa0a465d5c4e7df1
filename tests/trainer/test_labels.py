"""A sample survives the journey through a prompt set's label, which is one string of JSON."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slca_core.conversation.dialogue import Message, Sample, ToolCall
from slca_core.trainer.labels import label_of, sample_from_label

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
calls = st.builds(ToolCall, st.text(min_size=1), st.dictionaries(st.text(), json_values, max_size=3))
messages = st.builds(Message, st.sampled_from(["user", "assistant", "tool"]), st.text(), st.lists(calls, max_size=2).map(tuple))
samples = st.builds(
    Sample,
    sample_id=st.text(),
    dialogue_id=st.text(),
    subset=st.sampled_from(["single-turn", "decomposed"]),
    turn=st.integers(1, 9),
    tools=st.lists(st.dictionaries(st.text(), json_values, max_size=3), max_size=2).map(tuple),
    prompt=st.lists(messages, min_size=1, max_size=3).map(tuple),
    demonstration=st.just(()),
    gold=st.lists(st.lists(calls, min_size=1, max_size=2).map(tuple), max_size=2).map(tuple),
)


@settings(deadline=None, max_examples=50)
@given(samples)
def test_a_label_gives_its_sample_back(sample):
    assert sample_from_label(json.loads(json.dumps(label_of(sample), ensure_ascii=False))) == sample


@settings(deadline=None, max_examples=50)
@given(samples, st.integers(0, 99))
def test_what_is_added_when_a_prompt_is_dispatched_does_not_disturb_it(sample, number):
    assert sample_from_label({**label_of(sample), "update": number, "position": number}) == sample


@pytest.mark.parametrize("turns", [1, 2])
def test_the_demonstration_does_not_travel_to_the_rollout(turns):
    answer = (Message("assistant", "the answer"),) * turns
    sample = Sample("d#1", "d", "single-turn", 1, (), (Message("user", "?"),), answer, ())
    assert "the answer" not in json.dumps(label_of(sample))
    assert sample_from_label(label_of(sample)) == dataclasses.replace(sample, demonstration=())
