"""What a run's spec derives."""

from __future__ import annotations


def test_a_replicate_samples_by_another_seed_and_keeps_the_runs(make_spec):
    first = make_spec()
    second = first.model_copy(update={"replicate": 1})
    assert first.sampling_seed == first.seed == second.seed
    assert second.sampling_seed != first.sampling_seed


def test_the_file_of_a_run_is_its_owners_alone(make_spec):
    assert make_spec().write().stat().st_mode & 0o077 == 0
