"""A sample as the label of OpenRLHF's prompt set: the one string that travels with a prompt carries the ground truth as JSON."""

from __future__ import annotations

from typing import Any

from slca_core.conversation.dialogue import Message, Sample, ToolCall


def label_of(sample: Sample) -> dict[str, Any]:
    """What the prompt set's label carries of a sample; `update` and `position` are added when it is dispatched."""
    return {
        "sample_id": sample.sample_id,
        "dialogue_id": sample.dialogue_id,
        "subset": sample.subset,
        "turn": sample.turn,
        "tools": list(sample.tools),
        "prompt": [message.to_json() for message in sample.prompt],
        "gold": [[call.to_json() for call in step] for step in sample.gold],
    }


def sample_from_label(label: dict[str, Any]) -> Sample:
    """The inverse of `label_of`; the demonstration is not carried."""
    return Sample(
        sample_id=label["sample_id"],
        dialogue_id=label["dialogue_id"],
        subset=label["subset"],
        turn=label["turn"],
        tools=tuple(label["tools"]),
        prompt=tuple(Message.from_json(message) for message in label["prompt"]),
        demonstration=(),
        gold=tuple(tuple(ToolCall.from_json(call) for call in step) for step in label["gold"]),
    )
