"""The seam for routed advantages, through the stock method it extends, on experiences made by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from openrlhf.trainer.ppo_utils.experience import Experience

from slca_core.trainer.arguments import rl_arguments
from slca_core.trainer.experience import RoutedExperienceMaker

# Two prompts, two rollouts each: policy tokens as OpenRLHF's action mask has them, R_tool and R_sum.
ROLLOUTS = [
    # position, sample, mask, r_tool, r_sum
    (0, 0, [0, 1, 1, 0, 0, 1, 1, 0], 1.0, 0.0),
    (0, 1, [0, 1, 0, 0, 1, 1, 1, 1], 0.0, 1.0),
    (1, 0, [0, 1, 1, 1, 0, 0, 1, 0], 0.5, 0.25),
    (1, 1, [0, 0, 1, 0, 1, 1, 0, 0], 0.9, 0.75),
]
TOOL = [[1, 2], [1], [1, 2, 3], [2]]
SUMMARY = [[5, 6], [4, 5, 6, 7], [6], [4, 5]]
CUT = 3  # this one was cut while calling
FAILED: tuple[int, ...] = ()
UNIT = 2**-0.5  # the z-scores of a group of two


def experience(index: int) -> Experience:
    position, sample, mask, r_tool, r_sum = ROLLOUTS[index]
    reward = torch.tensor([r_tool + r_sum])
    values = {
        **{"r_tool": r_tool, "r_sum": r_sum, "outcome": r_tool, "action": r_tool},
        **{"position": position, "sample_index": sample, "cut_calling": index == CUT, "failed": index in FAILED},
    }
    return Experience(
        sequences=torch.arange(len(mask) + 1)[None],
        action_mask=torch.tensor([mask]),
        kl=torch.zeros(1, len(mask)),
        rewards=reward,
        response_length=torch.tensor([sum(mask)]),
        truncated=torch.tensor([False]),
        index=[index],
        info={"reward": reward, **{name: torch.tensor([float(value)]) for name, value in values.items()}},
    )


@pytest.fixture
def route(make_spec, parse):
    """(estimator, micro-batches as lists of rollout numbers) -> (rollout number -> its advantages, the experiences, the maker)."""

    def run(estimator: str, batches: list[list[int]], **rl):
        spec = make_spec(estimator, prompts_per_update=2, group_size=2, minibatch_prompts=2, **rl)
        args = parse("openrlhf.cli.train_ppo_ray", rl_arguments(spec))
        strategy = SimpleNamespace(args=args)
        maker = RoutedExperienceMaker(None, None, None, None, SimpleNamespace(value=0.001), strategy, None)
        maker.spec = spec
        merged = [Experience.concat_experiences([experience(number) for number in batch], 0) for batch in batches]
        made = maker.compute_advantages_and_returns(merged)
        numbers = [number for batch in batches for number in batch]
        rows = [row for one in made for row in one.advantages]
        return dict(zip(numbers, rows, strict=True)), made, maker

    return run


def test_under_slca_each_segment_carries_only_its_own_reward(route):
    advantages, _, _ = route("slca", [[0, 1, 2, 3]])
    tool = [UNIT, -UNIT, -UNIT, UNIT]
    summary = [-UNIT, UNIT, -UNIT, UNIT]
    for number, row in advantages.items():
        assert row[TOOL[number]].tolist() == pytest.approx([tool[number]] * len(TOOL[number]), abs=1e-4)
        assert row[SUMMARY[number]].tolist() == pytest.approx([summary[number]] * len(SUMMARY[number]), abs=1e-4)


def test_under_strict_summary_a_rollout_cut_while_calling_has_no_summary(route):
    advantages, _, _ = route("slca", [[0, 1, 2, 3]], strict_summary=True)
    assert advantages[CUT][TOOL[CUT] + SUMMARY[CUT]].tolist() == pytest.approx([UNIT] * 3, abs=1e-4), "all of it is Tool"
    assert advantages[2][SUMMARY[2]].tolist() == [0.0], "one summary is left in its group: nothing to compare"


def test_under_grpo_all_policy_tokens_of_a_rollout_carry_one_value(route):
    advantages, _, _ = route("grpo", [[0, 1, 2, 3]])
    for number, row in advantages.items():
        assert row[TOOL[number] + SUMMARY[number]].unique().numel() == 1
    assert advantages[0].eq(0).all(), "rewards of 1 + 0 and 0 + 1 are equal totals"
    assert advantages[3].max().item() == pytest.approx(UNIT, abs=1e-4)


@pytest.mark.parametrize("estimator", ["slca", "grpo"])
def test_observations_and_padding_carry_exactly_nothing(route, estimator):
    advantages, _, _ = route(estimator, [[0, 1, 2, 3]])
    for number, row in advantages.items():
        others = sorted(set(range(len(row))) - set(TOOL[number]) - set(SUMMARY[number]))
        assert row[others].tolist() == [0.0] * len(others)


@pytest.mark.parametrize("estimator", ["slca", "grpo"])
@pytest.mark.parametrize("batches", [[[0], [1], [2], [3]], [[3, 1], [2, 0]], [[2], [0, 3, 1]]], ids=str)
def test_the_split_into_micro_batches_and_its_order_do_not_matter(route, estimator, batches):
    whole, _, _ = route(estimator, [[0, 1, 2, 3]])
    split, _, _ = route(estimator, batches)
    for number in range(len(ROLLOUTS)):
        assert split[number].equal(whole[number])


def test_advantages_have_the_width_of_their_own_micro_batch(route, monkeypatch):
    longer = (1, 1, [*ROLLOUTS[3][2], 0, 1, 1], 0.9, 0.75)
    monkeypatch.setitem(globals(), "ROLLOUTS", [*ROLLOUTS[:3], longer])
    _, made, maker = route("slca", [[0, 1], [2], [3]])
    assert [one.advantages.shape for one in made] == [one.action_mask.shape for one in made]
    assert maker.routed.advantages_BT.shape == (4, 11)


def test_identities_leave_the_metrics_and_rewards_stay(route):
    _, made, _ = route("slca", [[0, 1], [2, 3]])
    for one in made:
        assert not {"position", "sample_index"} & set(one.info)
        assert {"reward", "r_tool", "r_sum", "return"} <= set(one.info)


def test_what_the_policy_loss_multiplies_is_float32(route):
    _, made, _ = route("slca", [[0, 1, 2, 3]])
    assert made[0].advantages.dtype == torch.float32


def test_groups_without_spread_leave_the_mean_of_the_policy_loss(route):
    plain, _, maker = route("grpo", [[0, 1, 2, 3]])
    filtered, _, _ = route("grpo", [[0, 1, 2, 3]], rollout_filter="zero_spread")
    assert maker.teaching_B.tolist() == [False, False, True, True], "rewards of 1 + 0 and 0 + 1 are equal totals"
    policy = torch.tensor([sum(mask) for _, _, mask, _, _ in ROLLOUTS])
    for number, row in filtered.items():
        # The loss's mean over all 16 policy tokens is then that over the 7 of the second group.
        assert row.tolist() == pytest.approx((plain[number] * policy.sum() / policy[2:].sum()).tolist(), abs=1e-6)


def test_the_filter_changes_nothing_where_every_group_teaches(route):
    plain, _, _ = route("slca", [[0, 1, 2, 3]])
    filtered, _, _ = route("slca", [[0, 1, 2, 3]], rollout_filter="zero_spread")
    assert all(filtered[number].equal(plain[number]) for number in plain)


@pytest.mark.parametrize("estimator", ["slca", "grpo"])
def test_a_group_with_a_failed_rollout_leaves_the_policy_loss_and_the_others_are_as_they_were(route, monkeypatch, estimator):
    plain, _, _ = route(estimator, [[0, 1, 2, 3]])
    monkeypatch.setitem(globals(), "FAILED", (1,))
    dropped, _, maker = route(estimator, [[0, 3], [2, 1]])
    assert maker.complete_B.tolist() == [False, True, True, False], "in the order of the batches"
    policy = torch.tensor([sum(mask) for _, _, mask, _, _ in ROLLOUTS])
    assert not dropped[0].any()
    assert not dropped[1].any()
    for number in (2, 3):
        assert dropped[number].tolist() == pytest.approx((plain[number] * policy.sum() / policy[2:].sum()).tolist(), abs=1e-6)


def test_with_every_group_incomplete_nothing_is_taught(route, monkeypatch):
    monkeypatch.setitem(globals(), "FAILED", (0, 3))
    dropped, _, _ = route("slca", [[0, 1, 2, 3]])
    assert not any(row.any() for row in dropped.values())
