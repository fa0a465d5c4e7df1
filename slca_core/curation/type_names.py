"""Names of types as data sets write them, "str", "int, optional" or "List[str]", as JSON Schema."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

_NAMES = {
    **dict.fromkeys(("str", "string"), "string"),
    **dict.fromkeys(("int", "integer", "long"), "integer"),
    **dict.fromkeys(("float", "number", "double"), "number"),
    **dict.fromkeys(("bool", "boolean"), "boolean"),
    **dict.fromkeys(("list", "array", "tuple", "set"), "array"),
    **dict.fromkeys(("dict", "object"), "object"),
    **dict.fromkeys(("none", "null", "nonetype"), "null"),
}
_OPTIONAL = re.compile(r"\s*(?:,\s*optional|\(optional\))\s*$", re.IGNORECASE)
_GENERIC = re.compile(r"(?:typing\.)?(\w+)\s*\[(.*)\]", re.DOTALL)
_MAX_CHARACTERS = 200


@lru_cache(maxsize=4096)
def _read(text: str) -> dict[str, Any] | None:
    text = _OPTIONAL.sub("", text).strip()
    if len(alternatives := _split(text, "|")) > 1:
        return _union(alternatives)
    if text.removeprefix("typing.").lower() == "any":
        return {}
    if text.removeprefix("typing.").lower() in _NAMES:
        return {"type": _NAMES[text.removeprefix("typing.").lower()]}
    if not (generic := _GENERIC.fullmatch(text)):
        return None
    return _generic(generic[1].lower(), _split(generic[2], ","))


def named_type(text: str) -> dict[str, Any] | None:
    """The schema a type's name stands for, {} for any value; None for a name that has no plain meaning in JSON."""
    found = _read(text) if len(text) <= _MAX_CHARACTERS else None
    return None if found is None else dict(found)


def is_optional(text: str) -> bool:
    """Whether the name says that the value may be left out."""
    return _OPTIONAL.search(text) is not None


def _generic(name: str, inner: list[str]) -> dict[str, Any] | None:
    parts = [_read(part) for part in inner if part.strip() != "..."]
    known = [part for part in parts if part is not None]
    if not parts or len(known) < len(parts):
        return None
    if name == "optional" and len(known) == 1:
        return _any_of([known[0], {"type": "null"}])
    if name == "union":
        return _any_of(known)
    if name in ("list", "set", "array", "sequence", "iterable") and len(known) == 1:
        return {"type": "array", "items": known[0]}
    if name == "tuple":
        if "..." in (part.strip() for part in inner):
            return {"type": "array", "items": known[0]}
        return {"type": "array", "prefixItems": known, "minItems": len(known), "maxItems": len(known)}
    # JSON's keys are text: a dict of anything else is only a dict.
    if name in ("dict", "mapping") and len(known) == 2:
        return {"type": "object", "additionalProperties": known[1]}
    return None


def _union(alternatives: list[str]) -> dict[str, Any] | None:
    parts = [_read(part) for part in alternatives]
    known = [part for part in parts if part is not None]
    return _any_of(known) if len(known) == len(parts) else None


def _any_of(parts: list[dict[str, Any]]) -> dict[str, Any]:
    if any(not part for part in parts):
        return {}
    if all(part.keys() == {"type"} and isinstance(part["type"], str) for part in parts):
        kinds = list(dict.fromkeys(part["type"] for part in parts))
        return {"type": kinds[0] if len(kinds) == 1 else kinds}
    return {"anyOf": parts}


def _split(text: str, at: str) -> list[str]:
    """Cut at `at` outside brackets."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == at and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]
