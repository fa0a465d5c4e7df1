"""How many parameters a decoder has, from the fields of its Hugging Face config.json, before any weight is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def parameter_count(config: Mapping[str, Any]) -> int:
    """The matrices of a dense decoder with gated MLPs and grouped queries (Qwen2, Qwen3, Llama); norms and biases are left out.

    Raises:
        KeyError: a field such a decoder has is missing.
    """
    hidden, layers, heads = config["hidden_size"], config["num_hidden_layers"], config["num_attention_heads"]
    head = config.get("head_dim") or hidden // heads
    attention = 2 * hidden * head * (heads + (config.get("num_key_value_heads") or heads))
    mlp = 3 * hidden * config["intermediate_size"]
    embeddings = config["vocab_size"] * hidden * (1 if config.get("tie_word_embeddings") else 2)
    return int(layers * (attention + mlp) + embeddings)
