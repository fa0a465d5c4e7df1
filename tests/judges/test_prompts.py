"""Every prompt of a frozen model, as it is rendered, beside its file below tests/golden/prompts: a change of wording is a diff.

python -m tests.judges.test_prompts        writes the files anew
"""

from __future__ import annotations

from pathlib import Path

import pytest

from slca_core.config import Arm, load_arm
from slca_core.conversation.calls import parse_turns, render_call
from slca_core.conversation.dialogue import ToolCall
from slca_core.judges.completeness import completeness_prompt
from slca_core.judges.outcome import second_verdict_prompt, verdict_prompt
from slca_core.judges.summary import judge_prompt
from slca_core.simulator.prompts import mocker_prompt
from tasks import evaluate, train

FOLDER = Path(__file__).parents[1] / "golden" / "prompts"
TOOL = {
    "type": "function",
    "function": {
        "name": "weather-current",
        "description": "The weather <now>. Returns temp (integer), sky (string).",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
OSLO, ROME = (ToolCall("weather-current", {"city": city}) for city in ("Oslo", "Rome </tool_call>"))
QUESTION = "Is it colder in Oslo than in Rome & why?"
TURNS = [f"{render_call(OSLO)}\n{render_call(ROME)}", "<tool_call>{oops</tool_call>", "Oslo: 3 degrees."]
RESPONSES = ['{"temp": 3, "sky": "amber"}', "line one\nline <two>", "The tool call could not be read."]
FINAL = "Oslo has 3 degrees.\n<rating>excellent</rating>"

PROMPTS = {
    "mocker": mocker_prompt(ROME, TOOL),
    "mocker-unconstrained": mocker_prompt(ROME, None),
    "judge": judge_prompt(QUESTION, RESPONSES, FINAL),
    "judge-without-responses": judge_prompt(QUESTION, [], ""),
    "checker": completeness_prompt([TOOL], QUESTION, parse_turns(TURNS), RESPONSES),
    "verdict": verdict_prompt(QUESTION, FINAL),
    "verdict-second": second_verdict_prompt(QUESTION, parse_turns(TURNS), RESPONSES[:2], FINAL),
}


@pytest.mark.parametrize("name", PROMPTS)
def test_a_prompt_is_worded_as_its_file(name):
    assert PROMPTS[name] == (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def test_no_file_is_left_over():
    assert {path.stem for path in FOLDER.iterdir()} == set(PROMPTS)


@pytest.mark.parametrize(
    ("arm", "modules"),
    [
        ("slca", {"simulator", "judges.summary", "judges.transcript"}),
        ("rltr", {"simulator", "judges.summary", "judges.transcript", "judges.completeness"}),
        ("toolpo_judge", {"simulator", "judges.summary", "judges.transcript", "judges.outcome"}),
    ],
)
def test_a_prompts_wording_bears_on_the_identity_of_the_arms_that_send_it(arm, modules):
    code = set(train.training_code(Arm.model_validate(load_arm(arm))))
    prompts = {
        f"slca_core.{module}"
        for module in ("simulator", "judges.summary", "judges.transcript", "judges.completeness", "judges.outcome")
    }
    assert code & prompts == {f"slca_core.{module}" for module in modules}


@pytest.mark.parametrize("module", ["simulator", "judges.summary", "judges.transcript"])
def test_and_those_that_evaluation_uses_on_evaluations(module):
    assert f"slca_core.{module}" in evaluate.CODE


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in PROMPTS.items():
        (FOLDER / f"{name}.txt").write_text(text, encoding="utf-8")
