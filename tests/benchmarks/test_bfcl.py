"""BFCL V3's own code against endpoints whose answers are known: an oracle, one that says nothing, one that is gone."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slca_core.benchmarks import bfcl, worker
from slca_core.config import BFCL_SIZES, REPOSITORY, BfclConfig
from slca_core.errors import ServiceError
from slca_core.failures import refuse_failures
from slca_core.processes.supervise import LOOPBACK, free_port
from slca_core.results import as_table
from slca_core.services.policy_server import PolicyServer
from tasks.orchestration.environments import require_bfcl
from tests.benchmarks.policy_endpoint import FAILS, TOO_LONG, UNSUPPORTED, Answer, Said, endpoint

pytestmark = pytest.mark.e2e

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "OPENAI_API_KEY": "EMPTY"}


@pytest.fixture(scope="module")
def python() -> Path:
    return require_bfcl()


@pytest.fixture(scope="module")
def data(python) -> Path:
    (found,) = python.parents[1].glob("lib/python*/site-packages/bfcl_eval/data")
    return found


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def simple_oracle(data: Path) -> Answer:
    """The ground truth's first value of each argument that has one."""
    truth = {answer["id"]: answer["ground_truth"] for answer in read(data / "possible_answer" / "BFCL_v3_simple.json")}
    by_question = {entry["question"][0][-1]["content"]: truth[entry["id"]] for entry in read(data / "BFCL_v3_simple.json")}

    def answer(body: dict[str, Any]) -> list[tuple[str, dict]]:
        return [
            (name.replace(".", "_"), {key: values[0] for key, values in arguments.items() if values[0] != ""})
            for call in by_question[body["messages"][-1]["content"]]
            for name, arguments in call.items()
        ]

    return answer


def multi_turn_oracle(data: Path) -> Answer:
    """The ground truth's calls of each turn, all at once, then nothing until the next turn."""
    truth = {answer["id"]: answer["ground_truth"] for answer in read(data / "possible_answer" / "BFCL_v3_multi_turn_base.json")}
    by_questions = {
        tuple(turn[0]["content"] for turn in entry["question"]): truth[entry["id"]]
        for entry in read(data / "BFCL_v3_multi_turn_base.json")
    }

    def answer(body: dict[str, Any]) -> list[tuple[str, dict]] | str:
        messages = body["messages"]
        if messages[-1]["role"] != "user":
            return "Done."
        asked = tuple(message["content"] for message in messages if message["role"] == "user")
        turns = next(turns for questions, turns in by_questions.items() if questions[: len(asked)] == asked)
        parameters = {tool["function"]["name"]: list(tool["function"]["parameters"]["properties"]) for tool in body["tools"]}
        return [parse(text, parameters) for text in turns[len(asked) - 1]] or "Done."

    return answer


def parse(text: str, parameters: dict[str, list[str]]) -> tuple[str, dict]:
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Name)
    named = dict(zip(parameters[call.func.id], map(ast.literal_eval, call.args), strict=False))
    return call.func.id, named | {word.arg: ast.literal_eval(word.value) for word in call.keywords}


def silent(_: dict[str, Any]) -> str:
    return "Done."


def run(python: Path, folder: Path, answer: Answer, *categories: str, model: str = "oracle-1", **settings) -> list[dict]:
    with endpoint(answer) as url:
        return bfcl.evaluate(PolicyServer(url, model), BfclConfig(categories=categories, **settings), folder, python=python)


def share(lines: list[dict], category: str) -> tuple[int, int]:
    own = [line for line in lines if line["category"] == category]
    return sum(line["valid"] for line in own), len(own)


def test_the_oracle_is_right_but_for_seven_items_as_by_bfcls_own_command(python, data, tmp_path):
    lines = run(python, tmp_path, simple_oracle(data), "simple")
    assert share(lines, "simple") == (393, 400)
    assert not any(line["error"] or line["overflow"] for line in lines)
    results = tmp_path / "bfcl" / "result" / "oracle-1" / "BFCL_v3_simple_result.json"
    results.parent.mkdir(parents=True)
    measured = {"latency": 0, "input_token_count": 0, "output_token_count": 0}
    results.write_text("".join(json.dumps(line | measured) + "\n" for line in lines))
    code = (
        f"import sys; sys.path.insert(0, {str(bfcl.SCRIPT.parent)!r}); import bfcl_worker; bfcl_worker.register('oracle-1', 64); "
        "from bfcl_eval.eval_checker.eval_runner import main; main(['oracle-1'], ['simple'], None, None)"
    )
    env = {**ENVIRONMENT, "HOME": str(tmp_path), "BFCL_PROJECT_ROOT": str(tmp_path / "bfcl")}
    subprocess.run([str(python), "-c", code], env=env, check=True, capture_output=True)
    own = json.loads((tmp_path / "bfcl" / "score" / "oracle-1" / "BFCL_v3_simple_score.json").read_text().splitlines()[0])
    assert (own["correct_count"], own["total_count"]) == (393, 400)


def test_the_command_says_what_an_endpoint_got_right(python, data, tmp_path):
    study = REPOSITORY / "configs" / "studies" / "smoke.yaml"
    settings = (f"root={tmp_path / 'root'}", "evaluation.bfcl={categories: [simple]}", "evaluation.tau2=")
    with endpoint(simple_oracle(data)) as url:
        command = ["evaluate", str(study), "--endpoint", url, "--model", "oracle"]
        given = [word for setting in settings for word in ("--set", setting)]
        result = subprocess.run(
            [str(Path(sys.executable).with_name("slca")), *command, *given], capture_output=True, text=True, check=True
        )
    (line,) = [line for line in result.stdout.splitlines() if "simple" in line and "BFCL" in line]
    assert line.split()[-3:] == ["393/400", "98.25", "0"]


