"""The propositions on toy problems whose answers are known, and on random groups."""

from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from slca_core.credit.advantages import compute_advantages
from slca_core.credit.estimators import ESTIMATORS
from slca_core.credit.segments import split_segments
from slca_core.credit.theory import ToolOutcomes, flipped, in_conflict, sensitivity, variance

GROUP = torch.zeros(6, dtype=torch.int64)
MASK = torch.tensor([[1, 1, 0, 1, 1], [1, 0, 1, 0, 1], [1, 0, 0, 1, 0], [0, 0, 1, 1, 0], [1, 0, 1, 1, 1], [1, 1, 1, 0, 1]])
REWARDS = {
    "tool": torch.tensor([0.2, 0.9, 0.4, 0.0, 0.7, 0.65], dtype=torch.float64),
    "summary": torch.tensor([0.5, 0.25, 1.0, -0.5, 0.75, 1.0], dtype=torch.float64),
    "outcome": torch.tensor([0.0, 1.0, 0.0, 0.0, 1.0, 0.0], dtype=torch.float64),
    "action": torch.tensor([0.5, 1.0, 0.5, 0.0, 1.0, 0.75], dtype=torch.float64),
}


@pytest.mark.parametrize(
    ("name", "reached"),
    [
        ("slca", {"tool": (True, False), "summary": (False, True)}),
        ("s2t", {"tool": (True, False), "summary": (True, True)}),
        ("t2s", {"tool": (True, True), "summary": (False, True)}),
        ("both", {"tool": (True, True), "summary": (True, True)}),
        ("grpo", {"tool": (True, True), "summary": (True, True)}),
        ("gdpo", {"tool": (True, True), "summary": (True, True)}),
        ("rltr", {"tool": (True, False)}),
        ("toolpo", {"outcome": (True, True), "action": (True, False)}),
    ],
)
def test_autograd_shows_which_reward_reaches_which_segment(name, reached):
    found = sensitivity(ESTIMATORS[name], REWARDS, split_segments(MASK), GROUP)
    assert {reward: (one.tool > 0, one.summary > 0) for reward, one in found.items()} == reached


def test_a_group_without_spread_has_a_finite_sensitivity():
    flat = {name: torch.full_like(reward, 0.5) for name, reward in REWARDS.items()}
    for one in sensitivity(ESTIMATORS["slca"], flat, split_segments(MASK), GROUP).values():
        assert one.tool == one.tool
        assert one.summary == one.summary


@pytest.mark.parametrize(("name", "decoupled"), [("slca", True), ("grpo", False), ("both", False)])
def test_the_tool_tokens_gradient_does_not_depend_on_any_summary_reward_under_slca(name, decoupled):
    """Prop. A.1 on a policy: a softmax over three tokens, its gradient over tool tokens, and the derivative of that."""
    logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    tokens_BT = torch.randint(0, 3, MASK.shape, generator=torch.Generator().manual_seed(1))
    summary = REWARDS["summary"].clone().requires_grad_()
    segments = split_segments(MASK)
    credit_B = compute_advantages(ESTIMATORS[name], REWARDS | {"summary": summary}, segments, GROUP).tool_B
    log_probability_BT = logits.log_softmax(dim=1)[torch.arange(5), tokens_BT]
    objective = (credit_B[:, None] * log_probability_BT * segments.tool_BT).sum()
    (gradient,) = torch.autograd.grad(objective, logits, create_graph=True)
    reach = [torch.autograd.grad(part, summary, retain_graph=True, allow_unused=True)[0] for part in gradient.flatten()]
    assert all(part is None or not part.any() for part in reach) == decoupled


