"""Inside a tau2-bench environment: its orchestrator and graders play tasks, one JSON line a trial. Knows nothing of this project.

python tau2_worker.py JOB.json

The job: distribution and version (of the package that must be here), domains, split, limit (first tasks of each domain, or null),
trials, seed, done ([domain, task, trial] that are left out), max_steps, max_errors, threads, out (a JSON-lines file that is added
to), and agent and user: endpoints of {model, args (of litellm's completion: api_base, api_key, temperature, max_tokens, timeout,
num_retries)}. `judge`, such an endpoint or null, is asked where a task is graded by a model. `${env:NAME}` anywhere in the job is
that variable; no line has what SLCA_HIDDEN lists. `agent: null` measures the floor: the user leaves before the agent has said a
word.

The line: domain, id, trial, success, error (null, or who failed, "policy", "user", "judge" or "task", and how), fault (null, or
what the policy did that is no message: "overflow", "empty", "unreadable"), seconds, what agent and user were asked, and what the
graders said.
"""

import importlib.metadata
import json
import os
import random
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import litellm
import pydantic
from loguru import logger

logger.remove()

from tau2.agent import llm_agent  # noqa: E402
from tau2.data_model.message import AssistantMessage  # noqa: E402
from tau2.evaluator import evaluator_nl_assertions  # noqa: E402
from tau2.evaluator.evaluator import EvaluationType  # noqa: E402
from tau2.user import user_simulator  # noqa: E402

try:
    from tau2.run import load_tasks, run_task
except ImportError:  # v1
    from tau2 import TextRunConfig
    from tau2.runner import load_tasks, run_single_task

    def run_task(*, task, seed, evaluation_type, **settings):
        return run_single_task(TextRunConfig(**settings), task, seed=seed, evaluation_type=evaluation_type)


# What servers say of a prompt that does not fit, where litellm has no class for it.
OVERFLOW = ("context length", "maximum model length", "context_length_exceeded", "context window", "context size")
SUCCESS = 1e-6
# How a conversation ends that is graded; any other ending, such as a user's error, is none.
GRADED = ("agent_stop", "user_stop", "max_steps", "too_many_errors", "agent_error")


class OwnFault(Exception):
    """What the policy under evaluation did that is no message: a wrong answer, and no fault of a server."""


class Unanswered(Exception):
    """A server that did not answer."""


class Meter(threading.local):
    """What the trial of this thread asked."""

    def reset(self):
        nothing = {"calls": 0, "prompt_tokens": 0, "completion_tokens": 0, "seconds": 0.0}
        self.agent, self.user, self.judge = nothing, dict(nothing), dict(nothing)


METER = Meter()


def metered(generate, who):
    """tau2's `generate`, counted; what the agent itself did is told apart from what befell a server."""

    def ask(*args, **kwargs):
        spent, started = getattr(METER, who), time.monotonic()
        spent["calls"] += 1
        try:
            message = generate(*args, **kwargs)
        except Exception as error:
            if who == "agent" and (fault := own_fault(error)):
                raise OwnFault(fault) from error
            raise Unanswered(f"{'policy' if who == 'agent' else who}: {type(error).__name__}: {error}") from error
        finally:
            spent["seconds"] += time.monotonic() - started
        for name in ("prompt_tokens", "completion_tokens"):
            spent[name] += (message.usage or {}).get(name, 0)
        if not (message.has_text_content() or message.is_tool_call()):
            if who == "agent":
                raise OwnFault("empty")
            raise Unanswered(f"{who}: an empty answer")
        return message

    return ask


def own_fault(error):
    """What the policy did, if it was the policy: a prompt beyond its context, or a call whose arguments are no JSON object."""
    if isinstance(error, litellm.ContextWindowExceededError):
        return "overflow"
    if isinstance(error, litellm.BadRequestError) and any(mark in str(error).lower() for mark in OVERFLOW):
        return "overflow"
    return "unreadable" if isinstance(error, (json.JSONDecodeError, pydantic.ValidationError)) else None


def leaves(*args, **kwargs):
    """A user in place of tau2's `generate`."""
    return AssistantMessage(role="assistant", content="###STOP###", cost=0.0, usage={})


def connect(job):
    """tau2's agent, user and judge as the job has them."""
    llm_agent.generate = metered(llm_agent.generate, "agent")
    user_simulator.generate = metered(user_simulator.generate if job["agent"] else leaves, "user")
    if job["judge"]:
        evaluator_nl_assertions.generate = metered(evaluator_nl_assertions.generate, "judge")
        evaluator_nl_assertions.DEFAULT_LLM_NL_ASSERTIONS = f"openai/{job['judge']['model']}"
        evaluator_nl_assertions.DEFAULT_LLM_NL_ASSERTIONS_ARGS = job["judge"]["args"]


