"""A checkpoint's tokenizer, loaded by one thread at a time: transformers imports itself bit by bit, which threads trip over."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

_importing = threading.Lock()


def load_tokenizer(checkpoint: Path) -> Any:
    """Hugging Face's fast tokenizer of a checkpoint folder."""
    with _importing:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(checkpoint)
