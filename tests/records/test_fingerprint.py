"""What a digest depends on, and what it does not."""

from __future__ import annotations

import importlib
import math
from pathlib import Path

import pytest

from slca_core.records import fingerprint
from slca_core.records.fingerprint import canonical_json, checkpoint_digest, code_digest, digest, files_digest

SOURCE = '''
"""What it is."""
def double(value):
    """Twice the value."""
    return 2 * value
'''


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes modules of a given source where they can be imported from; their digest is then computed afresh."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name: str, source: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
        importlib.invalidate_caches()
        code_digest.cache_clear()
        fingerprint._content.cache_clear()
        return code_digest(Path(name).parts[0].removesuffix(".py"))

    return write


@pytest.mark.parametrize("value", [{1, 2}, Path("a"), object(), b"bytes"], ids=["set", "path", "object", "bytes"])
def test_a_value_without_a_stable_form_is_refused(value):
    with pytest.raises(TypeError):
        canonical_json({"key": value})


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_number_json_does_not_have_is_refused(value):
    with pytest.raises(ValueError, match="JSON"):
        canonical_json([value])


def test_the_order_of_keys_does_not_count_and_the_order_of_a_list_does():
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1})
    assert digest([1, 2]) != digest([2, 1])


@pytest.mark.parametrize(
    "changed",
    [
        "# a comment\n" + SOURCE,
        SOURCE.replace("Twice the value.", "The value, twice."),
        SOURCE.replace('"""What it is."""', ""),
        SOURCE.replace("2 * value", "2  *  (value)"),
    ],
    ids=["comment", "docstring", "no module docstring", "layout"],
)
def test_words_and_layout_are_no_part_of_the_code(module, changed):
    assert module("slca_toy.py", SOURCE) == module("slca_toy.py", changed)


@pytest.mark.parametrize("changed", [SOURCE.replace("2 *", "3 *"), SOURCE + "\nLIMIT = 1\n"], ids=["constant", "statement"])
def test_code_is_part_of_the_code(module, changed):
    assert module("slca_toy.py", SOURCE) != module("slca_toy.py", changed)


def test_a_package_counts_with_the_modules_below_it(module):
    module("slca_toys/__init__.py", "")
    before = module("slca_toys/deep/inner.py", SOURCE)
    assert module("slca_toys/deep/inner.py", SOURCE + "\nLIMIT = 1\n") != before


def test_a_template_beside_a_module_counts_with_it(module, tmp_path):
    without = module("slca_toy.py", SOURCE)
    (tmp_path / "slca_toy_template.jinja").write_text("Hello {{ name }}")
    first = module("slca_toy.py", SOURCE)
    (tmp_path / "slca_toy_template.jinja").write_text("Goodbye {{ name }}")
    assert len({without, first, module("slca_toy.py", SOURCE)}) == 3


def test_a_module_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="slca_nowhere"):
        code_digest("slca_nowhere")


def test_a_checkpoint_is_its_content_wherever_it_lies(tmp_path):
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(b"weights")
        (tmp_path / name / "config.json").write_text("{}")
    assert checkpoint_digest(tmp_path / "here") == checkpoint_digest(tmp_path / "there")
    (tmp_path / "there" / "model.safetensors").write_bytes(b"other weights")
    assert checkpoint_digest(tmp_path / "here") != checkpoint_digest(tmp_path / "there")


def test_two_files_of_one_name_are_refused_rather_than_one_left_out(tmp_path):
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    with pytest.raises(ValueError, match=r"there/config\.json"):
        files_digest([tmp_path / "here" / "config.json", tmp_path / "there" / "config.json"])
