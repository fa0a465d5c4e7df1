"""What a rollout predicted: its tags counted, its blocks judged, its calls in order (App. A.4).

The paper's words and the authors' release count differently; each is a value of `Rules`, so that no score branches on a name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from slca_core.conversation.calls import Block, ParsedTurn, Refusal
from slca_core.conversation.dialogue import ToolCall
from slca_core.conversation.schemas import ToolSet

Semantics = Literal["paper", "release"]


@dataclass(frozen=True, slots=True)
class Rules:
    """The points on which the semantics differ.

    Attributes:
        checks_arguments: a valid block's arguments fit their tools' schemas, not only its tools be offered.
        counts_invalid: the calls of every parsed block are predictions, unknown tools included; else only those of valid blocks.
        credits_silence: a rollout without any tag has a perfect format where no call was due.
        takes_at_zero: a gold call takes a prediction of its name even if neither keys nor values agree.
        compares_bare_gold: gold calls without arguments take part in S_key and S_val.
        values_over: what S_val divides by.
        first_step: what S_par counts: all calls of the first turn with a counted call, or its first counted block.
    """

    checks_arguments: bool
    counts_invalid: bool
    credits_silence: bool
    takes_at_zero: bool
    compares_bare_gold: bool
    values_over: Literal["matched keys", "gold keys"]
    first_step: Literal["turn", "block"]


RULES: Mapping[Semantics, Rules] = MappingProxyType(
    {
        "paper": Rules(
            checks_arguments=True,
            counts_invalid=True,
            credits_silence=True,
            takes_at_zero=True,
            compares_bare_gold=True,
            values_over="matched keys",
            first_step="turn",
        ),
        "release": Rules(
            checks_arguments=False,
            counts_invalid=False,
            credits_silence=False,
            takes_at_zero=False,
            compares_bare_gold=False,
            values_over="gold keys",
            first_step="block",
        ),
    }
)


# Why an opened block is not valid, in the order it is found out.
REFUSALS = ("unclosed", *(str(refusal) for refusal in Refusal), "unknown-tool", "schema")


@dataclass(frozen=True, slots=True)
class Prediction:
    """The predicted calls Y of a rollout with the counts S_fmt and S_par need.

    Attributes:
        first_step: |Y_init|, the number of calls made first; 0 without a counted call.
        refusals: how many opened blocks are not valid, for each of REFUSALS that occurred; with n_valid they add up to the blocks
            plus the opening tags without a block.
    """

    calls: tuple[ToolCall, ...]
    first_step: int
    n_open: int
    n_close: int
    n_valid: int
    refusals: Mapping[str, int]


def read_prediction(turns: Sequence[ParsedTurn], tools: ToolSet, rules: Rules) -> Prediction:
    """What the assistant turns of a rollout predict, the summary included."""
    valid = [[_is_valid(block, tools, rules) for block in turn.blocks] for turn in turns]
    counted = [
        [block.calls for block, ok in zip(turn.blocks, oks, strict=True) if block.calls and (ok or rules.counts_invalid)]
        for turn, oks in zip(turns, valid, strict=True)
    ]
    first_turn = next((blocks for blocks in counted if blocks), [])
    refusals = [reason for turn, oks in zip(turns, valid, strict=True) for reason in _refusals(turn, oks, tools)]
    return Prediction(
        calls=tuple(call for blocks in counted for calls in blocks for call in calls),
        first_step=sum(map(len, first_turn if rules.first_step == "turn" else first_turn[:1])),
        n_open=sum(turn.n_open for turn in turns),
        n_close=sum(turn.n_close for turn in turns),
        n_valid=sum(map(sum, valid)),
        refusals=Counter(refusals) if refusals else {},
    )


def _refusals(turn: ParsedTurn, valid: Sequence[bool], tools: ToolSet) -> Iterator[str]:
    for block, ok in zip(turn.blocks, valid, strict=True):
        if block.refusal is not None:
            yield str(block.refusal)
        elif not ok:
            yield "schema" if all(call.name in tools for call in block.calls) else "unknown-tool"
    yield from ["unclosed"] * turn.n_unclosed


def _is_valid(block: Block, tools: ToolSet, rules: Rules) -> bool:
    if not block.calls:
        return False
    return all(tools.is_valid(call) if rules.checks_arguments else call.name in tools for call in block.calls)
