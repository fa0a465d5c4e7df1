"""What stops an evaluation: servers that do not answer, and a benchmark that can grade nothing; a task that breaks is counted."""

from __future__ import annotations

import pytest

from slca_core.config import Study
from slca_core.errors import ServiceError
from slca_core.results import Trial, as_table
from tasks.benchmarks import _refuse

STUDY = Study(name="x", policy={"scratch": {}})


def trials(*errors: str | None) -> list[Trial]:
    return [Trial("airline", str(at), 0, "sampled", {"success": 1.0}, error, 4, 0.5) for at, error in enumerate(errors)]


def test_a_task_that_breaks_its_grader_stops_nothing_and_is_in_no_figure():
    found = trials("task: ValueError: x", *[None] * 9)
    _refuse(STUDY, found, "tau2-bench of x")
    items = as_table(found, "tau2", checkpoint="c", seed=1)
    assert (items.query("metric == 'success'")["item"].nunique(), items.query("metric == 'error'")["value"].sum()) == (9, 1.0)


@pytest.mark.parametrize("where", ["policy", "user"])
def test_a_server_that_does_not_answer_stops_it_and_is_named(where):
    with pytest.raises(ServiceError, match=rf"1 of 10 rollouts failed \({where} 1; the first says: {where}: gone\)"):
        _refuse(STUDY, trials(f"{where}: gone", *[None] * 9), "tau2-bench of x")


def test_where_more_than_a_fifth_breaks_it_is_no_matter_of_tasks():
    broken = ["task: OSError: y"] * 3
    _refuse(STUDY, trials(*broken, *[None] * 12), "BFCL V3 of x")
    with pytest.raises(ServiceError, match="3 of 14 trials broke in the benchmark's own code; the first says: task: OSError: y"):
        _refuse(STUDY, trials(*broken, *[None] * 11), "BFCL V3 of x")
