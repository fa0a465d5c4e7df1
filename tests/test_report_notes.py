"""What the report says of the study beside its figures."""

from __future__ import annotations

import pytest

from slca_core.config import BfclConfig, EvaluationConfig, Study
from tasks.report import _notes


@pytest.mark.parametrize(("seeds", "said"), [((1, 2), True), ((2,), False)])
def test_under_several_seeds_the_reader_learns_that_sft_is_one_run(seeds, said):
    study = Study.model_validate({"name": "tiny", "policy": {"scratch": {}}, "seeds": seeds, "sft": {"seed": 7}})
    assert any("SFT is one run (seed 7)" in note for note in _notes(study)) is said


def test_what_is_not_evaluated_is_said():
    study = Study(name="toy", policy={"scratch": {}})
    assert "BFCL V3 is not part of this study, tau2-bench of none yet." in _notes(study)
    asked = study.model_copy(update={"evaluation": EvaluationConfig(bfcl=BfclConfig(limit=2))})
    assert "tau2-bench is not evaluated yet." in _notes(asked)
