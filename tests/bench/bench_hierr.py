"""HierR on golden cases, schemas warm, one core: against a plain Python scorer that keeps its `jsonschema` validators."""

from __future__ import annotations

import json
from pathlib import Path

from slca_core.conversation.dialogue import ToolCall
from slca_core.conversation.schemas import ToolSet
from slca_core.rewards.hierr import score_process
from tests.bench.measure import Peer, Row, compare
from tests.bench.plain_hierr import PlainScorer

GOLDEN = Path(__file__).parents[1] / "golden" / "hierr_own.jsonl"


def run() -> list[Row]:
    cases = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
    ours = [
        (c["turns"], ToolSet.of(c["tools"]), [[ToolCall.from_json(call) for call in step] for step in c["gold"]]) for c in cases
    ]
    plain = [(PlainScorer(c["tools"]), c["turns"], c["gold"]) for c in cases]

    def score() -> list[float]:
        return [score_process(turns, tools, gold).process for turns, tools, gold in ours]

    def score_plainly() -> list[float]:
        return [scorer.process(turns, gold) for scorer, turns, gold in plain]

    def difference() -> float:
        return max(abs(a - b) for a, b in zip(score(), score_plainly(), strict=True))

    peers = {"plain Python + jsonschema": Peer(score_plainly, difference)}
    rows = compare(f"HierR: {len(cases)} golden rollouts", score, peers)
    return rows
