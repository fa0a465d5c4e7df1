"""From curated samples to the rows that stock OpenRLHF reads for SFT."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from slca_core.conversation import chat
from slca_core.conversation.dialogue import Sample
from slca_core.conversation.tokens import encode, load_tokenizer
from slca_core.errors import DataError


def with_demonstration(samples: Sequence[Sample]) -> list[Sample]:
    """The samples SFT can learn from; the authors' verl rows have none."""
    return [sample for sample in samples if sample.demonstration]


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