def settings(job, domain):
    """What tau2's runner takes for one task, but for the task itself."""
    nobody = {"model": "none", "args": {"api_key": "EMPTY"}}
    agent, user = job["agent"] or nobody, job["user"] or nobody
    return {
        **{"domain": domain, "agent": "llm_agent", "user": "user_simulator"},
        **{"llm_agent": f"openai/{agent['model']}", "llm_args_agent": agent["args"]},
        **{"llm_user": f"openai/{user['model']}", "llm_args_user": user["args"]},
        **{"max_steps": job["max_steps"], "max_errors": job["max_errors"]},
    }


def play(job, domain, task, trial, seed):
    """One trial: graded, or with the error that kept it from being played."""
    line = {"domain": domain, "id": task.id, "trial": trial, "success": False, "error": None, "fault": None}
    METER.reset()
    started = time.monotonic()
    try:
        simulation = run_task(**settings(job, domain), task=task, seed=seed, evaluation_type=evaluation(task, job["judge"]))
        line |= {
            "termination": str(getattr(simulation.termination_reason, "value", simulation.termination_reason)),
            "reward": simulation.reward_info.model_dump(mode="json") if simulation.reward_info else None,
            "messages": [message.model_dump(mode="json", exclude={"raw_data"}) for message in simulation.messages],
        }
        if line["termination"] in GRADED:
            line["success"] = abs(simulation.reward_info.reward - 1) <= SUCCESS
        elif line["termination"] == "context_window_exceeded":
            line["fault"] = "overflow"
        else:
            who = "user" if line["termination"] == "user_error" else "task"
            line["error"] = f"{who}: the conversation ended by {line['termination']}"
    except OwnFault as fault:
        line["fault"] = str(fault)
    except Unanswered as error:
        line["error"] = str(error)
    except (OSError, MemoryError):
        raise  # Of this machine, and no task's own.
    except Exception as error:
        who = "judge" if METER.judge["calls"] and isinstance(error, json.JSONDecodeError) else "task"
        line["error"] = f"{who}: {type(error).__name__}: {error}"
    return line | {"seconds": time.monotonic() - started, "agent": METER.agent, "user": METER.user}


def evaluation(task, judge):
    """All of the task's graders, those that ask a model among them."""
    if not asks_model(task):
        return EvaluationType.ALL
    if judge is None:
        raise LookupError("it is graded by a model too, which the floor does not ask")
    return EvaluationType.ALL_WITH_NL_ASSERTIONS


def asks_model(task):
    basis = task.evaluation_criteria.reward_basis if task.evaluation_criteria else ()
    return any(part.value == "NL_ASSERTION" for part in basis)


def filled(value):
    """The job with each `${env:NAME}` in it replaced by that variable, which no file has."""
    if isinstance(value, str):
        return re.sub(r"\$\{env:(\w+)\}", lambda found: os.environ[found[1]], value)
    if isinstance(value, dict):
        return {key: filled(part) for key, part in value.items()}
    return [filled(part) for part in value] if isinstance(value, list) else value


def hidden(line):
    """A line without the secrets that a server may have repeated."""
    for secret in json.loads(os.environ.get("SLCA_HIDDEN", "[]")):
        line = line.replace(json.dumps(secret)[1:-1], "***")
    return line


def trial_seeds(seed, trials):
    """As tau2's own command draws them."""
    draw = random.Random(seed)
    return [draw.randint(0, 1000000) for _ in range(trials)]


def main():
    job = filled(json.loads(Path(sys.argv[1]).read_text()))
    found = importlib.metadata.version(job["distribution"])
    if found != job["version"]:
        sys.exit(
            f"{job['distribution']} {job['version']} was expected (evaluation.tau2.version), {found} is installed in {sys.prefix}: "
            "name that version, or an environment that has the other."
        )
    connect(job)
    done, lock = {tuple(one) for one in job["done"]}, threading.Lock()
    wanted = [
        (domain, task, trial, seed)
        for trial, seed in enumerate(trial_seeds(job["seed"], job["trials"]))
        for domain in job["domains"]
        for task in load_tasks(domain, None if domain == "mock" else job["split"])[: job["limit"]]
        if (domain, task.id, trial) not in done
    ]
    if job["agent"] and job["judge"] is None and (graded := sorted({one[0] for one in wanted if asks_model(one[1])})):
        sys.exit(f"tasks of {', '.join(graded)} are graded by a model too: services.judge must be one, and no stand-in.")
    with open(job["out"], "a") as out, ThreadPoolExecutor(job["threads"]) as pool:

        def work(one):
            line = hidden(json.dumps(play(job, *one), default=str))
            with lock:
                out.write(line + "\n")
                out.flush()

        list(pool.map(work, wanted))


if __name__ == "__main__":
    main()
