"""Estimators against golden values, and the properties that hold for all of them (Eq. 3, App. A.2, Prop. A.1)."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slca_core.credit.advantages import Advantages, compute_advantages, without_groups
from slca_core.credit.estimators import ESTIMATORS, Estimator
from slca_core.credit.segments import Segments, split_segments
from slca_core.errors import DataError
from slca_core.rewards.omission import apply_omission, apply_omission_to_outcome

ROOT = Path(__file__).parents[2]
GOLDEN = [json.loads(line) for line in (ROOT / "tests/golden/advantages.jsonl").read_text().splitlines()]
REWARDS = ("tool", "summary", "outcome", "action")
each_estimator = pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=lambda estimator: estimator.name)
each_estimator_within_groups = pytest.mark.parametrize(
    "estimator",
    [estimator for estimator in ESTIMATORS.values() if estimator.normaliser != "batch"],
    ids=lambda estimator: estimator.name,
)


@st.composite
def batches(draw) -> tuple[Segments, dict[str, torch.Tensor], torch.Tensor]:
    """Ragged, interleaved groups of up to ten rollouts, any of which may lack a segment."""
    rollouts, tokens = draw(st.integers(1, 10)), draw(st.integers(1, 9))
    row = st.lists(st.booleans(), min_size=tokens, max_size=tokens)
    mask_BT = torch.tensor(draw(st.lists(row, min_size=rollouts, max_size=rollouts)))
    scores = st.lists(st.sampled_from([-0.5, 0.0, 0.1, 0.25, 1 / 3, 0.75, 1.0]), min_size=rollouts, max_size=rollouts)
    rewards = {name: torch.tensor(draw(scores), dtype=torch.float64) for name in REWARDS}
    groups = st.lists(st.sampled_from([-(2**62), 3, 2**62]), min_size=rollouts, max_size=rollouts)
    return split_segments(mask_BT), rewards, torch.tensor(draw(groups))


def doubles(values: list) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def rows_of(segments: Segments, order: torch.Tensor) -> Segments:
    return split_segments((segments.tool_BT | segments.summary_BT)[order])


def one_group(reward_tool: list[float], reward_sum: list[float], mask: list[list[int]], name: str, **settings: float) -> Advantages:
    rewards = {"tool": torch.tensor(reward_tool), "summary": torch.tensor(reward_sum)}
    return compute_advantages(
        ESTIMATORS[name], rewards, split_segments(torch.tensor(mask)), torch.zeros(len(mask), dtype=torch.int64), **settings
    )


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["id"])
def test_golden_advantages_are_reproduced(case):
    omitted = torch.tensor(case["omitted"])
    tool, summary = apply_omission(doubles(case["r_tool"]), doubles(case["r_sum"]), omitted, penalty=case["r_pen"])
    outcome = apply_omission_to_outcome(doubles(case["outcome"]), omitted)
    rewards = {"tool": tool, "summary": summary, "outcome": outcome, "action": doubles(case["action"])}
    segments, group_B = split_segments(torch.tensor(case["masks"])), torch.tensor(case["group"])
    settings = {key: case[key] for key in ("lambda_tool", "lambda_sum", "eps")}
    for name, expected in case["expected"].items():
        found_BT = compute_advantages(ESTIMATORS[name], rewards, segments, group_B, **settings).advantages_BT
        torch.testing.assert_close(
            found_BT, torch.tensor(expected), rtol=0, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}"
        )


@each_estimator
@settings(max_examples=30, deadline=None)
@given(batch=batches(), random=st.randoms(use_true_random=False))
def test_reordering_the_rollouts_reorders_their_advantages(estimator, batch, random):
    segments, rewards, group_B = batch
    order = torch.tensor(random.sample(range(len(group_B)), len(group_B)))
    straight = compute_advantages(estimator, rewards, segments, group_B)
    reordered = compute_advantages(
        estimator, {name: reward[order] for name, reward in rewards.items()}, rows_of(segments, order), group_B[order]
    )
    torch.testing.assert_close(reordered.advantages_BT, straight.advantages_BT[order], rtol=0, atol=1e-9)


@each_estimator_within_groups
@settings(max_examples=30, deadline=None)
@given(batch=batches())
def test_a_group_gets_the_same_advantages_alone_as_in_a_batch(estimator, batch):
    segments, rewards, group_B = batch
    together_BT = compute_advantages(estimator, rewards, segments, group_B).advantages_BT
    for group in group_B.unique():
        rows = (group_B == group).nonzero().flatten()
        alone = compute_advantages(
            estimator, {name: r[rows] for name, r in rewards.items()}, rows_of(segments, rows), group_B[rows]
        )
        torch.testing.assert_close(alone.advantages_BT, together_BT[rows], rtol=0, atol=1e-9)


@each_estimator
@settings(max_examples=30, deadline=None)
@given(batch=batches())
def test_tokens_outside_the_segments_get_exactly_zero_and_inside_their_segments_scalar(estimator, batch):
    segments, rewards, group_B = batch
    found = compute_advantages(estimator, rewards, segments, group_B)
    assert (found.advantages_BT.dtype, found.tool_B.dtype) == (torch.float32, torch.float64)
    assert (found.advantages_BT[~(segments.tool_BT | segments.summary_BT)] == 0).all()
    for segment_BT, scalar_B in ((segments.tool_BT, found.tool_B), (segments.summary_BT, found.summary_B)):
        assert torch.equal(found.advantages_BT[segment_BT], scalar_B.float()[:, None].expand_as(segment_BT)[segment_BT])
        assert (scalar_B[~segment_BT.any(dim=1)] == 0).all()


@each_estimator
@settings(max_examples=30, deadline=None)
@given(batch=batches(), shared=st.floats(-1, 1))
def test_a_group_without_spread_gets_exactly_zero(estimator, batch, shared):
    segments, rewards, group_B = batch
    equal = {name: torch.full_like(reward, shared) for name, reward in rewards.items()}
    assert (compute_advantages(estimator, equal, segments, group_B).advantages_BT == 0).all()


@settings(max_examples=30, deadline=None)
@given(batch=batches(), other=st.floats(-100, 100), data=st.data())
def test_under_slca_a_segments_advantage_does_not_move_when_the_others_reward_does(batch, other, data):
    segments, rewards, group_B = batch
    rollout = data.draw(st.integers(0, len(group_B) - 1))
    before = compute_advantages(ESTIMATORS["slca"], rewards, segments, group_B)
    for moved, kept in (("summary", "tool_B"), ("tool", "summary_B")):
        changed = rewards[moved].clone()
        changed[rollout] = other
        after = compute_advantages(ESTIMATORS["slca"], rewards | {moved: changed}, segments, group_B)
        assert torch.equal(getattr(after, kept), getattr(before, kept))


def test_under_grpo_a_tool_tokens_advantage_does_move_with_the_summary_reward():
    mask = [[1, 0, 1], [1, 0, 1], [1, 0, 1]]
    before = one_group([0.2, 0.5, 0.9], [0.0, 0.5, 1.0], mask, "grpo")
    after = one_group([0.2, 0.5, 0.9], [1.0, 0.5, 0.0], mask, "grpo")
    assert not torch.allclose(before.tool_B, after.tool_B)


@settings(max_examples=30, deadline=None)
@given(batch=batches(), lambda_tool=st.floats(0, 8), lambda_sum=st.floats(0, 8))
def test_lambda_scales_a_segments_advantage_because_it_applies_after_normalisation(batch, lambda_tool, lambda_sum):
    segments, rewards, group_B = batch
    plain = compute_advantages(ESTIMATORS["slca"], rewards, segments, group_B)
    scaled = compute_advantages(ESTIMATORS["slca"], rewards, segments, group_B, lambda_tool=lambda_tool, lambda_sum=lambda_sum)
    torch.testing.assert_close(scaled.tool_B, lambda_tool * plain.tool_B, rtol=1e-12, atol=0)
    torch.testing.assert_close(scaled.summary_B, lambda_sum * plain.summary_B, rtol=1e-12, atol=0)


@settings(max_examples=30, deadline=None)
@given(batch=batches(), scale=st.floats(0.1, 10))
def test_a_weight_before_normalisation_cancels(batch, scale):
    segments, rewards, group_B = batch
    plain = compute_advantages(ESTIMATORS["slca"], rewards, segments, group_B, eps=0.0)
    scaled = compute_advantages(ESTIMATORS["slca"], rewards | {"tool": scale * rewards["tool"]}, segments, group_B, eps=0.0)
    torch.testing.assert_close(scaled.tool_B, plain.tool_B, rtol=1e-9, atol=1e-9, equal_nan=True)


@settings(max_examples=30, deadline=None)
@given(batch=batches())
def test_slca_with_a_joint_normaliser_and_routing_of_ones_is_grpo_bit_for_bit(batch):
    segments, rewards, group_B = batch
    merged = replace(ESTIMATORS["slca"], normaliser="joint", routing=((1.0,), (1.0,)), presence=("all",))
    found, grpo = (compute_advantages(one, rewards, segments, group_B) for one in (merged, ESTIMATORS["grpo"]))
    assert torch.equal(found.advantages_BT, grpo.advantages_BT)
    assert torch.equal(found.tool_B, grpo.tool_B)


def test_gdpo_is_the_batch_standardised_sum_of_group_standardised_rewards():
    tool, summary = torch.tensor([0.0, 1.0, 0.3, 0.5]).double(), torch.tensor([0.5, 0.25, 1.0, 0.0]).double()
    group_B, segments = torch.tensor([0, 0, 1, 1]), split_segments(torch.tensor([[1, 0, 1]] * 4))
    z = lambda pair: (pair - pair.mean()) / (pair.std() + 1e-6)  # noqa: E731
    total = torch.cat([z(tool[:2]) + z(summary[:2]), z(tool[2:]) + z(summary[2:])])
    found = compute_advantages(ESTIMATORS["gdpo"], {"tool": tool, "summary": summary}, segments, group_B)
    torch.testing.assert_close(found.tool_B, z(total))
    assert torch.equal(found.tool_B, found.summary_B)


@pytest.mark.parametrize("name", ["mt_grpo_aae", "mt_grpo_cae"])
def test_mt_grpo_gives_the_outcome_to_what_follows_the_tools_and_more_to_what_precedes_them(name):
    tool, summary = torch.tensor([0.1, 0.9, 0.4]).double(), torch.tensor([1.0, 0.25, 0.5]).double()
    z = lambda reward: (reward - reward.mean()) / (reward.std() + 1e-6)  # noqa: E731
    before = z(summary) + z(tool) if name == "mt_grpo_aae" else z(tool + summary)
    found = one_group(tool.tolist(), summary.tolist(), [[1, 0, 1], [1, 0, 1], [0, 0, 1]], name)
    torch.testing.assert_close(found.tool_B[:2], before[:2], rtol=0, atol=1e-6)
    torch.testing.assert_close(found.summary_B[:2], z(summary)[:2], rtol=0, atol=1e-6)
    torch.testing.assert_close(found.summary_B[2], before[2], rtol=0, atol=1e-6)
    assert found.tool_B[2] == 0


@pytest.mark.parametrize("name", ["grpo", "dr_grpo", "toolpo", "rltr"])
@settings(max_examples=30, deadline=None)
@given(batch=batches())
def test_the_lambdas_play_no_part_in_unweighted_estimators(name, batch):
    segments, rewards, group_B = batch
    plain = compute_advantages(ESTIMATORS[name], rewards, segments, group_B)
    scaled = compute_advantages(ESTIMATORS[name], rewards, segments, group_B, lambda_tool=3.0, lambda_sum=0.5)
    assert torch.equal(plain.advantages_BT, scaled.advantages_BT)


def test_only_rollouts_with_the_segment_enter_its_statistics():
    with_bystander = one_group([0.0, 1.0, 0.7], [0.5, 0.5, 0.5], [[1, 0, 1], [1, 0, 1], [0, 0, 1]], "slca")
    pair = one_group([0.0, 1.0], [0.5, 0.5], [[1, 0, 1], [1, 0, 1]], "slca")
    assert torch.equal(with_bystander.tool_B[:2], pair.tool_B)
    assert with_bystander.tool_B[2] == 0


@pytest.mark.parametrize("name", ["slca", "rltr"])
def test_the_only_rollout_with_a_tool_segment_gets_zero_and_not_its_raw_score(name):
    assert one_group([0.9, 0.3], [0.5, 0.5], [[1, 0, 1], [0, 0, 1]], name).tool_B.tolist() == [0, 0]


def test_dr_grpo_subtracts_the_mean_and_keeps_the_scale():
    found = one_group([0.0, 0.5, 1.0], [0.0, 0.0, 0.5], [[1, 0, 1]] * 3, "dr_grpo")
    torch.testing.assert_close(found.tool_B, torch.tensor([-2 / 3, -1 / 6, 5 / 6]).double(), rtol=0, atol=1e-7)


def test_joint_scale_splits_grpos_advantage_between_the_segments():
    mask_BT, group_B = torch.tensor([[1, 0, 1]] * 4), torch.zeros(4, dtype=torch.int64)
    rewards = {"tool": torch.tensor([0.1, 0.9, 0.4, 0.6]), "summary": torch.tensor([1.0, 0.25, 0.5, 0.5])}
    split = compute_advantages(ESTIMATORS["slca_joint_scale"], rewards, split_segments(mask_BT), group_B)
    unified = compute_advantages(ESTIMATORS["grpo"], rewards, split_segments(mask_BT), group_B)
    torch.testing.assert_close(split.tool_B + split.summary_B, unified.tool_B)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_reward_that_is_not_finite_is_an_error_that_names_rollout_and_reward(bad):
    with pytest.raises(DataError, match=r"rollout 1: its reward 'summary'"):
        one_group([0.0, 1.0], [0.5, bad], [[1, 0, 1], [1, 0, 1]], "slca")


def test_a_missing_reward_is_named():
    segments = split_segments(torch.ones(2, 3))
    with pytest.raises(ValueError, match="'action' was not given"):
        compute_advantages(ESTIMATORS["toolpo"], {"outcome": torch.zeros(2)}, segments, torch.zeros(2, dtype=torch.int64))


def test_an_estimator_whose_routing_does_not_fit_its_columns_is_refused():
    with pytest.raises(ValueError, match="each of 1 coefficients"):
        Estimator("odd", ("tool", "summary"), "joint", routing=((1.0, 0.0), (0.0, 1.0)), presence=("all",))
    with pytest.raises(ValueError, match="presence must have 2 entries"):
        Estimator("odd", ("tool", "summary"), "separate", routing=((1.0, 0.0), (0.0, 1.0)), presence=("all",))
    with pytest.raises(ValueError, match="each of its signals needs 2 coefficients"):
        Estimator("odd", ("tool", "summary"), "joint", routing=((1.0,), (1.0,)), presence=("all",), signals=((1.0,),))


def test_importing_the_estimators_brings_in_no_third_party_package_but_torch():
    code = (
        "import sys, torch; before = set(sys.modules); import slca_core.credit.advantages; "
        "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before} - sys.stdlib_module_names))"
    )
    loaded = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert set(loaded.split()) <= {"slca_core", "torch"}


def test_groups_that_are_left_out_leave_the_token_mean():
    advantages_BT = torch.tensor([[1.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [3.0, 3.0, 3.0]])
    policy_BT = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 1]]).bool()
    kept_B = torch.tensor([True, True, False])
    scaled = without_groups(advantages_BT, kept_B, policy_BT)
    assert scaled.sum() / policy_BT.sum() == pytest.approx(advantages_BT[kept_B].sum() / policy_BT[kept_B].sum())
    assert not scaled[2].any()


def test_with_every_group_kept_advantages_are_as_they_were_and_with_none_nothing_teaches():
    advantages_BT, policy_BT = torch.randn(4, 3), torch.ones(4, 3, dtype=torch.bool)
    everyone = torch.ones(4, dtype=torch.bool)
    assert without_groups(advantages_BT, everyone, policy_BT).equal(advantages_BT)
    assert not without_groups(advantages_BT, ~everyone, policy_BT).any()


@pytest.mark.parametrize("estimator", ["slca", "grpo", "gdpo", "slca_joint_scale"])
def test_groups_that_do_not_count_bear_on_no_other(estimator):
    mask_BT = torch.tensor([[1, 0, 1]] * 6)
    group_B = torch.tensor([0, 0, 0, 1, 1, 1])
    rewards = {
        name: torch.tensor([0.1, 0.5, 0.9, *values]) for name, values in (("tool", [0.2, 0.4, 0.3]), ("summary", [1.0, 0.0, 0.5]))
    }
    kept_B = group_B == 0
    spoiled = {name: torch.where(kept_B, reward_B, 7.0) for name, reward_B in rewards.items()}
    alone = {name: reward_B[:3] for name, reward_B in rewards.items()}
    expected = compute_advantages(ESTIMATORS[estimator], alone, split_segments(mask_BT[:3]), group_B[:3]).advantages_BT
    for some in (rewards, spoiled):
        found = compute_advantages(ESTIMATORS[estimator], some, split_segments(mask_BT), group_B, kept_B=kept_B)
        assert found.advantages_BT[:3].equal(expected)
        assert not found.advantages_BT[3:].any()
        assert found.teaching_B(group_B).tolist() == [True] * 3 + [False] * 3
