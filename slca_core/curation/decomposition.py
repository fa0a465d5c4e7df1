"""From dialogues to samples, one user turn each (App. B).

A dialogue of one turn gives one single-turn sample. A longer one is decomposed from turn 2 on, each turn with its full history as
prompt; its first turn is left out, as is every turn without a call.
"""

from __future__ import annotations

from slca_core.conversation.dialogue import Dialogue, Message, Sample
from slca_core.curation.filters import user_turns


def decompose(dialogue: Dialogue) -> tuple[Sample, ...]:
    """The samples of a dialogue that the filters keep."""
    turns = user_turns(dialogue.messages)
    first = 1 if len(turns) == 1 else 2
    samples = []
    answered = len(dialogue.messages) - sum(len(turn) for turn in turns)
    for turn, messages in enumerate(turns, start=1):
        prompt, demonstration = dialogue.messages[: answered + 1], messages[1:]
        answered += len(messages)
        if turn >= first and any(message.tool_calls for message in demonstration):
            samples.append(_sample(dialogue, turn, prompt, demonstration))
    return tuple(samples)


def last_turn(dialogue: Dialogue) -> Sample:
    """The last user turn with all that came before it as prompt, whether it calls anything or not."""
    turns = user_turns(dialogue.messages)
    start = len(dialogue.messages) - len(turns[-1])
    return _sample(dialogue, len(turns), dialogue.messages[: start + 1], dialogue.messages[start + 1 :])


def _sample(dialogue: Dialogue, turn: int, prompt: tuple[Message, ...], demonstration: tuple[Message, ...]) -> Sample:
    return Sample(
        sample_id=f"{dialogue.dialogue_id}#{turn}",
        dialogue_id=dialogue.dialogue_id,
        subset="single-turn" if turn == 1 else "decomposed",
        turn=turn,
        tools=dialogue.tools,
        prompt=prompt,
        demonstration=demonstration,
        gold=tuple(message.tool_calls for message in demonstration if message.tool_calls),
    )
