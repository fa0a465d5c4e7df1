"""The summary judge: rubric, rating scale (Table 4) and its parsing.

It sees the question, the tool responses and the final answer only: no calls, no thinking.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, get_args

from slca_core.conversation.tags import blocks, tag_pair
from slca_core.judges.transcript import as_data, fill, numbered

Rating = Literal["very poor", "poor", "acceptable", "good", "excellent"]
RATINGS: tuple[Rating, ...] = get_args(Rating)
JUDGE_FAILURE_SCORE = 0.0
SHORTEST_ANSWER = 10  # characters; the release takes a shorter one for none

_RUBRIC = """You grade the final answer of an assistant that used tools. Grade only what is written below.

Weigh three points:
1. Result interpretation: does the answer say what the tool responses say, without error or invention?
2. Information completeness: does it give everything the question asks for, as far as the responses hold it?
3. Expression quality: is it clear, orderly and no longer than needed?

<question>
{question_content}
</question>
<tool_responses>
{tool_responses}
</tool_responses>
<final_response>
{final_response}
</final_response>

Choose one rating: very poor, poor, acceptable, good, excellent. Reply in this form only:
<response>
  <response_quality>
    <reasoning>one or two sentences</reasoning>
    <rating>the rating</rating>
  </response_quality>
</response>
"""

_QUALITY, _RATING = tag_pair("response_quality", re.IGNORECASE), tag_pair("rating", re.IGNORECASE)


def judge_prompt(question: str, tool_responses: Sequence[str], final_response: str) -> str:
    """The judge's single user message; values are escaped, so that no answer can close a tag or bring a rating of its own."""
    return fill(
        _RUBRIC,
        {
            "question_content": as_data(question),
            "tool_responses": numbered(tool_responses),
            "final_response": as_data(final_response),
        },
    )


def parse_rating(answer: str) -> Rating | None:
    """The one rating in the judge's answer; None if there is none, more than one, or one off the scale."""
    if len(_RATING[0].findall(answer)) != 1:
        return None
    framed = _QUALITY[0].search(answer)
    found = next(blocks(answer[framed.end() :], *_RATING), None) if framed else None
    # The frame is closed behind the rating; a tag of it inside the reasoning is the judge's own words.
    if found is None or not _QUALITY[1].search(found.closing.string, found.closing.end()):
        return None
    rating = found.body.strip().lower()
    return rating if rating in RATINGS else None


def rating_score(rating: Rating | None) -> float:
    """(r - 1) / 4 for the five ratings, JUDGE_FAILURE_SCORE for a parse failure."""
    return JUDGE_FAILURE_SCORE if rating is None else RATINGS.index(rating) / 4


def is_short_circuited(tool_responses: Sequence[str], final_response: str) -> bool:
    """Whether the release scores this rollout 0 without asking: no tool response, or hardly any answer."""
    return not tool_responses or is_hardly_an_answer(final_response)


def is_hardly_an_answer(final_response: str) -> bool:
    """Whether it is shorter than the release takes for an answer."""
    return len(final_response.strip()) < SHORTEST_ANSWER
