"""A policy small enough for two CPU cores: a tokenizer learned from the SFT split and a Qwen3 model from a random start.

Qwen3 and not Qwen2, which differs by biases for a norm on queries and keys: transformers 5 gives every "qwen2" checkpoint Qwen2's
own pre-tokenizer, whatever its tokenizer.json says.

The tokenizer never joins a word with the blank or quote beside it: a value has the same tokens in the question, in a call's
arguments, in the response and in the summary, so that copying it is copying tokens. Tool descriptions and schemas that recur in the
split are one token each: a prompt of three tools has tens of tokens instead of hundreds, at the price that such a policy knows the
tools of its split only.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from slca_core.config import ScratchPolicy
from slca_core.conversation import chat
from slca_core.conversation.dialogue import Sample
from slca_core.conversation.tokens import load_tokenizer
from slca_core.errors import ConfigError

# Positions it can take, far beyond what it is trained on: the benchmarks' prompts are long.
LONGEST = 32768

# A word with its combining marks, one digit, one newline, or a run of anything else.
_PIECES = r"\n|\p{N}|[\p{L}\p{M}_]+|[^\p{L}\p{M}\p{N}_\n]+"

# What every tool definition and call repeats; one token each keeps prompts short.
JSON_BOILERPLATE = ('{"name": "', '", "arguments": {"', '", "description": "', '", "parameters": ')


def frequent_phrases(toolsets: Iterable[Sequence[dict[str, Any]]], *, share: float = 0.01, most: int = 256) -> list[str]:
    """Descriptions and parameter schemas as the chat format writes them, in at least `share` of the records, frequent first."""
    counts: Counter[str] = Counter()
    records = 0
    for tools in toolsets:
        records += 1
        functions = [tool.get("function", tool) for tool in tools]
        counts.update({json.dumps(function.get("description") or "", ensure_ascii=False)[1:-1] for function in functions})
        counts.update({json.dumps(function.get("parameters") or {}, ensure_ascii=False) for function in functions})
    # Ties in alphabetical order: `most_common` would leave them in that of sets, which differs from process to process.
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]
    return [text for text, count in ranked if count >= share * records and len(text) > 8]


def train_tokenizer(texts: Iterable[str], vocab_size: int, phrases: Sequence[str] = ()) -> Any:
    """A byte-level BPE over `texts` with the chat format's tokens and `phrases` whole, as a transformers fast tokenizer.

    Raises:
        ConfigError: the bytes, the tokens of the format and the phrases alone are more than `vocab_size`.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    whole = tuple(dict.fromkeys((*chat.TAGS, *JSON_BOILERPLATE, *phrases)))
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    least = len(alphabet) + len(chat.SPECIAL_TOKENS) + len(whole)
    if vocab_size < least:
        raise ConfigError(
            f"A vocab_size of at least {least} was expected, found {vocab_size}: the bytes, the chat format and {len(phrases)} "
            "phrases that recur in the tools take that many tokens. Raise policy.scratch.vocab_size."
        )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(_PIECES), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(whole),
        initial_alphabet=alphabet,
        special_tokens=list(chat.SPECIAL_TOKENS),
        show_progress=False,
    )
    between = re.compile("|".join(map(re.escape, (*chat.SPECIAL_TOKENS, *whole))))
    tokenizer.train_from_iterator((piece for text in texts for piece in between.split(text)), trainer)
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in whole])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=chat.END, pad_token=chat.END, clean_up_tokenization_spaces=False
    )
    fast.chat_template = chat.TEMPLATE_PATH.read_text(encoding="utf-8")
    return fast


def architecture(spec: ScratchPolicy) -> dict[str, Any]:
    """The fields of its config.json that say how many parameters it has, with as many words as it may have at most."""
    return {
        "vocab_size": spec.vocab_size,
        "hidden_size": spec.hidden_size,
        "intermediate_size": spec.intermediate_size,
        "num_hidden_layers": spec.layers,
        "num_attention_heads": spec.heads,
        "num_key_value_heads": spec.heads,
        "head_dim": spec.hidden_size // spec.heads,
        "tie_word_embeddings": True,
    }


def create_policy(out: Path, samples: Sequence[Sample], spec: ScratchPolicy) -> Path:
    """Writes a Hugging Face checkpoint folder with a tokenizer trained on the samples' demonstrations and an untrained model."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    texts = (chat.render((*sample.prompt, *sample.demonstration), sample.tools) for sample in samples)
    tokenizer = train_tokenizer(texts, spec.vocab_size, frequent_phrases(sample.tools for sample in samples))
    torch.manual_seed(spec.seed)
    eos = tokenizer.convert_tokens_to_ids(chat.END)
    config = Qwen3Config(
        **{**architecture(spec), "vocab_size": len(tokenizer)},
        max_position_embeddings=LONGEST,
        initializer_range=spec.initializer_range,
        eos_token_id=eos,
        pad_token_id=eos,
        bos_token_id=None,
        dtype="float32",
    )
    Qwen3ForCausalLM(config).save_pretrained(out)
    tokenizer.save_pretrained(out)
    return out


def require_checkpoint(folder: Path) -> Path:
    """`folder` if it is a checkpoint that every stage can use; ConfigError otherwise."""
    if not folder.is_dir():
        raise ConfigError(
            f"A Hugging Face checkpoint folder was expected at {folder}, there is none. Mend the path (policy.checkpoint)."
        )
    if not (folder / "config.json").is_file():
        raise ConfigError(
            f"{folder} has no config.json, so it is no Hugging Face checkpoint folder. Mend the path (policy.checkpoint)."
        )
    if not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json", "tokenizer.model")):
        raise ConfigError(
            f"{folder} has no tokenizer (tokenizer.json). Copy the base model's tokenizer files beside the weights, or name "
            "another checkpoint."
        )
    return folder


def adopt_chat_format(checkpoint: Path, out: Path) -> Path:
    """A copy of `checkpoint` whose tokenizer carries this project's chat template; weights are linked, not copied."""
    tokenizer = load_tokenizer(require_checkpoint(checkpoint))
    unknown = [token for token in chat.SPECIAL_TOKENS if tokenizer.convert_tokens_to_ids(token) in (None, tokenizer.unk_token_id)]
    if unknown:
        raise ConfigError(
            f"The chat format needs the ChatML tokens {', '.join(chat.SPECIAL_TOKENS)}; the tokenizer of {checkpoint} lacks "
            f"{', '.join(unknown)}. Choose a ChatML checkpoint (Qwen2.5, Qwen3, SmolLM2)."
        )
    out.mkdir(parents=True, exist_ok=True)
    for file in checkpoint.iterdir():
        if file.name.endswith((".safetensors", ".bin", ".index.json")) and not (out / file.name).exists():
            (out / file.name).unlink(missing_ok=True)  # A link whose target has moved.
            (out / file.name).symlink_to(file.resolve())
    tokenizer.chat_template = chat.TEMPLATE_PATH.read_text(encoding="utf-8")
    tokenizer.eos_token = chat.END
    tokenizer.save_pretrained(out)
    # A base model's own end token is another one; generation would run past the end of a turn.
    for name in ("config.json", "generation_config.json"):
        if (checkpoint / name).is_file():
            settings = json.loads((checkpoint / name).read_text(encoding="utf-8"))
            settings["eos_token_id"] = tokenizer.convert_tokens_to_ids(chat.END)
            (out / name).write_text(json.dumps(settings, indent=2), encoding="utf-8")
    return out
