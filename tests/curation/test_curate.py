"""Curation as a whole: what is left out and why, and splits that do not leak."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slca_core.conversation.dialogue import Dialogue, Message, ToolCall
from slca_core.curation.decomposition import decompose
from slca_core.curation.filters import FilterReason, filter_reason
from slca_core.curation.pipeline import Manifest, curate
from slca_core.curation.rows import read_split, row_of, sample_of
from slca_core.curation.splits import Split, SplitItem, deal
from slca_core.curation.synthetic.generator import generate, write_records
from slca_core.errors import DataError
from slca_core.standins.mocker import mock_response

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
SIZES = {"test_size": 40, "sft_fraction": 0.6, "decomposed_test_fraction": 0.25, "seed": 3, "quarantine_limit": 0.01}
TOOL = {"type": "function", "function": {"name": "t", "description": "", "parameters": {"type": "object", "properties": {}}}}
CALL = (Message("assistant", "", (ToolCall("t", {}),)), Message("tool", "17"), Message("assistant", "It is 17."))
CHAT = (Message("assistant", "Hello."),)


def _ask(text: str) -> Message:
    return Message("user", text)


def _dialogue(*messages: Message, tools: tuple[dict, ...] = (TOOL,), subset: str = "multi-turn") -> Dialogue:
    return Dialogue("d", "toucan-sft", subset, tools, messages)


@pytest.fixture(scope="module")
def curated(tmp_path_factory) -> tuple[Path, Manifest]:
    folder = tmp_path_factory.mktemp("curated")
    write_records(folder / "world.parquet", 400, 1, mock_response)
    return folder / "out", curate([folder / "world.parquet"], folder / "out", **SIZES)


@pytest.mark.parametrize(
    ("dialogue", "reason"),
    [
        (_dialogue(_ask("a"), *CALL), None),
        (_dialogue(_ask("a"), *CALL, subset="irrelevant"), FilterReason.IRRELEVANT),
        (_dialogue(_ask("a"), *CHAT), FilterReason.IRRELEVANT),
        (_dialogue(_ask("a"), *CALL, _ask("b"), *CHAT), FilterReason.NO_LATER_CALL),
        (_dialogue(_ask(" "), *CALL), FilterReason.EMPTY_QUESTION),
        (_dialogue(_ask("a"), *CALL, tools=()), FilterReason.UNKNOWN_TOOL),
        (_dialogue(_ask("a"), *CALL, tools=(TOOL, {"function": {"name": "t"}})), FilterReason.CONFLICTING_TOOLS),
        (_dialogue(_ask("a"), CALL[0], CALL[2]), FilterReason.UNANSWERED_CALL),
        (_dialogue(_ask("a"), CALL[0], CALL[1], CALL[1], CALL[2]), FilterReason.UNANSWERED_CALL),
        (_dialogue(_ask("a"), CALL[0], Message("tool", " "), CALL[2]), FilterReason.EMPTY_TOOL_RESPONSE),
        (_dialogue(_ask("a"), *CALL[:2]), FilterReason.NO_FINAL_ANSWER),
        (_dialogue(_ask("a"), *CALL[:2], _ask("b"), *CALL), FilterReason.NO_FINAL_ANSWER),
    ],
)
def test_a_dialogue_is_left_out_for_its_reason(dialogue: Dialogue, reason: FilterReason | None) -> None:
    assert filter_reason(dialogue) is reason


def test_a_single_turn_dialogue_gives_one_sample_with_its_demonstration() -> None:
    (sample,) = decompose(_dialogue(Message("system", "Be brief."), _ask("a"), *CALL))
    assert (sample.sample_id, sample.subset, sample.question) == ("d#1", "single-turn", "a")
    assert sample.prompt == (Message("system", "Be brief."), _ask("a"))
    assert (sample.demonstration, sample.gold) == (CALL, ((ToolCall("t", {}),),))


def test_a_longer_dialogue_gives_its_calling_turns_from_the_second_with_full_history() -> None:
    messages = (_ask("a"), *CALL, _ask("b"), *CHAT, _ask("c"), *CALL)
    (sample,) = decompose(_dialogue(*messages))
    assert (sample.sample_id, sample.subset) == ("d#3", "decomposed")
    assert sample.prompt == messages[:7]


_items = st.lists(
    st.builds(
        SplitItem,
        sample_id=st.uuids().map(str),
        dialogue_id=st.sampled_from([f"d{i}" for i in range(30)]),
        question=st.sampled_from([f"q{i}" for i in range(40)]),
        subset=st.sampled_from(["single-turn", "decomposed"]),
        has_demonstration=st.booleans(),
    ),
    unique_by=lambda item: item.sample_id,
    max_size=60,
)


def _deal(items: list[SplitItem], seed: int = 0) -> dict[str, Split]:
    return deal(items, test_size=10, decomposed_test_fraction=0.25, sft_fraction=0.5, seed=seed)


@settings(deadline=None)
@given(_items)
def test_no_dialogue_and_no_question_stands_in_two_splits(items: list[SplitItem]) -> None:
    splits = _deal(items)
    for key in ("dialogue_id", "question"):
        seen: dict[str, set[Split]] = {}
        for item in items:
            held_out = splits[item.sample_id] in (Split.TEST, Split.LEFT_OUT)
            seen.setdefault(getattr(item, key), set()).add(Split.TEST if held_out else splits[item.sample_id])
        assert all(len(found) == 1 for found in seen.values())


@settings(deadline=None)
@given(_items, st.randoms())
def test_splits_do_not_depend_on_the_order_of_the_input(items: list[SplitItem], shuffler: random.Random) -> None:
    shuffled = list(items)
    shuffler.shuffle(shuffled)
    assert _deal(shuffled) == _deal(items)


@settings(deadline=None)
@given(_items)
def test_a_sample_without_a_demonstration_never_reaches_sft(items: list[SplitItem]) -> None:
    splits = _deal(items)
    assert all(item.has_demonstration for item in items if splits[item.sample_id] is Split.SFT)


@settings(deadline=None)
@given(_items)
def test_the_test_set_asks_a_dialogue_once_and_keeps_to_its_size(items: list[SplitItem]) -> None:
    splits = _deal(items)
    tested = [item.dialogue_id for item in items if splits[item.sample_id] is Split.TEST]
    assert len(tested) == len(set(tested)) <= max(1, len(items) // 5)


def test_another_seed_deals_another_test_set() -> None:
    items = [SplitItem(f"s{i}", f"d{i}", f"q{i}", "single-turn", True) for i in range(50)]
    assert _deal(items, seed=0) != _deal(items, seed=1)


def test_the_test_quota_and_the_fractions_come_out_as_asked(curated) -> None:
    _, manifest = curated
    assert manifest.splits["test"] == {"single-turn": 30, "decomposed": 10}
    sft, rl = (sum(manifest.splits[split].values()) for split in ("sft", "rl"))
    assert sft == round(0.6 * (sft + rl))


def test_the_manifest_accounts_for_every_record_and_sample(curated) -> None:
    out, manifest = curated
    assert manifest.read == manifest.parsed == 400
    assert manifest.filtered.keys() == {FilterReason.IRRELEVANT}
    assert manifest.dialogues + sum(manifest.filtered.values()) == 400
    assert sum(sum(counts.values()) for counts in manifest.splits.values()) == manifest.samples
    for split in ("sft", "rl", "test"):
        assert len(read_split(out / f"{split}.parquet")) == sum(manifest.splits[split].values())
    assert json.loads((out / "manifest.json").read_text())["files"] == {
        name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in manifest.files
    }


def test_curating_again_writes_the_same_bytes(curated, tmp_path: Path) -> None:
    out, manifest = curated
    assert curate([out.parent / "world.parquet"], tmp_path, **SIZES) == manifest


def test_the_same_records_in_another_order_and_file_fall_into_the_same_splits(curated, tmp_path: Path) -> None:
    out, _ = curated
    lines = [json.dumps(record) for record in generate(400, 1, mock_response)]
    (tmp_path / "b.jsonl").write_text("\n".join(lines[:150]), encoding="utf-8")
    (tmp_path / "a.jsonl").write_text("\n".join(reversed(lines[150:])), encoding="utf-8")
    curate([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], tmp_path / "out", **SIZES)
    for name in ("sft.parquet", "rl.parquet", "test.parquet"):
        here, there = ({sample.sample_id for sample in read_split(folder / name)} for folder in (tmp_path / "out", out))
        assert here == there


def test_a_source_given_twice_counts_its_records_as_duplicates(curated, tmp_path: Path) -> None:
    source = curated[0].parent / "world.parquet"
    manifest = curate([source, source], tmp_path, **SIZES)
    assert manifest.samples == curated[1].samples
    assert manifest.filtered[FilterReason.DUPLICATE] == manifest.dialogues


def test_longer_prompts_than_allowed_are_left_out(curated, tmp_path: Path) -> None:
    manifest = curate([curated[0].parent / "world.parquet"], tmp_path, max_prompt_chars=800, **SIZES)
    assert manifest.filtered[FilterReason.PROMPT_TOO_LONG] + manifest.samples == curated[1].samples
    assert manifest.samples < curated[1].samples


def test_a_sample_comes_back_from_its_row(curated) -> None:
    for sample in read_split(curated[0] / "rl.parquet"):
        assert sample_of(row_of(sample)) == sample


def test_half_a_surrogate_pair_can_be_stored() -> None:
    sample = decompose(_dialogue(_ask("odd \ud800 text"), *CALL))[0]
    stored = pa.Table.from_pylist([row_of(sample)]).to_pylist()[0]
    assert sample_of(stored) == sample


def test_too_many_broken_records_stop_with_the_reasons_and_the_quarantine_file(curated, tmp_path: Path) -> None:
    records = [json.dumps(record) for record in generate(20, 1, mock_response)]
    (tmp_path / "rows.jsonl").write_text("\n".join([*records, "{broken"]), encoding="utf-8")
    with pytest.raises(DataError, match=r"1 of 21: broken JSON \(1\).*quarantine\.jsonl"):
        curate([tmp_path / "rows.jsonl"], tmp_path / "out", **SIZES)
    entry = json.loads((tmp_path / "out" / "quarantine.jsonl").read_text())
    assert (entry["reason"], entry["position"], entry["record"]) == ("broken JSON", 21, "{broken")
    assert curate([tmp_path / "rows.jsonl"], tmp_path / "out", **{**SIZES, "quarantine_limit": 0.05}).rejected == {"broken JSON": 1}


def test_too_few_samples_stop_with_the_reasons(tmp_path: Path) -> None:
    write_records(tmp_path / "two.parquet", 2, 0, mock_response)
    with pytest.raises(DataError, match="Expected at least 3 samples"):
        curate([tmp_path / "two.parquet"], tmp_path / "out", **SIZES)


def test_a_split_file_without_a_column_says_which(tmp_path: Path) -> None:
    pq.write_table(pa.table({"sample_id": ["a"]}), tmp_path / "rl.parquet")
    with pytest.raises(DataError, match="found none named dialogue_id"):
        read_split(tmp_path / "rl.parquet")


def test_a_missing_split_file_says_to_curate_first(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Run the curation step"):
        read_split(tmp_path / "rl.parquet")


@pytest.mark.skipif(not SHARED.is_dir(), reason="the real records in ../shared/data are not part of a clone")
def test_real_conversations_are_curated_as_counted(tmp_path: Path) -> None:
    manifest = curate([SHARED / "llamafactory"], tmp_path, **SIZES)
    assert (manifest.read, manifest.parsed) == (350, 350)
    assert (manifest.dialogues, manifest.samples) == (145, 151)
    assert manifest.filtered == {
        FilterReason.DUPLICATE: 13,
        FilterReason.INVALID_GOLD: 1,
        FilterReason.IRRELEVANT: 166,
        FilterReason.NO_LATER_CALL: 14,
        FilterReason.UNANSWERED_CALL: 11,
    }
