"""Digests that say what a step depends on: canonical JSON of its values, syntax of the code that does it, bytes of its files."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import threading
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from slca_core.records.canonical_code import canonical_code

_TEMPLATES = (".jinja",)
_PARSING = threading.Lock()


def canonical_json(value: Any) -> str:
    """One text for equal values.

    Raises:
        TypeError: a value without a stable form (a set, a path, an object): convert it, or leave it out.
        ValueError: NaN or infinity, which JSON does not have.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    """sha256 of the canonical JSON, in hex."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_digest(paths: Iterable[Path], of_file: Callable[[Path], str] = file_digest) -> str:
    """Names and contents of some files, whatever folder they lie in; ValueError if two have one name."""
    paths = list(paths)
    digests = {path.name: of_file(path) for path in paths}
    if len(digests) < len(paths):
        raise ValueError(f"files of different names were expected, found {', '.join(sorted(map(str, paths)))}")
    return digest(digests)


def checkpoint_digest(folder: Path, of_file: Callable[[Path], str] = file_digest) -> str:
    """Weights, configuration and tokenizer of a Hugging Face checkpoint folder."""
    kept = (".safetensors", ".bin", ".json", ".model", ".jinja", ".txt")
    return files_digest(sorted(path for path in folder.iterdir() if path.suffix in kept), of_file)


@cache
def code_digest(*modules: str) -> str:
    """Digest of what the modules do, whatever they are called and wherever they lie.

    Comments, docstrings, the names of local variables and of the modules that our own code is imported from do not count. A package
    counts with all below it, a module with the templates beside it that bear its name (chat.py, chat_template.jinja).
    """
    return digest(sorted(_content(path) for module in modules for path in _files(module)))


def _files(module: str) -> list[Path]:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise ValueError(f"no source was found for module {module}")
    origin = Path(spec.origin)
    if origin.name != "__init__.py":
        return [origin, *sorted(path for path in origin.parent.glob(f"{origin.stem}*") if path.suffix in _TEMPLATES)]
    return sorted(path for path in origin.parent.rglob("*") if path.suffix in (".py", *_TEMPLATES))


@cache
def _content(path: Path) -> str:
    text = path.read_text()
    if path.suffix in _TEMPLATES:
        return text
    # Python 3.11 loses count of its recursion if two threads build trees at once, and steps run side by side.
    with _PARSING:
        return canonical_code(text)
