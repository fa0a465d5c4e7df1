"""tau2-bench's figures: Pass^k by counting, means over tasks then seeds, and what enters them."""

from __future__ import annotations

import itertools
from statistics import fmean

import numpy as np
import pandas as pd
import pytest

from slca_core.analysis.statistics import bootstrap_mean
from slca_core.reporting import tau2
from slca_core.reporting.tables import Condition
from tests.support.frames import Row, cells, run, table_of, texts

SLCA = Condition("slca", "SLCA-GRPO", runs=(run(1, "run-1"), run(2, "run-2")), labels=("mocker: stand-in", "judge: stand-in"))
GRPO = Condition("grpo", "GRPO")
LABEL, USER = ("tau2-bench as packed.",), ("user: stand-in.",)


def played(domain: str, verdicts: dict[str, str], condition: str = "slca", seed: int = 1) -> list[Row]:
    """Trials by task: "1" succeeded, "0" failed, "o" overflowed, "u" ended in an unusable answer, "e" met an error."""
    rows: list[Row] = []
    for item, trials in verdicts.items():
        for trial, verdict in enumerate(trials):
            faults = {"overflow": verdict == "o", "unusable": verdict == "u"}
            metrics = {"error": 1.0} if verdict == "e" else {"success": verdict == "1", **faults, "error": 0.0}
            rows += [
                (condition, seed, "tau2", domain, item, trial, "sampled", name, float(value)) for name, value in metrics.items()
            ]
    return rows


def random_tasks(seed: int, tasks: int = 12, trials: int = 4) -> dict[str, str]:
    rng = np.random.default_rng(seed)
    return {str(at): "".join(rng.choice(list("01e"), trials, p=(0.4, 0.45, 0.15))) for at in range(tasks)}


def by_counting(tasks: dict[str, str], k: int) -> float:
    """Over the tasks with k trials that met no error, the share of k-subsets of those trials that all succeeded."""
    usable = [trials.replace("e", "") for trials in tasks.values()]
    shares = [fmean(set(chosen) == {"1"} for chosen in itertools.combinations(trials, k)) for trials in usable if len(trials) >= k]
    return fmean(shares)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_pass_k_is_what_counting_all_subsets_of_trials_gives(k):
    tasks = random_tasks(seed=k)
    found = tau2.values(table_of(played("airline", tasks)), [SLCA])["slca"]
    assert found[f"pass_{k}"] == {1: pytest.approx(by_counting(tasks, k))}


def test_a_task_without_k_trials_is_left_out_and_counted():
    items = table_of(played("airline", {"a": "11", "b": "1e", "c": "ee"}) + played("mock", {"m": "ee"}))
    section = tau2.section(items, [SLCA], backbone=None)
    line = texts(section)["SLCA-GRPO"]
    assert (line["Tasks"], line["Pass^2, %"].split()[0], line["Errors"]) == ("3", "100.0", "5 of 8")
    assert any(note.endswith("1 of 3 from Pass^1, 2 of 3 from Pass^2.") for note in section.notes)


def test_micro_is_over_tasks_macro_over_domains_and_equal_names_in_two_domains_are_two_tasks():
    items = table_of(played("airline", {"0": "1", "1": "1", "2": "1"}) + played("retail", {"0": "0"}))
    section = tau2.section(items, [SLCA], backbone=None)
    line = texts(section)["SLCA-GRPO"]
    assert line["Tasks"] == "4"
    assert line["Pass^1 (micro), %"].startswith("75.0 ")
    assert (line["Pass^1 (macro), %"], line["Airline, %"], line["Retail, %"]) == ("50.0", "100.0", "0.0")


def test_the_spread_is_over_seeds_and_the_interval_over_tasks():
    made = {1: {"a": "1", "b": "0", "c": "1"}, 2: {"a": "1", "b": "0", "c": "0"}}
    items = table_of(row for seed, tasks in made.items() for row in played("retail", tasks, seed=seed))
    found = cells(tau2.section(items, [SLCA], backbone=None))["SLCA-GRPO"]["Pass^1 (micro), %"]
    interval = bootstrap_mean(np.array([1.0, 0.0, 0.5]))
    assert found.text == "50.0"
    assert found.small == f"± 23.6 [{100 * interval.low:.1f}, {100 * interval.high:.1f}]"


