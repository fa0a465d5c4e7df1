"""The places of OpenRLHF this project hangs on are where they were; an upgrade that moves one fails under that seam's name."""

from __future__ import annotations

import pytest

from slca_core.trainer import compatibility


@pytest.fixture(scope="module")
def found() -> dict[str, str | None]:
    return compatibility.check_seams()


@pytest.mark.parametrize("seam", list(compatibility._CHECKS))
def test_the_seam_is_as_expected(found, seam):
    assert found[seam] is None, f"{seam}: {found[seam]}"


def test_a_seam_that_moved_is_reported_and_the_others_are_still_checked(monkeypatch):
    def moved() -> None:
        compatibility._parameters(lambda only_this: None, "rollout_samples")

    monkeypatch.setattr(compatibility, "_CHECKS", {"moved": moved, "there": lambda: None})
    found = compatibility.check_seams()
    assert "rollout_samples" in found["moved"]
    assert found["there"] is None
