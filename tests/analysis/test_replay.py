"""Replay over stored rollouts: what it counts, on rollouts whose answer is known."""

from __future__ import annotations

import pandas as pd
import pytest
from typer.testing import CliRunner

from flows.cli.main import app
from slca_core.analysis.replay import read_rollouts, replay
from slca_core.credit.estimators import ESTIMATORS
from slca_core.errors import DataError

# (R_tool, R_sum, the tool turn): App. D.4's conflict in rollout 0; rollouts 1 and 3 call alike.
GROUP = [(0.65, 1.0, "call a"), (0.8, 0.25, "call b"), (0.75, 0.5, "call c"), (0.8, 0.25, "call b")]


def rollout(number: int, r_tool: float, r_sum: float, call: str, update: int = 1, **changes) -> dict:
    return {
        "rollout_id": f"{update:05d}-0000-{number:03d}",
        "update": update,
        **{"r_tool": r_tool, "r_sum": r_sum, "outcome": float(r_tool > 0.7), "action": r_tool},
        **{"action_ranges": [[2, 4], [5, 8]], "token_ids": [ord(call[-1:] or "-")] * 8, "error": None},
        **{"turns": [call, "a summary"], "observations": [f"answer to {call}"]},
    } | changes


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame([rollout(number, *values) for number, values in enumerate(GROUP)])


def of(found, name: str):
    return next(one for one in found.estimators if one.name == name)


def test_every_estimator_is_replayed(frame):
    assert [one.name for one in replay(frame).estimators] == list(ESTIMATORS)


def test_conflict_and_flips_are_those_of_the_papers_instance(frame):
    found = replay(frame)
    assert (found.rollouts, found.groups, found.group_size, found.conflict) == (4, 1, 4.0, 0.25)
    assert (of(found, "slca").tool_tokens_flipped, of(found, "slca").summary_tokens_flipped) == (0.0, 0.0)
    assert of(found, "grpo").tool_tokens_flipped >= 0.25


def test_the_summary_explains_nothing_of_slcas_tool_advantage_and_some_of_grpos(frame):
    frame = frame.assign(r_tool=[0.1, 0.9, 0.5, 0.4], r_sum=[1.0, 0.75, 0.0, 0.5])
    found = replay(frame)
    assert of(found, "slca").explained_by_summary == pytest.approx(0.0, abs=1e-9)
    assert of(found, "rltr").explained_by_summary == pytest.approx(0.0, abs=1e-9)
    assert 0.1 < of(found, "grpo").explained_by_summary < 1.0
    assert of(found, "summary_only").explained_by_summary > of(found, "grpo").explained_by_summary


def test_groups_thin_out_by_what_tools_were_asked_and_answered(frame):
    found = replay(frame)
    assert (found.partitioned, found.alone) == (1.5, 0.5)
    assert (found.outcomes_per_call, found.tool_turns) == (3.0, 1.0)
    assert found.predicted == pytest.approx(4 / 3)


def test_groups_are_told_apart_by_update_and_failed_rollouts_left_out(frame):
    second = pd.DataFrame([rollout(number, *values, update=2) for number, values in enumerate(GROUP)])
    broken = pd.DataFrame([rollout(4, 0.0, 0.0, "call d", error="judge: down")])
    found = replay(pd.concat([frame, second, broken], ignore_index=True))
    assert (found.rollouts, found.groups, found.failed, found.group_size) == (8, 2, 1, 4.0)


def test_a_rollout_without_a_tool_turn_takes_part(frame):
    silent = pd.DataFrame([rollout(4, 0.0, -0.5, "", turns=["no call"], observations=[], action_ranges=[[2, 8]])])
    found = replay(pd.concat([frame, silent], ignore_index=True))
    assert found.rollouts == 5
    assert found.conflict == 0.25, "of the rollouts with both segments"


def test_rollouts_are_read_from_a_file_a_folder_or_a_run(frame, tmp_path):
    folder = tmp_path / "run" / "rollouts"
    folder.mkdir(parents=True)
    frame.to_parquet(folder / "update_00001.parquet")
    for path in (tmp_path / "run", folder, folder / "update_00001.parquet"):
        assert len(read_rollouts(path)) == 4


@pytest.mark.parametrize("content", [None, b"no parquet", "columns"])
def test_what_is_no_rollouts_is_said_in_a_sentence(tmp_path, content):
    path = tmp_path / "rollouts.parquet"
    if content == "columns":
        pd.DataFrame({"rollout_id": ["a"]}).to_parquet(path)
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match="expected"):
        read_rollouts(path)


def test_the_command_prints_a_row_an_estimator(frame, tmp_path):
    frame.to_parquet(tmp_path / "r.parquet")
    result = CliRunner().invoke(app, ["replay", str(tmp_path / "r.parquet")])
    assert result.exit_code == 0, result.output
    assert all(name in result.output for name in ESTIMATORS)
    assert "conflict regime" in result.output
    assert "G / C^K" in result.output
