"""A checkpoint's tokenizer, and text to token ids and back.

It is loaded by one thread at a time: transformers imports itself bit by bit, which threads trip over.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

_importing = threading.Lock()


class Tokenizer(Protocol):
    """What is used of a transformers tokenizer."""

    def __call__(self, text: str, *, add_special_tokens: bool) -> Mapping[str, list[int]]: ...

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool) -> str: ...


def load_tokenizer(checkpoint: Path) -> Any:
    """Hugging Face's fast tokenizer of a checkpoint folder."""
    with _importing:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(checkpoint)


def encode(tokenizer: Tokenizer, text: str) -> list[int]:
    """Token ids of one piece, without added special tokens."""
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def decode(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """The text of `ids` as it was written, special tokens included."""
    return tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


def shorten(tokenizer: Tokenizer, text: str, limit: int) -> str:
    """`text` cut in the middle to at most about `limit` tokens, the cut marked."""
    ids = encode(tokenizer, text)
    if len(ids) <= limit:
        return text
    half = limit // 2
    return decode(tokenizer, ids[:half]) + " ...cut... " + decode(tokenizer, ids[-half:])
