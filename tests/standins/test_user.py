"""The scripted customer of tau2-bench: what he says, does, and when he leaves."""

from __future__ import annotations

from typing import Any

import pytest

from slca_core.standins.server import answer_as_user
from slca_core.standins.user import AGREES, PATIENCE, STOP, TRANSFER, next_message

SCENARIO = (
    "Instructions:\n\tDomain: airline\n\tReason for call:\n\t\tYou want to cancel.\n\n\t\tBe brief.\n"
    "\tKnown info:\n\t\tYou are Noah Muller.\n\tTask instructions:\n\t\tNever give up."
)
SYSTEM = {"role": "system", "content": f"# Guidelines\n\n<scenario>\n{SCENARIO}\n</scenario>"}
GREETING = {"role": "user", "content": "Hi! How can I help you today?"}
TOOLS = [
    {"type": "function", "function": {"name": "toggle_airplane_mode", "parameters": {"type": "object", "properties": {}}}},
    {"type": "function", "function": {"name": "check_status_bar", "parameters": {}}},
    {"type": "function", "function": {"name": "set_mode", "parameters": {"properties": {"mode": {}}, "required": ["mode"]}}},
]


def talk(*turns: tuple[str, str]) -> list[dict[str, Any]]:
    said = {"role": "assistant", "content": "I want to cancel."}
    return [SYSTEM, GREETING, said, *({"role": role, "content": content} for role, content in turns)]


def test_he_begins_with_why_he_calls_and_what_he_knows_and_keeps_his_instructions_to_himself():
    assert next_message([SYSTEM, GREETING]) == "You want to cancel. Be brief. You are Noah Muller."


def test_a_scenario_without_these_parts_is_said_whole():
    plain = {"role": "system", "content": "<scenario>\nPersona:\n\tBrief.\nInstructions:\n\tCreate a task.\n</scenario>"}
    assert next_message([plain, GREETING]) == "Persona: Brief. Instructions: Create a task."


@pytest.mark.parametrize("words", ["Please toggle Airplane Mode now.", "Please run toggle_airplane_mode."])
def test_he_does_what_the_agent_names_with_his_own_tools_and_reads_out_what_came_of_it(words):
    assert next_message(talk(("user", words)), TOOLS) == ["toggle_airplane_mode"]
    done = talk(("user", words), ("assistant", ""), ("tool", "Airplane mode is now ON"))
    assert next_message(done, TOOLS) == "It says: Airplane mode is now ON"


def test_he_does_nothing_that_needs_more_than_he_was_told():
    assert next_message(talk(("user", "Set mode to 4G.")), TOOLS) == AGREES


def test_he_agrees_until_his_patience_ends_and_leaves_for_whom_he_is_transferred_to():
    turns = [("user", "Is that so?")]
    said = []
    while (answer := next_message(talk(*turns))) != STOP:
        said.append(answer)
        turns += [("assistant", answer), ("user", "Really?")]
    assert said == [AGREES] * (PATIENCE - 1)
    assert next_message(talk(("user", "I transfer you to a human agent."))) == TRANSFER


def test_the_same_conversation_is_answered_with_the_same_bytes():
    body = {"messages": talk(("user", "Check status bar, please.")), "tools": TOOLS}
    assert answer_as_user(body) == answer_as_user(body)
    (call,) = answer_as_user(body)["tool_calls"]
    assert call["function"] == {"name": "check_status_bar", "arguments": "{}"}
