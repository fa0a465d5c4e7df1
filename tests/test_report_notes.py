"""What the report says of the study beside its figures."""

from __future__ import annotations

import pytest

from slca_core.config import Study
from tasks.report import _notes


@pytest.mark.parametrize(("seeds", "said"), [((1, 2), True), ((2,), False)])
def test_under_several_seeds_the_reader_learns_that_sft_is_one_run(seeds, said):
    study = Study.model_validate({"name": "tiny", "policy": {"scratch": {}}, "seeds": seeds, "sft": {"seed": 7}})
    assert any("SFT is one run (seed 7)" in note for note in _notes(study)) is said
