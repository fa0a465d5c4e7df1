"""Inside .venv-bfcl: BFCL's handler asks a server, BFCL's checkers grade, one JSON line an item. Knows nothing of this project.

python bfcl_worker.py JOB.json

The job: version (of bfcl-eval, that must be here), model (the name it is served under, without "_"), categories, ids (of items
done already, which are left out), limit (first items of each category, or null), threads, max_tokens, out (a JSON-lines file that
is added to). The server's address and key are OPENAI_BASE_URL and OPENAI_API_KEY; no line has what SLCA_HIDDEN lists. The executor
evaluates what a model wrote: run it without other secrets in its environment.
"""

import importlib.metadata
import json
import os
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path

import openai
from bfcl_eval._llm_response_generation import process_multi_turn_test_case
from bfcl_eval.constants.category_mapping import TEST_FILE_MAPPING
from bfcl_eval.constants.eval_config import POSSIBLE_ANSWER_PATH, PROMPT_PATH
from bfcl_eval.constants.model_config import MODEL_CONFIG_MAPPING, ModelConfig
from bfcl_eval.eval_checker.eval_runner import ast_file_runner, multi_turn_runner, relevance_file_runner
from bfcl_eval.model_handler.api_inference.openai_completion import OpenAICompletionsHandler
from bfcl_eval.utils import is_java, is_js, is_multi_turn, is_relevance_or_irrelevance, load_file

# What servers say of a prompt that does not fit.
OVERFLOW = ("context length", "maximum model length", "context_length_exceeded", "context window", "context size")


class Unanswered(openai.OpenAIError):
    """A server that answered with what is no completion."""


class Handler(OpenAICompletionsHandler):
    """BFCL's function-calling handler with a limit on the answer."""

    max_tokens = 8192

    def generate_with_backoff(self, **kwargs):
        response, seconds = super().generate_with_backoff(max_tokens=self.max_tokens, **kwargs)
        if not response.choices:
            raise Unanswered(f"an answer without choices: {str(response)[:300]}")
        return response, seconds


def register(model, max_tokens):
    MODEL_CONFIG_MAPPING[model] = ModelConfig(
        model_name=model,
        display_name=model,
        url="",
        org="",
        license="",
        model_handler=Handler,
        is_fc_model=True,
        underscore_to_dot=True,
    )
    handler = Handler(model, 0.0)
    handler.is_fc_model, handler.max_tokens = True, max_tokens
    return handler


def entries_of(category, limit):
    """The category's items with what they are graded by, in the file's order."""
    entries = load_file(PROMPT_PATH / TEST_FILE_MAPPING[category])[:limit]
    answers = {}
    if not is_relevance_or_irrelevance(category):
        answers = {answer["id"]: answer for answer in load_file(POSSIBLE_ANSWER_PATH / TEST_FILE_MAPPING[category])}
    # What a multi-turn item is graded by must not have its functions in it, which asking adds.
    asked = process_multi_turn_test_case(deepcopy(entries))
    return [(category, ask, grade, answers.get(grade["id"])) for ask, grade in zip(asked, entries, strict=True)]


def run(handler, category, ask, grade, answer, scores):
    """One item: graded, or with the error that kept it from being asked."""
    line = {"id": ask["id"], "category": category, "valid": False, "error": None, "overflow": False}
    started = time.monotonic()
    try:
        result, metadata = handler.inference(deepcopy(ask), include_input_log=False, exclude_state_log=True)
    except openai.BadRequestError as error:
        # A prompt that does not fit is the model's own limit: a wrong answer.
        line["overflow"] = any(mark in str(error).lower() for mark in OVERFLOW)
        if not line["overflow"]:
            line["error"] = f"policy: {type(error).__name__}: {error}"
        return line | {"seconds": time.monotonic() - started}
    except openai.OpenAIError as error:
        return line | {"error": f"policy: {type(error).__name__}: {error}", "seconds": time.monotonic() - started}
    except (OSError, MemoryError):
        raise  # Of this machine, and no item's own.
    except Exception as error:
        return line | {"error": f"task: {type(error).__name__}: {error}", "seconds": time.monotonic() - started}
    line |= {"seconds": time.monotonic() - started, "result": result}
    line |= {name: total(metadata.get(f"{name}_token_count", 0)) for name in ("input", "output")}
    try:
        line["valid"] = bool(accuracy(handler, category, {"id": ask["id"], "result": result}, grade, answer, scores))
    except (OSError, MemoryError):
        raise
    except Exception as error:
        line["error"] = f"task: {type(error).__name__}: {error}"
    return line


def accuracy(handler, category, result, grade, answer, scores):
    """0 or 1, by the checker that BFCL's own command runs on the category."""
    model, grade = handler.model_name, deepcopy(grade)
    if is_relevance_or_irrelevance(category):
        return relevance_file_runner(handler, [result], [grade], model, category, scores)[0]
    if is_multi_turn(category):
        return multi_turn_runner(handler, [result], [grade], [answer], model, category, scores)[0]
    language = "Java" if is_java(category) else "JavaScript" if is_js(category) else "Python"
    return ast_file_runner(handler, [result], [grade], [answer], language, category, model, scores)[0]


def hidden(line):
    """A line without the secrets that a server may have repeated."""
    for secret in json.loads(os.environ.get("SLCA_HIDDEN", "[]")):
        line = line.replace(json.dumps(secret)[1:-1], "***")
    return line


def total(counts):
    """The sum over turns and steps, nested as the handler has them."""
    return sum(map(total, counts)) if isinstance(counts, list) else counts


def main():
    job = json.loads(Path(sys.argv[1]).read_text())
    if (found := importlib.metadata.version("bfcl_eval")) != job["version"]:
        sys.exit(f"bfcl-eval {job['version']} was expected, {found} is installed in {sys.prefix}: remove that folder.")
    handler = register(job["model"], job["max_tokens"])
    done, lock = set(job["ids"]), threading.Lock()
    items = [item for category in job["categories"] for item in entries_of(category, job["limit"]) if item[1]["id"] not in done]
    own = threading.local()
    with tempfile.TemporaryDirectory() as folder, open(job["out"], "a") as out, ThreadPoolExecutor(job["threads"]) as pool:

        def work(item):
            # The runners write their scores to a folder; threads must not meet there.
            if not hasattr(own, "scores"):
                own.scores = Path(tempfile.mkdtemp(dir=folder))
            line = hidden(json.dumps(run(handler, *item, own.scores), default=str))
            with lock:
                out.write(line + "\n")
                out.flush()

        list(pool.map(work, items))


if __name__ == "__main__":
    main()
