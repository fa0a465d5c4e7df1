"""From curated samples to the prompt set of an RL run, in its order, as stock OpenRLHF reads it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from slca_core.conversation import chat
from slca_core.conversation.tokens import load_tokenizer
from slca_core.curation.rows import read_split
from slca_core.errors import DataError
from slca_core.records.fingerprint import digest
from slca_core.rollout import prompts_that_fit
from slca_core.trainer.labels import label_of
from slca_core.trainer.spec import TrainSpec


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
