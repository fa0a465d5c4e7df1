"""Planted faults: at their rates, in demonstrations only, and the same on every machine."""

from __future__ import annotations

import pytest

from slca_core.curation.pipeline import curate
from slca_core.curation.rows import read_split
from slca_core.curation.synthetic.faults import BARE_SUMMARY, Sloppiness, spoil
from slca_core.curation.synthetic.generator import write_records
from slca_core.standins.mocker import mock_response

SIZES = {"test_size": 60, "sft_fraction": 0.6, "seed": 3}
RATES = Sloppiness(dropped_argument=0.25, bare_summary=0.5)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The same records curated without and with planted faults."""
    folder = tmp_path_factory.mktemp("sloppy")
    write_records(folder / "world.parquet", 1200, 1, mock_response)
    clean = curate([folder / "world.parquet"], folder / "clean", **SIZES)
    sloppy = curate([folder / "world.parquet"], folder / "sloppy", **SIZES, sloppiness=RATES)
    return folder, clean, sloppy


def test_only_demonstrations_of_the_training_splits_change(both):
    folder, clean, sloppy = both
    assert clean.files["test.parquet"] == sloppy.files["test.parquet"]
    for split in ("sft", "rl"):
        before, after = (read_split(folder / kind / f"{split}.parquet") for kind in ("clean", "sloppy"))
        assert [s.sample_id for s in before] == [s.sample_id for s in after]
        assert all((a.gold, a.prompt, a.tools) == (b.gold, b.prompt, b.tools) for a, b in zip(before, after, strict=True))
        assert any(a.demonstration != b.demonstration for a, b in zip(before, after, strict=True))


def test_faults_come_at_their_rates_and_the_manifest_counts_them(both):
    folder, clean, sloppy = both
    samples = [sample for split in ("sft", "rl") for sample in read_split(folder / "sloppy" / f"{split}.parquet")]
    bare = sum(sample.demonstration[-1].content == BARE_SUMMARY for sample in samples)
    dropped = sum(
        sum(len(call.arguments) for message in sample.demonstration for call in message.tool_calls)
        < sum(len(call.arguments) for step in sample.gold for call in step)
        for sample in samples
    )
    assert clean.planted == {}
    assert sloppy.planted == {"bare_summary": bare, "dropped_argument": dropped}
    assert bare / len(samples) == pytest.approx(RATES.bare_summary, abs=0.05)
    assert dropped / len(samples) == pytest.approx(RATES.dropped_argument, abs=0.05)


def test_one_argument_of_one_call_is_dropped_and_no_value_changes(both):
    folder, _, _ = both
    for sample in read_split(folder / "clean" / "sft.parquet")[:50]:
        spoilt, done = spoil(sample, Sloppiness(dropped_argument=1.0), seed=0)
        assert spoil(sample, Sloppiness(dropped_argument=1.0), seed=0) == (spoilt, done)
        pairs = [
            (was.arguments, now.arguments)
            for before, after in zip(sample.demonstration, spoilt.demonstration, strict=True)
            for was, now in zip(before.tool_calls, after.tool_calls, strict=True)
        ]
        had_any = any(was for was, _ in pairs)
        assert sum(len(was) - len(now) for was, now in pairs) == done["dropped_argument"] == had_any
        assert all(now.items() <= was.items() for was, now in pairs)
