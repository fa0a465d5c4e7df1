"""From curated samples to the files stock OpenRLHF reads: SFT rows, and the prompt set of an RL run in its order."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slca_core import chat
from slca_core.curation.pipeline import read_split
from slca_core.dialogue import Sample
from slca_core.errors import DataError
from slca_core.fingerprint import digest
from slca_core.rollout import encode, prompts_that_fit
from slca_core.tokenizer import load_tokenizer
from slca_core.trainer.labels import label_of
from slca_core.trainer.spec import TrainSpec


def write_sft_rows(samples: Sequence[Sample], policy: Path, max_length: int, out: Path) -> tuple[int, int]:
    """SFT rows of the samples that fit, one conversation a line; (kept, too long)."""
    tokenizer = load_tokenizer(policy)
    texts = [chat.render((*sample.prompt, *sample.demonstration), sample.tools) for sample in samples]
    kept = [text for text in texts if len(encode(tokenizer, text)) <= max_length - 2]
    if not kept:
        raise DataError(
            f"SFT needs demonstrations of at most {max_length - 2} tokens (sft.max_length); none of the {len(samples)} curated "
            "ones fits. Raise sft.max_length, or give sources with demonstrations."
        )
    with out.open("w") as file:
        for text in kept:
            file.write(json.dumps({"messages": chat.as_plain_turns(text)}, ensure_ascii=False) + "\n")
    return len(kept), len(texts) - len(kept)


def write_prompts(spec: TrainSpec, split: Path) -> dict[str, Any]:
    """The prompt file of the run: exactly updates x prompts lines, order fixed by the seed, round the split as often as needed."""
    rl = spec.rl
    tokenizer = load_tokenizer(spec.initial_checkpoint)
    samples, too_long = prompts_that_fit(read_split(split), tokenizer, spec.limits())
    if not samples:
        room = rl.max_length - rl.response_tokens
        raise DataError(
            f"RL prompts may have {room} tokens (rl.max_length - rl.response_tokens); no sample of {split} fits. "
            "Raise rl.max_length."
        )
    samples.sort(key=lambda sample: sample.sample_id)
    order, drawn = random.Random(spec.seed), []
    while len(drawn) < rl.updates * rl.prompts_per_update:
        drawn += order.sample(samples, len(samples))
    drawn = drawn[: rl.updates * rl.prompts_per_update]
    # Renamed into its place: a job that goes on from an earlier flow may be reading the same lines.
    unfinished = spec.prompts.with_suffix(".unfinished")
    with unfinished.open("w") as file:
        for sample in drawn:
            prompt = chat.render(sample.prompt, sample.tools, generate=True)
            label = json.dumps(label_of(sample), ensure_ascii=False)
            file.write(json.dumps({"input": prompt, "label": label}, ensure_ascii=False) + "\n")
    unfinished.replace(spec.prompts)
    return {"prompts": len(samples), "too_long": too_long, "order_digest": digest([sample.sample_id for sample in drawn])}


def with_demonstration(samples: Sequence[Sample]) -> list[Sample]:
    """The samples SFT can learn from; the authors' verl rows have none."""
    return [sample for sample in samples if sample.demonstration]