def random_outcomes(seed: int, *, noise: float = 1.0) -> ToolOutcomes:
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.rand(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    weights = draw(5)
    return ToolOutcomes(
        probability_Y=weights / weights.sum(),
        weight_Y=draw(5) + 0.5,
        score_YP=draw(5, 3) - 0.5,
        r_tool_Y=draw(5),
        mean_r_sum_Y=draw(5),
        noise_variance_Y=noise * draw(5),
    )


@pytest.mark.parametrize("seed", range(5))
def test_the_variance_identity_holds(seed):
    found = variance(random_outcomes(seed))
    assert found.unified - found.routed == pytest.approx(found.nuisance + found.systematic, abs=1e-12)
    assert found.nuisance >= 0


def test_the_exact_moments_are_those_of_sampled_gradients():
    outcomes = random_outcomes(3)
    generator = torch.Generator().manual_seed(9)
    drawn = torch.multinomial(outcomes.probability_Y, 400_000, replacement=True, generator=generator)
    noise = outcomes.noise_variance_Y[drawn].sqrt() * torch.randn(len(drawn), generator=generator, dtype=torch.float64)
    step = outcomes.weight_Y[drawn, None] * outcomes.score_YP[drawn]
    r_tool, r_sum = outcomes.r_tool_Y[drawn], outcomes.mean_r_sum_Y[drawn] + noise
    found = variance(outcomes)
    assert float((step * (r_tool + r_sum)[:, None]).var(dim=0).sum()) == pytest.approx(found.unified, rel=0.02)
    assert float((step * r_tool[:, None]).var(dim=0).sum()) == pytest.approx(found.routed, rel=0.02)


def test_given_the_tool_segment_only_the_unified_gradient_still_varies():
    outcomes = random_outcomes(4)
    generator = torch.Generator().manual_seed(2)
    found = variance(outcomes)
    for y in range(5):
        noise = outcomes.noise_variance_Y[y].sqrt() * torch.randn(100_000, 1, generator=generator, dtype=torch.float64)
        total = outcomes.r_tool_Y[y] + outcomes.mean_r_sum_Y[y] + noise
        given = (outcomes.weight_Y[y] * outcomes.score_YP[y] * total).var(dim=0).sum()
        assert float(given) == pytest.approx(float(found.unified_given_Y[y]), rel=0.03)


def test_the_systematic_term_has_either_sign_and_can_outweigh_the_nuisance():
    """Where good tool segments have bad summaries, the sum varies less than the tool reward alone."""
    base = random_outcomes(1, noise=0.0)
    opposed = ToolOutcomes(base.probability_Y, base.weight_Y, base.score_YP, base.r_tool_Y, -base.r_tool_Y, base.noise_variance_Y)
    aligned = ToolOutcomes(base.probability_Y, base.weight_Y, base.score_YP, base.r_tool_Y, base.r_tool_Y, base.noise_variance_Y)
    assert variance(aligned).systematic > 0
    assert variance(opposed).systematic < 0
    assert variance(opposed).unified < variance(opposed).routed, "an unconditional reduction is not promised"


rewards = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.65, 0.75, 1.0]), min_size=6, max_size=6)


@settings(max_examples=200, deadline=None)
@given(tool=rewards, summary=rewards)
def test_in_the_conflict_regime_exactly_one_segment_is_flipped_and_the_rewards_say_which(tool, summary):
    """Theorem A.4 over whole groups, each rollout with both segments."""
    segments = split_segments(torch.tensor([[1, 0, 1]] * 6))
    values = {"tool": torch.tensor(tool, dtype=torch.float64), "summary": torch.tensor(summary, dtype=torch.float64)}
    own = compute_advantages(ESTIMATORS["slca"], values, segments, GROUP)
    unified = compute_advantages(ESTIMATORS["grpo"], values, segments, GROUP)
    conflict = in_conflict(own.tool_B, own.summary_B)
    assume(conflict.any())
    margin = (values["summary"] - values["summary"].mean()) - (values["tool"].mean() - values["tool"])
    decided = conflict & (margin.abs() > 1e-9)
    tool_flipped, summary_flipped = flipped(unified.tool_B, own.tool_B), flipped(unified.summary_B, own.summary_B)
    assert torch.equal(tool_flipped[decided], margin[decided] > 0)
    assert (tool_flipped ^ summary_flipped)[decided].all()


def test_the_papers_instance_reinforces_a_poor_tool_segment_under_grpo_and_not_under_slca():
    """App. D.4: R_tool = 0.65 below its group's mean, R_sum = 1.0 above its own."""
    segments = split_segments(torch.tensor([[1, 0, 1]] * 4))
    values = {"tool": torch.tensor([0.65, 0.8, 0.75, 0.8]), "summary": torch.tensor([1.0, 0.25, 0.5, 0.25])}
    own, unified = (compute_advantages(ESTIMATORS[name], values, segments, GROUP[:4]) for name in ("slca", "grpo"))
    assert in_conflict(own.tool_B, own.summary_B).tolist() == [True, False, False, False]
    assert unified.tool_B[0] > 0 > own.tool_B[0]
    assert own.summary_B[0] > 0
    assert flipped(unified.tool_B, own.tool_B)[0]
