"""HierR as one would write it in plain Python with `jsonschema`: the peer that `make bench` measures against, semantics `paper`."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from jsonschema import Draft202012Validator

_THINKING = re.compile(r"<(think|thinking)>.*?</\1>", re.DOTALL)
_BLOCK = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?")


class PlainScorer:
    """Scores the rollouts of one tool set; its validators are built once and kept."""

    def __init__(self, tools: list[dict[str, Any]]) -> None:
        functions = [tool["function"] for tool in tools]
        self.validators = {function["name"]: Draft202012Validator(function.get("parameters") or {}) for function in functions}

    def process(self, turns: list[str], gold: list[list[dict[str, Any]]]) -> float:
        n_open = n_close = n_valid = 0
        calls: list[dict[str, Any]] = []
        first = 0
        for turn in turns:
            text = _THINKING.sub("", turn)
            n_open += text.count("<tool_call>")
            n_close += text.count("</tool_call>")
            made = []
            for body in _BLOCK.findall(text):
                block = self._parse(body)
                made += block
                n_valid += bool(block) and all(
                    call["name"] in self.validators and self.validators[call["name"]].is_valid(call["arguments"]) for call in block
                )
            first = first or len(made)
            calls += made
        flat = [call for step in gold for call in step]
        tags = max(n_open, n_close)
        fmt = n_valid / tags if tags else float(not flat)
        names, gold_names = Counter(call["name"] for call in calls), Counter(call["name"] for call in flat)
        name = 2 * (names & gold_names).total() / (len(calls) + len(flat)) if calls or flat else 1.0
        key, val = self._arguments(calls, flat)
        par = float(first == (len(gold[0]) if gold else 0))
        return 0.10 * fmt + 0.25 * name + 0.15 * key + 0.20 * val + 0.30 * par

    def _parse(self, body: str) -> list[dict[str, Any]]:
        try:
            value = json.loads(body, object_pairs_hook=_unique, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return []
        entries = value if isinstance(value, list) else [value]
        calls = []
        for entry in entries:
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                return []
            arguments = entry.get("arguments", entry.get("parameters", {}))
            if not isinstance(arguments, dict):
                return []
            calls.append({"name": entry["name"], "arguments": arguments})
        return calls

    def _arguments(self, calls: list[dict[str, Any]], gold: list[dict[str, Any]]) -> tuple[float, float]:
        if not gold:
            return 1.0, 1.0
        unused = list(calls)
        key_sum = val_sum = 0.0
        for wanted in gold:
            best = None
            for position, guess in enumerate(unused):
                if guess["name"] == wanted["name"]:
                    key, val = _pair(guess["arguments"], wanted["arguments"])
                    if best is None or key + val > best[0] + best[1]:
                        best = (key, val, position)
            if best is not None:
                key_sum, val_sum = key_sum + best[0], val_sum + best[1]
                unused.pop(best[2])
        return key_sum / len(gold), val_sum / len(gold)


def _pair(guess: dict[str, Any], gold: dict[str, Any]) -> tuple[float, float]:
    shared, union = guess.keys() & gold.keys(), guess.keys() | gold.keys()
    key = len(shared) / len(union) if union else 1.0
    if not shared:
        return key, float(not gold)
    return key, sum(_same(guess[name], gold[name]) for name in shared) / len(shared)


def _same(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    if isinstance(a, list | dict) or isinstance(b, list | dict):
        a, b = (_load(value) if isinstance(value, str) else value for value in (a, b))
        if isinstance(a, dict) and isinstance(b, dict):
            return a.keys() == b.keys() and all(_same(a[name], b[name]) for name in a)
        return isinstance(a, list) and isinstance(b, list) and len(a) == len(b) and all(map(_same, a, b))
    number_a, number_b = _number(a), _number(b)
    if number_a is not None and number_b is not None:
        return abs(number_a - number_b) <= 1e-9 * max(1.0, abs(number_a), abs(number_b))
    return isinstance(a, str) and isinstance(b, str) and a.strip().casefold() == b.strip().casefold()


def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        word = value.strip().casefold()
        if word in ("true", "false"):
            return float(word == "true")
        return float(word) if _NUMBER.fullmatch(word) else None
    return float(value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("duplicate key")
    return value


def _refuse(constant: str) -> None:
    raise ValueError(constant)
