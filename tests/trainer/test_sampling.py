"""Matched rollouts: the stock generator with engines that finish in the wrong order."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest
from openrlhf.trainer.ppo_utils import samples_generator

from slca_core.trainer.arguments import rl_arguments
from slca_core.trainer.sampling import IndexedRollouts, MatchedSamplesGenerator

PROMPTS, SAMPLES = 3, 2


class Remote:
    """A method as Ray offers it: `.remote(...)` calls it at once."""

    def __init__(self, function) -> None:
        self.remote = function


class Engine:
    """Answers every prompt with its samples in reverse; remembers the labels it was sent."""

    def __init__(self) -> None:
        self.labels: list[dict] = []
        self.get_num_unfinished_requests = Remote(lambda: 0)
        self.generate_responses = Remote(self._generate)

    def _generate(self, *, prompt, label, num_samples, **_):
        self.labels.append(json.loads(label))
        return [self._response(prompt, label, index) for index in reversed(range(num_samples))]

    def _response(self, prompt: str, label: str, index: int) -> dict:
        return {
            "prompt": prompt,
            "label": label,
            "observation_tokens": [1, 2, 3],
            "action_ranges": [(1, 3)],
            "reward": 0.0,
            "scores": 0.0,
            "rollout_log_probs": None,
            "extra_logs": {"position": float(json.loads(label)["position"]), "sample_index": float(index)},
        }


@pytest.fixture
def engine(monkeypatch):
    """Ray gives back what finished last first."""
    fake = SimpleNamespace(get=lambda refs: refs, wait=lambda refs, **_: ([refs[-1]], refs[:-1]))
    monkeypatch.setattr(samples_generator, "ray", fake)
    return Engine()


@pytest.fixture
def generator(engine, make_spec, parse):
    spec = make_spec(prompts_per_update=PROMPTS, group_size=SAMPLES, minibatch_prompts=PROMPTS, updates=2)
    args = parse("openrlhf.cli.train_ppo_ray", rl_arguments(spec))
    prompts = [(["set"], [f"prompt {at}"], [json.dumps({"sample_id": f"d#{at}"})], [None]) for at in range(2 * PROMPTS)]
    return MatchedSamplesGenerator(SimpleNamespace(args=args), prompts, None, None, [engine])


def identities(experiences) -> list[tuple[float, float]]:
    return [(one.info["position"].item(), one.info["sample_index"].item()) for one in experiences]


def test_a_batch_comes_back_by_position_and_sample_whatever_finished_first(generator):
    experiences, *_ = generator.generate_samples(max_len=16)
    assert identities(experiences) == [(position, index) for position in range(PROMPTS) for index in range(SAMPLES)]


def test_every_label_carries_its_update_and_position_beside_what_it_had(generator, engine):
    generator.generate_samples(max_len=16)
    generator.generate_samples(max_len=16)
    assert [(label["update"], label["position"], label["sample_id"]) for label in engine.labels] == [
        (at // PROMPTS + 1, at % PROMPTS, f"d#{at}") for at in range(2 * PROMPTS)
    ]


def test_a_resumed_run_counts_on_from_its_checkpoint(generator, engine):
    generator.update = 7
    generator.generate_samples(max_len=16)
    assert {label["update"] for label in engine.labels} == {8}


def test_the_end_of_the_prompts_is_an_empty_batch(generator):
    for _ in range(2):
        generator.generate_samples(max_len=16)
    experiences, _, consumed, exhausted = generator.generate_samples(max_len=16)
    assert (experiences, consumed, exhausted) == ([], 0, True)


def test_each_sample_of_a_prompt_is_executed_under_its_own_index():
    class Executor:
        async def execute(self, prompt, label, sampling_params, max_length, hf_tokenizer, llm_engine, images, sample_index):
            await asyncio.sleep(0.01 * (3 - sample_index))
            return prompt, sample_index, llm_engine

    actor = IndexedRollouts()
    actor.executor = Executor()
    responses = asyncio.run(actor.generate_responses("p", "{}", None, 16, None, num_samples=3))
    assert responses == [("p", 0, actor), ("p", 1, actor), ("p", 2, actor)]
