"""A rollout of so many calls by a scripted policy, for tests and benchmarks of the services it asks."""

from __future__ import annotations

from slca_core.config import RlConfig
from slca_core.conversation import chat
from slca_core.conversation.calls import render_call
from slca_core.conversation.dialogue import Message, Sample, ToolCall
from slca_core.conversation.tokens import encode
from slca_core.rollout import Generate, Generated, Limits, RolloutRecord, Scoring, roll
from slca_core.services.client import Lines

TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Looks something up. Returns value (string).",
        "parameters": {
            "type": "object",
            "properties": {"what": {"type": "string"}, "turn": {"type": "integer"}},
            "required": ["what"],
        },
    },
}
LIMITS = Limits(max_turns=8, turn_tokens=400, response_tokens=3000, max_length=6000, observation_tokens=200)
SCORING = Scoring.of(RlConfig())
SUMMARY = "The values you asked for are in the responses."


def sample(number: int, turns: int) -> Sample:
    """A question that takes `turns` calls, one after the other."""
    gold = tuple((call(number, turn),) for turn in range(turns))
    return Sample(f"d{number}#1", f"d{number}", "single-turn", 1, (TOOL,), (Message("user", f"Look up item {number}."),), (), gold)


def call(number: int, turn: int) -> ToolCall:
    return ToolCall("look", {"what": f"item {number}", "turn": turn})


def policy(tokenizer, one: Sample) -> Generate:
    """Calls as gold does, then sums up."""
    texts = [render_call(step[0]) for step in one.gold] + [SUMMARY]

    async def generate(_: list[int], __: int, turn: int) -> Generated:
        return Generated(encode(tokenizer, texts[turn] + chat.END), truncated=False)

    return generate


async def play(tokenizer, one: Sample, lines: Lines, scoring: Scoring = SCORING) -> RolloutRecord:
    generate = policy(tokenizer, one)
    _, record = await roll(
        one, tokenizer, generate, lines, LIMITS, "sgls", scoring, rollout_id=f"{one.sample_id}-0", update=1, sample_index=0
    )
    return record
