"""The three splits (App. B): the test set is held out first, the rest is divided between SFT and RL.

What shares a dialogue or a question stays together: such samples form a group, and only whole groups are dealt. Groups are dealt in
the order of a hash of (seed, sample id), so the splits depend neither on the order of the input nor on the machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from slca_core.conversation.dialogue import Sample, SampleSubset


class Split(StrEnum):
    SFT = "sft"
    RL = "rl"
    TEST = "test"
    # Further turns of a test dialogue: a test dialogue is asked about once, and may not be trained on.
    LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True)
class SplitItem:
    """What dealing needs to know of a sample, light enough to hold for all of them at once."""

    sample_id: str
    dialogue_id: str
    question: str
    subset: SampleSubset
    has_demonstration: bool

    @classmethod
    def of(cls, sample: Sample) -> SplitItem:
        # Case and spacing do not make another question; a digest keeps the memory of a long one constant.
        normal = " ".join(sample.question.casefold().split())
        question = hashlib.sha256(normal.encode("utf-8", "surrogatepass")).hexdigest()
        return cls(sample.sample_id, sample.dialogue_id, question, sample.subset, bool(sample.demonstration))


@dataclass(frozen=True, slots=True)
class Quota:
    """How many test samples of each subset are wanted."""

    single_turn: int
    decomposed: int


def deal(
    items: Sequence[SplitItem], *, test_size: int, decomposed_test_fraction: float, sft_fraction: float, seed: int
) -> dict[str, Split]:
    """The split of every sample id.

    Args:
        items: sample ids must be unique.
        test_size: upper bound; a fifth of the samples if that is less.
        decomposed_test_fraction: share of the test set from multi-turn dialogues (1/4 in the paper), while there are enough.
        sft_fraction: share of what remains that goes to SFT; samples without a demonstration go to RL.
    """
    ranks = {item.sample_id: _rank(seed, item.sample_id) for item in items}
    groups = _groups(items, ranks)
    splits: dict[str, Split] = {}
    rest = _deal_test(groups, quota(items, test_size, decomposed_test_fraction), splits)
    remaining = sum(len(group) for group in rest)
    _deal_training(rest, round(sft_fraction * remaining), splits)
    return splits


def quota(items: Sequence[SplitItem], test_size: int, decomposed_fraction: float) -> Quota:
    """The paper's ratio as far as the samples go: no subset gives more than half of itself to the test set."""
    total = min(test_size, max(1, len(items) // 5))
    decomposed_count = sum(item.subset == "decomposed" for item in items)
    single_cap, decomposed_cap = (len(items) - decomposed_count) // 2, decomposed_count // 2
    single = min(total - round(total * decomposed_fraction), single_cap)
    decomposed = min(total - single, decomposed_cap)
    return Quota(single_turn=min(total - decomposed, single_cap), decomposed=decomposed)


def _rank(seed: int, sample_id: str) -> str:
    return hashlib.sha256(f"{seed}/{sample_id}".encode("utf-8", "surrogatepass")).hexdigest()


def _groups(items: Iterable[SplitItem], ranks: dict[str, str]) -> list[list[SplitItem]]:
    """Groups connected by a dialogue or a question; samples in a group and groups among each other are ordered by rank."""
    parent: dict[tuple[str, str], tuple[str, str]] = {}

    def root(key: tuple[str, str]) -> tuple[str, str]:
        parent.setdefault(key, key)
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    ordered = sorted(items, key=lambda item: ranks[item.sample_id])
    for item in ordered:
        parent[root(("dialogue", item.dialogue_id))] = root(("question", item.question))
    groups: dict[tuple[str, str], list[SplitItem]] = {}
    for item in ordered:
        groups.setdefault(root(("dialogue", item.dialogue_id)), []).append(item)
    return list(groups.values())


def _deal_test(groups: list[list[SplitItem]], wanted: Quota, splits: dict[str, Split]) -> list[list[SplitItem]]:
    """Fill the quota with one sample a dialogue; return the groups that the test set did not take."""
    room = {"single-turn": wanted.single_turn, "decomposed": wanted.decomposed}
    rest = []
    for group in groups:
        chosen = list({item.dialogue_id: item for item in reversed(group)}.values())
        needed = {subset: sum(item.subset == subset for item in chosen) for subset in room}
        if any(needed[subset] > room[subset] for subset in room):
            rest.append(group)
            continue
        for subset, count in needed.items():
            room[subset] -= count
        splits |= {item.sample_id: Split.LEFT_OUT for item in group}
        splits |= {item.sample_id: Split.TEST for item in chosen}
    return rest


def _deal_training(groups: list[list[SplitItem]], sft_target: int, splits: dict[str, Split]) -> None:
    sft_count = 0
    for group in groups:
        fits = sft_count + len(group) <= sft_target
        split = Split.SFT if fits and all(item.has_demonstration for item in group) else Split.RL
        sft_count += len(group) if split is Split.SFT else 0
        splits |= {item.sample_id: split for item in group}