def test_who_says_nothing_is_always_wrong_and_right_where_nothing_is_to_be_said(python, tmp_path):
    lines = run(python, tmp_path, silent, "simple", "irrelevance", "live_relevance", model="silent-1")
    assert [share(lines, name) for name in ("simple", "irrelevance", "live_relevance")] == [(0, 400), (240, 240), (0, 18)]


@pytest.mark.parametrize("model", ["oracle-1", "oracle-2"])
def test_the_multi_turn_oracle_is_right_under_any_name_wherever_one_can_be(python, data, tmp_path, model):
    lines = run(python, tmp_path, multi_turn_oracle(data), "multi_turn_base", model=model)
    # Its ground truth has six turns for five questions: BFCL itself counts any answer as cut off.
    assert [line["id"] for line in lines if not line["valid"]] == ["multi_turn_base_154"]
    assert len(lines) == 200


def test_a_prompt_that_does_not_fit_is_a_wrong_answer(python, tmp_path):
    lines = run(python, tmp_path, lambda _: TOO_LONG, "irrelevance", "multi_turn_base", limit=3)
    assert [(line["valid"], line["overflow"], line["error"]) for line in lines] == [(False, True, None)] * 6


def test_another_refusal_than_that_is_an_error(python, tmp_path):
    lines = run(python, tmp_path, lambda _: UNSUPPORTED, "irrelevance", limit=2)
    assert [(line["valid"], line["overflow"], line["error"][:24]) for line in lines] == [
        (False, False, "policy: BadRequestError:")
    ] * 2


def test_what_breaks_in_a_grader_is_an_error_of_the_item_and_no_verdict(python):
    code = (
        f"import sys, json; sys.path.insert(0, {str(bfcl.SCRIPT.parent)!r}); import bfcl_worker as worker\n"
        "class Handler:\n"
        "    def inference(self, *_, **__): return 'said', {'output_token_count': 2}\n"
        "worker.accuracy = lambda *_: 1 / 0\n"
        "print(json.dumps(worker.run(Handler(), 'simple', {'id': 'simple_0'}, {}, {}, None)))"
    )
    made = subprocess.run([str(python), "-c", code], env=ENVIRONMENT, check=True, capture_output=True, text=True)
    line = json.loads(made.stdout.splitlines()[-1])
    assert (line["valid"], line["error"], line["output"]) == (False, "task: ZeroDivisionError: division by zero", 2)


def test_a_server_that_went_away_is_no_score_and_the_next_attempt_asks_only_what_is_missing(python, data, tmp_path):
    oracle, asked = simple_oracle(data), []

    def dies(body: dict[str, Any]) -> Said:
        asked.append(body)
        return oracle(body) if len(asked) <= 5 else FAILS

    lines = run(python, tmp_path, dies, "simple", limit=20, concurrency=1)
    assert sum(line["error"] is not None for line in lines) == 15
    assert not any(line["valid"] for line in lines if line["error"])
    scored = as_table(bfcl.as_trials(lines), bfcl.NAME, checkpoint="c", seed=1).query("metric == 'correct'")
    assert set(scored["item"]) == {f"simple_{at}" for at in range(5)}
    with pytest.raises(ServiceError, match=r"15 of 20 rollouts failed \(policy 15"):
        refuse_failures([{"error": line["error"], "unread": 0} for line in lines], 0.02, "BFCL V3 of x")
    asked.clear()

    def lives(body: dict[str, Any]) -> list[tuple[str, dict]]:
        asked.append(body)
        return oracle(body)

    again = run(python, tmp_path, lives, "simple", limit=20)
    assert len(asked) == 15
    (tmp_path / "other").mkdir()
    undisturbed = run(python, tmp_path / "other", oracle, "simple", limit=20)
    timeless = [[{key: value for key, value in line.items() if key != "seconds"} for line in made] for made in (again, undisturbed)]
    assert timeless[0] == timeless[1]


def test_a_worker_that_fails_is_told_of_with_its_log(python, tmp_path):
    (tmp_path / "bfcl").write_text("in the way of BFCL's folders")
    with pytest.raises(ServiceError, match=r"The worker of bfcl ended with code 1\. The end of .*bfcl\.log"):
        run(python, tmp_path, silent, "simple", limit=1)


def test_nothing_of_our_environment_reaches_what_evaluates_a_models_words(python, tmp_path, monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", "sesame")
    given: dict[str, Any] = {}
    start = worker.start

    def noting(argv, log, env, **options):
        given.update(env=env, **options)
        return start(argv, log, env, **options)

    monkeypatch.setattr(worker, "start", noting)
    run(python, tmp_path, silent, "simple", limit=1)
    assert given["inherit"] is False
    assert "sesame" not in given["env"].values()


def test_the_sizes_are_those_of_the_data(data):
    assert {category: len(read(data / f"BFCL_v3_{category}.json")) for category in BFCL_SIZES} == BFCL_SIZES


def test_where_nobody_listens_nothing_is_scored(python, tmp_path):
    nobody = PolicyServer(f"http://{LOOPBACK}:{free_port()}", "gone-1")
    lines = bfcl.evaluate(nobody, BfclConfig(categories=("irrelevance",), limit=3), tmp_path, python=python)
    assert [line["error"].split(": ")[:2] for line in lines] == [["policy", "APIConnectionError"]] * 3
    assert as_table(bfcl.as_trials(lines), bfcl.NAME, checkpoint="c", seed=1)["metric"].tolist() == ["error"] * 3
