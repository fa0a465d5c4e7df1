"""Processes that stand still, studies beside each other, a clock set back, a full disk: a study ends as if nothing had been."""

from __future__ import annotations

import os

import pytest

from slca_core.records.json_lines import read_lines
from tests.chaos import outcome, scenarios
from tests.chaos.conftest import UPDATES, write_study

pytestmark = pytest.mark.e2e
# Minutes each on two busy cores: part of `make acceptance`.
acceptance = pytest.mark.skipif("SLCA_ACCEPTANCE" not in os.environ, reason="part of make acceptance")
PAUSED = ("trainer", "stand-ins", "policy server")


def check(study, expected) -> None:
    outcome.check_books(study, UPDATES)
    assert (outcome.tables(study), outcome.checkpoints(study)) == expected


def test_whatever_stands_still_for_a_while_goes_on(undisturbed, start, tmp_path):
    study, path = write_study(tmp_path)
    assert set(scenarios.pause_each(start(path), PAUSED, 1.5)) == set(PAUSED)
    check(study, undisturbed[1])


def test_two_runs_and_another_study_in_one_root_do_no_step_twice(undisturbed, start, tmp_path):
    study, path = write_study(tmp_path)
    other, second = write_study(tmp_path, name="other", arms=["slca"])
    scenarios.at_once(start(path), start(path), start(second))
    check(study, undisturbed[1])
    made, alone = outcome.tables(other)["figures"]["values"]["slca"], undisturbed[1][0]["figures"]["values"]["slca"]
    assert made == alone


@acceptance
def test_a_clock_that_was_set_back_bears_on_nothing(undisturbed, start, tmp_path):
    study, path = write_study(tmp_path)

    def under_way() -> bool:
        return any(len(read_lines(lines)) > 4 for lines in (study.root / "artifacts" / "train").glob("*/metrics.jsonl"))

    scenarios.clock_set_back(start(path), study, under_way)
    check(study, undisturbed[1])


@acceptance
def test_a_disk_that_fills_up_is_one_sentence_and_the_run_goes_on_once_there_is_room(undisturbed, start, tmp_path):
    first, expected = undisturbed
    needed = sum(path.stat().st_size for path in first.root.rglob("*") if path.is_file()) // 2**20
    try:
        with scenarios.small_disk(tmp_path / "disk", max(1, needed // 2)) as grow:
            study, path = write_study(tmp_path, root=str(tmp_path / "disk" / "state"))
            sentence = scenarios.run_out_of_room(start(path), path.with_name("log"), grow, 4 * needed + 100)
            assert str(tmp_path / "disk") in sentence
            assert "free" in sentence
            check(study, expected)
    except PermissionError as error:
        pytest.skip(f"only root may mount a small disk, where containers let it: {error}")
