"""ToolPO's outcome judge (App. C): Solved, Unsolved or Unsure on question and final answer, and on the calls too if Unsure."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, get_args

from slca_core.conversation.calls import ParsedTurn
from slca_core.conversation.tags import blocks, tag_pair
from slca_core.judges.summary import is_hardly_an_answer
from slca_core.judges.transcript import as_data, fill, transcript

Verdict = Literal["Solved", "Unsolved", "Unsure"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

_FIRST = """You decide whether an assistant has solved what it was asked.

<question>
{question}
</question>
<final_response>
{final_response}
</final_response>

Solved: the answer gives all that is asked for. Unsolved: it does not, declines, or says nothing. Unsure: the answer alone cannot
tell, for instance because its figures would have to be compared with what the tools returned. Reply in this form only:
<verdict>Solved, Unsolved or Unsure</verdict>
"""

_SECOND = """You decide whether an assistant has solved what it was asked. You also see the tools it called and what they returned.

<question>
{question}
</question>
<calls>
{calls}
</calls>
<final_response>
{final_response}
</final_response>

Solved: the calls fit the question and the answer gives what they returned. Unsolved: anything else. Reply in this form only:
<verdict>Solved or Unsolved</verdict>
"""

_VERDICT = tag_pair("verdict", re.IGNORECASE)


def verdict_prompt(question: str, final_response: str) -> str:
    """The first message; values are escaped."""
    return fill(_FIRST, {"question": as_data(question), "final_response": as_data(final_response)})


def second_verdict_prompt(question: str, turns: Sequence[ParsedTurn], observations: Sequence[str], final_response: str) -> str:
    """The message on Unsure, with the calls and their responses; values are escaped."""
    calls = transcript(turns, observations)
    return fill(_SECOND, {"question": as_data(question), "calls": calls, "final_response": as_data(final_response)})


def parse_verdict(answer: str) -> Verdict | None:
    """The one verdict in the answer; None if there is none, more than one, or another word."""
    found = list(blocks(answer, *_VERDICT))
    if len(found) != 1 or len(_VERDICT[0].findall(answer)) != 1:
        return None
    word = found[0].body.strip().capitalize()
    return word if word in VERDICTS else None


async def decide(
    question: str,
    turns: Sequence[ParsedTurn],
    observations: Sequence[str],
    final_response: str,
    ask: Callable[[str], Awaitable[str]],
) -> Verdict | None:
    """The verdict on one rollout; None if what the judge answered could not be read. Unsure is what it says twice.

    Hardly any answer is Unsolved without asking.
    """
    if is_hardly_an_answer(final_response):
        return "Unsolved"
    first = parse_verdict(await ask(verdict_prompt(question, final_response)))
    if first != "Unsure":
        return first
    return parse_verdict(await ask(second_verdict_prompt(question, turns, observations, final_response)))
