"""ToolPO's two rewards by rule (App. C): whether the calls are gold's, and the share of gold calls that were made.

The reference-rule outcome is a conjunction of the checks HierR averages; the action reward omits the original's preference term.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from slca_core.conversation.dialogue import ToolCall
from slca_core.rewards.hierr import starts_in_parallel
from slca_core.rewards.matching import loosely_equal, match_greedily
from slca_core.rewards.prediction import Prediction, Rules


def reference_outcome(prediction: Prediction, gold: Sequence[Sequence[ToolCall]], rules: Rules) -> float:
    """1.0 if the calls are gold's, else 0.0.

    That is: every tag belongs to a valid block, the names are gold's, each matched call has gold's keys with gold's values, and the
    first step is as wide as gold's. The order of calls across turns is not checked.
    """
    gold_calls = [call for step in gold for call in step]
    well_formed = prediction.n_valid == prediction.n_open == prediction.n_close
    same_names = Counter(call.name for call in prediction.calls) == Counter(call.name for call in gold_calls)
    if not (well_formed and same_names and starts_in_parallel(prediction, gold)):
        return 0.0
    # Gold calls without arguments ask nothing of their match, so leaving them out as the release does changes no verdict.
    matches = match_greedily([call for call in gold_calls if call.arguments or rules.compares_bare_gold], prediction.calls, rules)
    return float(all(match.predicted is not None and _covers(match.predicted, match.gold) for match in matches))


def action_reward(prediction: Prediction, gold: Sequence[Sequence[ToolCall]]) -> float:
    """Share of gold calls for which an unused prediction has the name, gold's keys and loosely gold's values; 1.0 without gold."""
    unused = list(prediction.calls)
    gold_calls = [call for step in gold for call in step]
    made = 0
    for call in gold_calls:
        position = next((position for position, guess in enumerate(unused) if _covers(guess, call)), None)
        if position is not None:
            unused.pop(position)
            made += 1
    return made / len(gold_calls) if gold_calls else 1.0


def _covers(guess: ToolCall, gold: ToolCall) -> bool:
    return guess.name == gold.name and all(
        key in guess.arguments and loosely_equal(guess.arguments[key], value) for key, value in gold.arguments.items()
    )
