"""What the report says of the study beside its figures."""

from __future__ import annotations

import pytest

from slca_core.config import Study
from tasks.report import _notes
from tests.support.frames import table_of

TOUCAN = ("slca", 1, "toucan_test", "single-turn", "a", 0, "greedy", "process", 1.0)


@pytest.mark.parametrize(("seeds", "said"), [((1, 2), True), ((2,), False)])
def test_under_several_seeds_the_reader_learns_that_sft_is_one_run(seeds, said):
    study = Study.model_validate({"name": "tiny", "policy": {"scratch": {}}, "seeds": seeds, "sft": {"seed": 7}})
    assert any("SFT is one run (seed 7)" in note for note in _notes(study, table_of([TOUCAN]))) is said


def test_what_is_not_evaluated_is_said():
    study = Study(name="toy", policy={"scratch": {}})
    assert "Not part of this study: BFCL V3, tau2-bench." in _notes(study, table_of([TOUCAN]))
    others = [("slca", 1, name, "airline", "a", 0, "sampled", "error", 0.0) for name in ("bfcl_v3", "tau2")]
    assert not any("Not part of" in note for note in _notes(study, table_of([TOUCAN, *others])))
