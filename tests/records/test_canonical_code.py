"""What of a module's text counts as its code."""

from __future__ import annotations

import ast
import symtable
from pathlib import Path

import pytest

from slca_core.config import REPOSITORY
from slca_core.records.canonical_code import canonical_code

SOURCE = '''
import json
from pathlib import Path
from slca_core import chat
from slca_core.calls import parse as read

LIMIT = 3

def double(value, *, scale=2):
    """Twice the value."""
    total, rest = scale * value, []
    for item in rest:
        total += LIMIT
    def inner(item):
        nonlocal total
        total = total + item
        return [part for part in rest if part]
    try:
        with open("f") as file:
            return inner(total), file
    except OSError as error:
        raise ValueError(error) from error
'''


def replaced(*pairs: tuple[str, str]) -> str:
    text = SOURCE
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    "text",
    [
        "# a comment\n" + SOURCE,
        replaced(('"""Twice the value."""\n', "pass\n")).replace("    pass\n", ""),
        replaced(("total", "running")),
        replaced(("item", "element"), ("inner(element)", "inner(item)"), ("+ element", "+ item")),
        replaced(("file", "stream"), ("error", "wrong")),
        replaced(("part", "rest_of_it")),
        replaced(("from slca_core import chat\n", "from slca_core.conversation import chat\n")),
        replaced(
            ("from slca_core.calls import parse as read\n", ""),
            ("import json\n", "from slca_core.b import parse as read\nimport json\n"),
        ),
    ],
    ids=["comment", "docstring", "variable", "loop", "with-and-except", "comprehension", "moved", "order-of-imports"],
)
def test_words_layout_places_and_local_names_do_not_count(text):
    assert text != SOURCE
    assert canonical_code(text) == canonical_code(SOURCE)


@pytest.mark.parametrize(
    "text",
    [
        replaced(("value", "number")),
        replaced(("scale", "by")),
        replaced(("LIMIT", "BOUND")),
        replaced(("def double", "def twice")),
        replaced(("LIMIT = 3", "LIMIT = 4")),
        replaced(("total + item", "item + total")),
        replaced(("nonlocal total", "total = 0")),
        replaced(("inner(total), file", "inner(rest), file")),
        replaced(("import json", "import yaml")),
        replaced(("parse as read", "parse_all as read")),
        replaced(("from pathlib import", "from anyio import")),
    ],
    ids=lambda text: None,
)
def test_what_the_code_does_and_is_called_by_others_counts(text):
    assert canonical_code(text) != canonical_code(SOURCE)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "match v:\n        case [first, *others]:\n            return first",
            "match v:\n        case [first, *others]:\n            return others",
        ),
        (
            "match v:\n        case x:\n            z = 1\n    return z",
            "match v:\n        case x:\n            x = 1\n    return x",
        ),
        (
            "a = b = 1\n    def g():\n        a = 2\n        c = 3\n        return a, b",
            "a = b = 1\n    def g():\n        a = 2\n        c = 3\n        return c, b",
        ),
        ("x = 1\n    class C:\n        x = 2\n    return x", "y = 1\n    class C:\n        x = 2\n    return x"),
        ("x = 1\n    return lambda x: x", "x = 1\n    return lambda y: x"),
        ("global x\n    x = 1", "x = 1"),
    ],
    ids=["match", "capture", "shadowed", "class", "lambda", "global"],
)
def test_names_are_told_apart_where_they_mean_different_things(one, other):
    assert canonical_code(f"def f(v):\n    {one}\n") != canonical_code(f"def f(v):\n    {other}\n")


@pytest.mark.parametrize("path", sorted((REPOSITORY / "slca_core").rglob("*.py")), ids=lambda path: path.stem)
def test_a_local_name_of_our_own_code_does_not_count(path: Path):
    """One variable of each function, renamed with `symtable` telling what is local to it and to nothing inside it."""
    text = path.read_text()
    renamed = _with_locals_renamed(text)
    assert canonical_code(renamed) == canonical_code(text)


def _with_locals_renamed(text: str) -> str:
    lines, tree = text.splitlines(keepends=True), ast.parse(text)
    functions = {(node.name, node.lineno): node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    places: list[tuple[int, int, str]] = []

    def look(table: symtable.SymbolTable) -> None:
        node = functions.get((table.get_name(), table.get_lineno()))
        if node is not None and not table.get_children():
            nodes = list(ast.walk(node))
            # Python 3.11 does not say where the names inside an f-string stand.
            formatted = {one for text in nodes if isinstance(text, ast.JoinedStr) for one in ast.walk(text)}
            kept = {one.id for one in formatted if isinstance(one, ast.Name)} | {getattr(one, "name", None) for one in nodes}
            ours = [one for one in table.get_symbols() if one.is_local() and not one.is_parameter() and not one.is_imported()]
            names = {one.get_name() for one in ours} - kept
            places.extend((one.lineno, one.col_offset, one.id) for one in nodes if isinstance(one, ast.Name) and one.id in names)
        for child in table.get_children():
            look(child)

    look(symtable.symtable(text, "module", "exec"))
    for row, column, name in sorted(places, reverse=True):
        line = lines[row - 1].encode()
        assert line[column:].startswith(name.encode())
        lines[row - 1] = (line[:column] + b"renamed_" + line[column:]).decode()
    return "".join(lines)
