"""What an update leaves behind: rollouts aligned with their tokens, and a metrics file that survives a crash."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from slca_core.credit.advantages import compute_advantages
from slca_core.credit.estimators import ESTIMATORS
from slca_core.credit.segments import mask_from_ranges, split_segments
from slca_core.errors import DataError
from slca_core.records.json_lines import read_lines
from slca_core.services.usage import Usage
from slca_core.trainer import ledger

# token_ids, action ranges, R_tool, R_sum: one group of three rollouts of different lengths.
ROLLOUTS = [
    (list(range(9)), [(2, 4), (6, 9)], 1.0, 0.25),
    (list(range(6)), [(2, 3), (4, 6)], 0.0, 1.0),
    (list(range(4)), [(2, 4)], -0.5, -0.5),
]


def record(index: int, **changes) -> dict:
    token_ids, ranges, r_tool, r_sum = ROLLOUTS[index]
    values = {
        "rollout_id": f"00003-0000-{index:03d}",
        "update": 3,
        "r_tool": r_tool,
        "r_sum": r_sum,
        "outcome": 0.0,
        "omitted": r_sum < 0,
        **dict.fromkeys(("fmt", "name", "key", "val", "par", "process", "exact"), 0.5),
        **{"n_open": 2, "n_close": 1, "tool_turns": len(ranges) - 1, "refused_calls": 0, "observations": [], "truncated": False},
        **{"unread": 0, "broken_responses": 0, "services": {"judge": Usage(calls=1, requests=1).to_json()}},
        **{"rating": "good", "error": None, "prompt_tokens": 2, "token_ids": token_ids, "action_ranges": ranges},
    }
    return values | changes


@pytest.fixture
def records() -> list[dict]:
    return [record(index) for index in range(3)]


@pytest.fixture
def routed():
    """As the trainer computes it: OpenRLHF's action masks begin at token 1 and are padded to the longest rollout."""
    mask_BT = mask_from_ranges([ranges for _, ranges, _, _ in ROLLOUTS], 9)[:, 1:]
    rewards = {"tool": torch.tensor([one[2] for one in ROLLOUTS]), "summary": torch.tensor([one[3] for one in ROLLOUTS])}
    return compute_advantages(ESTIMATORS["slca"], rewards, split_segments(mask_BT), torch.zeros(3, dtype=torch.int64))


@pytest.fixture
def metrics(tmp_path):
    path = tmp_path / "metrics.jsonl"
    for update in (1, 2, 3):
        ledger.append_line(path, {"update": update, "reward": update / 4})
    return path


def test_lines_are_appended_in_order(metrics):
    assert [line["update"] for line in read_lines(metrics)] == [1, 2, 3]


def test_a_resumed_run_cuts_back_to_its_checkpoint(metrics):
    ledger.cut_back(metrics, 1)
    ledger.append_line(metrics, {"update": 2, "reward": 0.9})
    assert read_lines(metrics) == [{"update": 1, "reward": 0.25}, {"update": 2, "reward": 0.9}]


def test_a_line_that_a_crash_left_unfinished_is_dropped(metrics):
    with metrics.open("a") as file:
        file.write('{"update": 4, "rew')
    assert [line["update"] for line in read_lines(metrics)] == [1, 2, 3]
    ledger.cut_back(metrics, 3)
    ledger.append_line(metrics, {"update": 4, "reward": 1.0})
    assert [line["update"] for line in read_lines(metrics)] == [1, 2, 3, 4]


def test_a_run_that_wrote_nothing_yet_has_no_lines_and_nothing_to_cut(tmp_path):
    ledger.cut_back(tmp_path / "metrics.jsonl", 0)
    assert read_lines(tmp_path / "metrics.jsonl") == []
    assert not (tmp_path / "metrics.jsonl").exists()


def test_mask_and_advantages_stand_beside_their_tokens(tmp_path, records, routed):
    frame = pd.read_parquet(ledger.write_rollouts(tmp_path / "rollouts", 3, records, routed))
    for row, (token_ids, ranges, _, _) in zip(frame.itertuples(), ROLLOUTS, strict=True):
        assert len(row.mask) == len(row.advantages) == len(token_ids)
        assert row.mask.nonzero()[0].tolist() == [at for start, end in ranges for at in range(start, end)]


