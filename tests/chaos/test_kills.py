"""A study that is killed at random, again and again, ends where an undisturbed one does."""

from __future__ import annotations

import os
import random
import shutil

import pytest

from tests.chaos import kills, outcome
from tests.chaos.conftest import UPDATES, write_study

pytestmark = pytest.mark.e2e
KILLS = 12 if os.environ.get("SLCA_ACCEPTANCE") else 4


def test_a_study_killed_at_random_ends_as_an_undisturbed_one(undisturbed, start, tmp_path_factory):
    first, expected = undisturbed
    draw, done = random.Random(0), []
    while len(done) < KILLS:
        study, path = write_study(tmp_path_factory.mktemp("disturbed"))
        for step in ("curate", "policy"):  # Not what this is about, and no step of theirs is short.
            shutil.copytree(first.root / "artifacts" / step, study.root / "artifacts" / step)
        done += kills.disturb(start(path), study, draw, kills=KILLS - len(done), within_s=12, log=path.with_name("log"))
        outcome.check_books(study, UPDATES)
        assert (outcome.tables(study), outcome.checkpoints(study)) == expected
    assert len({kill.victim for kill in done}) >= 2, f"kinds of processes that were killed: {done}"