def test_the_mock_domain_has_its_column_and_enters_neither_mean():
    alone = played("airline", {"a": "1", "b": "0"})
    items = table_of(alone + played("mock", {"m": "1", "n": "1"}))
    section = tau2.section(items, [SLCA], backbone=None)
    line = texts(section)["SLCA-GRPO"]
    assert (line["Mock, %"], line["Tasks"], line["Pass^1 (macro), %"]) == ("100.0", "2", "50.0")
    assert tau2.values(items, [SLCA])["slca"]["pass_1"] == tau2.values(table_of(alone), [SLCA])["slca"]["pass_1"] == {1: 0.5}
    assert "no part of the benchmark" in section.terms["Mock"]


def test_where_only_mock_was_run_it_is_the_figure_and_that_is_said():
    items = table_of(played("mock", {"m": "1", "n": "0"}))
    assert tau2.values(items, [SLCA])["slca"]["pass_1"] == {1: 0.5}
    said = tau2.labels(items, limit=2, split="base")
    assert said == [tau2.MOCK_ALONE, "The first 2 tasks of each domain: not the benchmark's figures."]


@pytest.mark.parametrize(
    ("domains", "split", "said"),
    [
        (("airline", "retail", "telecom"), "base", []),
        (("telecom", "airline", "retail", "mock"), "base", []),
        (("airline", "mock"), "base", ["Of airline alone: not the benchmark's figure."]),
        (("telecom", "airline"), "base", ["Of airline and telecom alone: not the benchmark's figure."]),
        (
            ("airline", "retail", "telecom"),
            "test",
            ["Of the tasks of the test split alone: not the benchmark's figures."],
        ),
        ((), "base", []),
    ],
)
def test_a_part_of_the_benchmark_is_said_to_be_one(domains, split, said):
    items = table_of([row for domain in domains for row in played(domain, {"a": "e"})])
    assert tau2.labels(items, limit=None, split=split) == said


def test_the_floor_is_the_last_line_and_the_papers_figure_stands_beside_ours():
    rows = played("airline", {"a": "1u", "b": "0o"}) + played("airline", {"a": "0", "b": "1"}, condition="do_nothing", seed=0)
    section = tau2.section(table_of(rows), [SLCA, GRPO], backbone="qwen2.5-7b", label=LABEL, user=USER)
    found = texts(section)
    assert cells(section)["Do-nothing agent (floor)"]["Pass^1 (micro), %"].remarks == LABEL, "it asks no user"
    assert list(found) == ["SLCA-GRPO", "GRPO", "Do-nothing agent (floor)"]
    assert found["Do-nothing agent (floor)"]["Pass^1 (micro), %"].startswith("50.0 ")
    assert (found["Do-nothing agent (floor)"]["Pass^2, %"], found["Do-nothing agent (floor)"]["Paper, %"]) == ("–", "–")
    assert (found["SLCA-GRPO"]["Paper, %"], found["SLCA-GRPO"]["Overflows / unusable"]) == ("41.02 ± 1.01", "1 / 1")
    assert (found["GRPO"]["Paper, %"], found["GRPO"]["Tasks"], found["GRPO"]["Errors"]) == ("31.87 ± 2.97", "0", "–")


def test_each_figure_of_ours_carries_the_packaging_the_user_and_who_trained_it_and_links_its_runs():
    rows, sft = played("airline", {"a": "1"}) + played("airline", {"a": "1"}, condition="sft"), Condition("sft", "SFT")
    section = tau2.section(table_of(rows), [SLCA, sft], backbone="qwen2.5-7b", label=LABEL, user=USER, notes=["A toy."])
    line = cells(section)["SLCA-GRPO"]
    assert list(section.footnotes.values()) == [*LABEL, *USER, "Trained with mocker: stand-in; judge: stand-in."]
    assert cells(section)["SFT"]["Pass^1 (micro), %"].remarks == (*LABEL, *USER)
    assert section.notes[0] == "A toy."
    for column in ("Pass^1 (micro), %", "Pass^1 (macro), %", "Airline, %"):
        assert section.marks(line[column]) == ["a", "b", "c"]
        assert line[column].runs == SLCA.runs
    for column in ("Tasks", "Paper, %", "Errors"):
        assert section.marks(line[column]) == []


def test_rows_in_another_order_make_the_same_table():
    items = table_of(played("retail", random_tasks(1)) + played("airline", random_tasks(2)))
    again: pd.DataFrame = items.sample(frac=1, random_state=0)
    assert tau2.section(again, [SLCA], backbone=None) == tau2.section(items, [SLCA], backbone=None)


def test_where_a_domain_has_no_graded_trial_there_is_no_figure_over_all_and_each_other_has_its_own():
    items = table_of(played("airline", {"a": "1", "b": "0"}) + played("retail", {"c": "e"}))
    assert tau2.values(items, [SLCA])["slca"] == {"pass_1_airline": {1: 0.5}}