def test_each_segment_carries_its_value_and_all_else_exactly_nothing(tmp_path, records, routed):
    frame = pd.read_parquet(ledger.write_rollouts(tmp_path / "rollouts", 3, records, routed))
    for row, (token_ids, ranges, _, _) in zip(frame.itertuples(), ROLLOUTS, strict=True):
        *tool, summary = ranges
        expected = [0.0] * len(token_ids)
        for (start, end), value in [*((span, row.adv_tool) for span in tool), (summary, row.adv_sum)]:
            expected[start:end] = [np.float32(value)] * (end - start)
        assert row.advantages.tolist() == expected
    assert frame.adv_tool.iloc[0] > 0 > frame.adv_tool.iloc[1]
    assert frame.adv_sum.iloc[1] > 0 > frame.adv_sum.iloc[2]


def test_rollouts_without_as_many_advantages_are_refused(tmp_path, records, routed):
    with pytest.raises(ValueError, match="zip"):
        ledger.write_rollouts(tmp_path / "rollouts", 3, records[:2], routed)


def test_the_spool_of_an_update_is_read_in_order_of_position_and_sample(tmp_path):
    for position, sample, update in ((1, 0, 3), (0, 1, 3), (0, 0, 3), (0, 0, 4)):
        identity = f"{update:05d}-{position:04d}-{sample:03d}"
        ledger.spool(tmp_path, ledger.Spooled({"rollout_id": identity}, None))
    found = ledger.collect_spool(tmp_path, 3, expected=3)
    assert [one["rollout_id"] for one in found] == ["00003-0000-000", "00003-0000-001", "00003-0001-000"]
    ledger.clear_spool(tmp_path, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["00004-0000-000.json"]


@pytest.mark.parametrize("there", [True, False])
def test_missing_rollouts_are_counted_in_a_sentence(tmp_path, there):
    spool = tmp_path / "spool"
    if there:
        spool.mkdir()
    with pytest.raises(DataError, match=r"Update 3 was expected to spool 8 rollouts in .*spool, 0 are there"):
        ledger.collect_spool(spool, 3, expected=8)


def test_the_line_of_an_update_averages_its_rollouts(records, routed):
    line = ledger.summarise(3, records, routed, {"kl": 0.01, "actor_grad_norm": 2.0, "unknown": 1.0})
    assert (line["update"], line["rollouts"]) == (3, 3)
    assert line["reward"] == pytest.approx((1.25 + 1.0 - 1.0) / 3)
    assert (line["omission_rate"], line["unmatched_tags"]) == (pytest.approx(1 / 3), 1.0)
    assert line["response_tokens"] == pytest.approx((9 + 6 + 4) / 3 - 2)
    assert (line["kl"], line["gradient_norm"]) == (0.01, 2.0)
    assert "unknown" not in line


def test_an_unreadable_rating_and_a_failed_rollout_are_counted_apart(routed):
    records = [record(0, unread=1), record(1, error="judge: gone"), record(2)]
    line = ledger.summarise(3, records, routed, {})
    assert line["reward"] == pytest.approx((1.25 - 1.0) / 2), "of those that were scored"
    assert (line["unread_answers"], line["error_rate"]) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert (line["errors/judge"], line["errors/mocker"]) == (1, 0)


def test_what_the_rollouts_asked_of_each_service_is_summed(records, routed):
    line = ledger.summarise(3, records, routed, {})
    assert (line["judge/calls"], line["judge/requests"], line["judge/cached"]) == (3, 3, 0)


def test_a_rollout_is_taken_from_the_spool_again_unless_it_failed(tmp_path):
    for index, error in ((0, None), (1, "judge: gone")):
        ledger.spool(tmp_path, ledger.Spooled(record(index, error=error), [0.0, -0.1]))
    assert ledger.read_spooled(tmp_path, "00003-0000-000").logprobs == [0.0, -0.1]
    assert ledger.read_spooled(tmp_path, "00003-0000-001") is None
    assert ledger.read_spooled(tmp_path, "00003-0000-002") is None


def test_a_resumed_run_keeps_what_its_checkpoints_policy_has_rolled_out(tmp_path):
    for name in ("00003-0000-000.json", "00004-0000-000.json", "00004-0000-001.731", "00005-0000-000.json"):
        (tmp_path / name).touch()
    ledger.cut_back_spool(tmp_path, 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00004-0000-000.json", "00004-0000-001.731"]
    ledger.cut_back_spool(tmp_path / "none", 3)
