"""Ready splits are taken as they are: rows, order and membership stay, and what is wrong with them is counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from slca_core.config import load_study
from slca_core.curation.filters import FilterReason
from slca_core.curation.ready import LEAK, take_splits
from slca_core.curation.rows import read_split
from slca_core.errors import ConfigError, DataError
from tasks.curate import curate_data, curation_step, data_line

TOOL = {"name": "lamp", "parameters": {"type": "object", "properties": {"room": {"type": "string"}}}}


def gold_row(question: str, room: Any = "hall") -> dict[str, Any]:
    """As the authors' rows for verl: a prompt with its gold, and no demonstration."""
    gold = [[{"name": "lamp", "arguments": {"room": room}}]]
    truth = {"gold_tool_calls": json.dumps(gold)}
    return {"prompt": [{"role": "user", "content": question}], "tools": [TOOL], "reward_model": {"ground_truth": truth}}


def dialogue(*questions: str, calls: bool = True) -> dict[str, Any]:
    turns = []
    for question in questions:
        turns.append({"from": "human", "value": question})
        if calls:
            turns.append({"from": "function_call", "value": json.dumps({"name": "lamp", "arguments": {"room": question}})})
            turns.append({"from": "observation", "value": "ok"})
        turns.append({"from": "gpt", "value": f"Done: {question}"})
    return {"conversations": turns, "tools": json.dumps([TOOL])}


def written(path: Path, *rows: Any) -> tuple[Path, ...]:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), encoding="utf-8")
    return (path,)


def made(folder: Path, **splits: tuple[Any, ...]) -> dict[str, tuple[Path, ...]]:
    usual = {"sft": (dialogue("s"),), "rl": (gold_row("r"),), "test": (gold_row("t"),)}
    return {name: written(folder / f"{name}-source.jsonl", *rows) for name, rows in {**usual, **splits}.items()}


def questions(path: Path) -> list[str]:
    return [sample.question for sample in read_split(path)]


def test_rows_order_and_membership_stay_as_they_are(tmp_path):
    rows = [gold_row(question) for question in ("c", "a", "b", "a")]
    splits = made(
        tmp_path, rl=tuple(rows), test=(gold_row("z"), gold_row("y")), sft=(dialogue("q", "p"), dialogue("o", calls=False))
    )
    manifest = take_splits(splits, tmp_path / "out")
    assert questions(tmp_path / "out" / "rl.parquet") == ["c", "a", "b", "a"]
    assert questions(tmp_path / "out" / "test.parquet") == ["z", "y"]
    assert questions(tmp_path / "out" / "sft.parquet") == ["p", "o"]
    assert manifest.splits["rl"] == {"single-turn": 4, "decomposed": 0}
    assert manifest.splits["sft"] == {"single-turn": 1, "decomposed": 1}
    assert manifest.findings == {FilterReason.DUPLICATE: 1, FilterReason.IRRELEVANT: 1}
    ids = [sample.sample_id for split in ("sft", "rl", "test") for sample in read_split(tmp_path / "out" / f"{split}.parquet")]
    assert len(set(ids)) == len(ids) == 8


def test_a_dialogue_is_one_row_with_its_history_as_prompt_and_its_last_answer_as_demonstration(tmp_path):
    take_splits(made(tmp_path, sft=(dialogue("first", "second"),)), tmp_path / "out")
    (sample,) = read_split(tmp_path / "out" / "sft.parquet")
    assert [message.role for message in sample.prompt] == ["user", "assistant", "tool", "assistant", "user"]
    assert sample.demonstration[-1].content == "Done: second"
    assert [[call.arguments for call in step] for step in sample.gold] == [[{"room": "second"}]]


def test_what_a_raw_source_would_lose_is_counted_and_kept(tmp_path):
    rows = (gold_row("t"), gold_row("r", room=7), gold_row("T "))
    manifest = take_splits(made(tmp_path, rl=rows), tmp_path / "out")
    assert questions(tmp_path / "out" / "rl.parquet") == ["t", "r", "T "]
    assert manifest.findings == {FilterReason.INVALID_GOLD: 1, LEAK: 2}


def test_only_a_row_that_nobody_can_read_is_left_out(tmp_path):
    splits = made(tmp_path, rl=(gold_row("a"), "{broken", gold_row("b")))
    manifest = take_splits(splits, tmp_path / "out", quarantine_limit=0.5)
    assert questions(tmp_path / "out" / "rl.parquet") == ["a", "b"]
    assert manifest.rejected == {"broken JSON": 1}
    with pytest.raises(DataError, match="1 of 5: broken JSON"):
        take_splits(splits, tmp_path / "out", quarantine_limit=0.1)


def test_an_empty_split_is_named(tmp_path):
    with pytest.raises(DataError, match="found none in rl"):
        take_splits(made(tmp_path, rl=()), tmp_path / "out")


def study_of(folder: Path, **data: Any):
    base = yaml.safe_load((Path(__file__).resolve().parents[2] / "configs" / "studies" / "smoke.yaml").read_text(encoding="utf-8"))
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump({**base, "root": str(folder / "root"), "data": data}), encoding="utf-8")
    return load_study(path)


def test_a_study_takes_ready_splits_and_sft_on_both_takes_its_own_where_there_is_one(tmp_path):
    splits = made(tmp_path, sft_full=(dialogue("s"), dialogue("r")))
    study = study_of(tmp_path, splits={name: str(paths[0]) for name, paths in splits.items()})
    assert study.data.full_sft == ("sft_full",)
    assert curation_step(study).config == {"ready": ["rl", "sft", "sft_full", "test"]}
    record = curate_data.fn(study)
    assert questions(record.folder / "sft_full.parquet") == ["s", "r"]
    assert data_line(study).startswith("sft: sharegpt; 1 rows in 1 file")


def test_without_one_sft_on_both_takes_both_splits_and_what_is_absent_is_waited_for(tmp_path):
    study = study_of(tmp_path, splits={name: str(tmp_path / f"{name}.jsonl") for name in ("sft", "rl", "test")})
    assert study.data.full_sft == ("sft", "rl")
    assert len(curation_step(study, planned=True).inputs) == 3
    assert "sft: not there yet" in data_line(study)
    with pytest.raises(DataError, match=r"data\.splits"):
        curation_step(study)


def test_ready_splits_and_a_source_exclude_each_other(tmp_path):
    with pytest.raises(ConfigError, match="name one of the two"):
        study_of(tmp_path, source="a.jsonl", splits={"sft": "a", "rl": "b", "test": "c"})
