"""The answers on disk: told apart by what was asked, one for each question whoever asks at once, and whole after any kill."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slca_core.errors import ServiceError
from slca_core.services.cache import AnswerCache, Question

ROOT = Path(__file__).parents[2]
MODEL = {"model": "m", "temperature": 0.5}
QUESTION = Question(MODEL, "How is the weather?", "rollout-1")
JOURNALS = pytest.mark.parametrize("one_host", [True, False], ids=["one-host", "several-hosts"])
breaks = st.sampled_from(["\n", "\r\n", "\r", "\0", "\u2028", "\x85", "\U0001f600"])
texts = st.lists(st.one_of(breaks, st.text(st.characters(exclude_categories=["Cs"]), max_size=6)), max_size=4).map("".join)

# Once told to begin, puts an answer of its own to a question of everybody's and to one of its own, and reports both as they stand.
WRITER = """
import asyncio, json, sys
from pathlib import Path
from slca_core.services.cache import AnswerCache, Question

async def write(path, one_host, who, count):
    print("ready", flush=True)
    sys.stdin.readline()
    cache = AnswerCache(Path(path), one_host=one_host == "True")
    try:
        for number in range(int(count)):
            shared, own = Question({}, f"shared {number}"), Question({}, f"own {number}", who)
            stored = [await cache.put(shared, f"{who} {number}"), await cache.put(own, f"{who} {number}")]
            print(json.dumps([*stored, await cache.get(shared), await cache.get(own)]), flush=True)
    finally:
        await cache.close()

asyncio.run(write(*sys.argv[1:]))
"""

# Puts one long answer after the other, from the number given on, and reports each once it is kept.
ENDLESS = """
import asyncio, sys
from pathlib import Path
from slca_core.services.cache import AnswerCache, Question

async def write(path, one_host, number):
    cache = AnswerCache(Path(path), one_host=one_host == "True")
    try:
        while True:
            await cache.put(Question({}, str(number)), f"{number} " * 5000)
            print(number, flush=True)
            number += 1
    finally:
        await cache.close()

asyncio.run(write(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def put(path: Path, question: Question, text: str, one_host: bool = True) -> str:
    async def once() -> str:
        cache = AnswerCache(path, one_host=one_host)
        try:
            return await cache.put(question, text)
        finally:
            await cache.close()

    return asyncio.run(once())


def get(path: Path, *questions: Question, one_host: bool = True) -> list[str | None]:
    async def all_at_once() -> list[str | None]:
        cache = AnswerCache(path, one_host=one_host)
        try:
            return await asyncio.gather(*map(cache.get, questions))
        finally:
            await cache.close()

    return asyncio.run(all_at_once())


def is_sound(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@JOURNALS
def test_an_answer_is_there_when_the_cache_is_opened_again(tmp_path, one_host):
    path = tmp_path / "cache" / "answers.sqlite"
    assert put(path, QUESTION, "fine", one_host) == "fine"
    assert get(path, QUESTION, one_host=one_host) == ["fine"]


def test_what_nobody_has_asked_has_no_answer(tmp_path):
    assert get(tmp_path / "answers.sqlite", QUESTION) == [None]


def test_a_question_is_told_apart_by_service_prompt_and_asker(tmp_path):
    path = tmp_path / "answers.sqlite"
    questions = [
        QUESTION,
        Question({**MODEL, "temperature": 0.6}, QUESTION.prompt, QUESTION.asker),
        Question({**MODEL, "standin_code": "1"}, QUESTION.prompt, QUESTION.asker),
        Question({}, QUESTION.prompt, QUESTION.asker),
        Question(MODEL, QUESTION.prompt + " ", QUESTION.asker),
        Question(MODEL, QUESTION.prompt, "rollout-2"),
        Question(MODEL, QUESTION.prompt, ""),
        Question(MODEL, QUESTION.prompt, "None"),
        Question(MODEL, QUESTION.prompt, None),
    ]
    for number, question in enumerate(questions):
        put(path, question, str(number))
    assert get(path, *questions) == [str(number) for number in range(len(questions))]


def test_the_order_of_a_services_settings_makes_no_other_question():
    assert Question(dict(reversed(MODEL.items())), QUESTION.prompt, QUESTION.asker).key == QUESTION.key


@JOURNALS
def test_the_first_answer_stands(tmp_path, one_host):
    path = tmp_path / "answers.sqlite"
    assert [put(path, QUESTION, text, one_host) for text in ("first", "second", "first")] == ["first"] * 3
    assert get(path, QUESTION, one_host=one_host) == ["first"]


def test_of_answers_put_at_once_all_who_put_them_get_the_same(tmp_path):
    async def all_at_once() -> list[str]:
        cache = AnswerCache(tmp_path / "answers.sqlite")
        try:
            return await asyncio.gather(*(cache.put(QUESTION, str(number)) for number in range(20)))
        finally:
            await cache.close()

    assert len(set(asyncio.run(all_at_once()))) == 1


def test_a_cache_that_was_closed_opens_again_when_it_is_asked(tmp_path):
    async def ask_closed() -> str | None:
        cache = AnswerCache(tmp_path / "answers.sqlite")
        await cache.put(QUESTION, "fine")
        await cache.close()
        try:
            return await cache.get(QUESTION)
        finally:
            await cache.close()

    assert asyncio.run(ask_closed()) == "fine"


@settings(deadline=None, max_examples=40)
@given(st.dictionaries(texts, texts, max_size=4))
def test_any_text_comes_back_as_it_was(answers):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.sqlite"
        questions = [Question(MODEL, prompt) for prompt in answers]
        for question, text in zip(questions, answers.values(), strict=True):
            put(path, question, text)
        assert get(path, *questions) == list(answers.values())


@JOURNALS
def test_processes_that_write_and_read_at_once_lose_nothing_and_see_one_answer(tmp_path, one_host):
    path, names, count = tmp_path / "answers.sqlite", ("a", "b", "c", "d"), 25
    reports = _together(path, one_host, names, count)
    shared = get(path, *(Question({}, f"shared {number}") for number in range(count)), one_host=one_host)
    assert set(shared) <= {f"{name} {number}" for name in names for number in range(count)}
    for name in names:
        own = [f"{name} {number}" for number in range(count)]
        assert get(path, *(Question({}, f"own {number}", name) for number in range(count)), one_host=one_host) == own
        assert reports[name] == [[*pair, *pair] for pair in zip(shared, own, strict=True)]
    assert is_sound(path)


def _together(path: Path, one_host: bool, names: Sequence[str], count: int) -> dict[str, list[list[str]]]:
    """What each writer reported, all of them begun at once."""
    writers = {name: start(WRITER, path, one_host, name, count) for name in names}
    for writer in writers.values():
        assert writer.stdout.readline() == "ready\n"
    for writer in writers.values():
        writer.stdin.write("begin\n")
        writer.stdin.flush()
    said = {name: writer.communicate()[0] for name, writer in writers.items()}
    assert [writer.returncode for writer in writers.values()] == [0] * len(names)
    return {name: [json.loads(line) for line in text.splitlines()] for name, text in said.items()}


@JOURNALS
def test_a_process_killed_while_it_writes_leaves_every_answer_it_reported(tmp_path, one_host):
    path, reported = tmp_path / "answers.sqlite", []
    for first, committed in ((1000, 1), (2000, 12), (3000, 40)):
        writer = start(ENDLESS, path, one_host, first)
        lines = [writer.stdout.readline() for _ in range(committed)]
        writer.kill()
        lines += writer.communicate()[0].splitlines(keepends=True)
        kept = [int(line) for line in lines if line.endswith("\n")]
        assert len(kept) >= committed
        reported += kept
    answers = get(path, *(Question({}, str(number)) for number in reported), one_host=one_host)
    assert answers == [f"{number} " * 5000 for number in reported]
    assert is_sound(path)


def test_where_several_hosts_use_it_no_memory_is_shared(tmp_path):
    async def files_beside_an_open_cache() -> set[str]:
        cache = AnswerCache(tmp_path / "answers.sqlite", one_host=False)
        await cache.put(QUESTION, "fine")
        try:
            return {path.name for path in tmp_path.iterdir()}
        finally:
            await cache.close()

    assert not {"answers.sqlite-shm", "answers.sqlite-wal"} & asyncio.run(files_beside_an_open_cache())


def test_what_one_host_kept_several_hosts_find(tmp_path):
    path = tmp_path / "answers.sqlite"
    put(path, QUESTION, "fine", one_host=True)
    assert get(path, QUESTION, one_host=False) == get(path, QUESTION, one_host=True) == ["fine"]


@JOURNALS
@pytest.mark.parametrize("content", [b"no database", b"no database" * 1000], ids=["short", "long"])
def test_a_file_that_is_no_database_is_named_with_what_to_do(tmp_path, one_host, content):
    path = tmp_path / "answers.sqlite"
    path.write_bytes(content)
    with pytest.raises(ServiceError, match=rf"expected at {path}, it cannot be used: .* delete the file"):
        AnswerCache(path, one_host=one_host)


@pytest.mark.parametrize("ask", [get, lambda path, question: put(path, question, "fine")], ids=["get", "put"])
def test_a_database_of_another_form_is_named_with_what_to_do(tmp_path, ask):
    path = tmp_path / "answers.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE answers (number INTEGER)")
    with pytest.raises(ServiceError, match=rf"expected at {path}, it cannot be used: .* delete the file"):
        ask(path, QUESTION)


def test_a_file_that_others_use_keeps_its_journal(tmp_path):
    path = tmp_path / "answers.sqlite"

    async def both() -> tuple[str | None, str | None]:
        local, cluster = AnswerCache(path), None
        await local.put(Question({"model": "m"}, "p"), "one")
        cluster = AnswerCache(path, one_host=False)
        await cluster.put(Question({"model": "m"}, "q"), "two")
        found = await local.get(Question({"model": "m"}, "q")), await cluster.get(Question({"model": "m"}, "p"))
        await local.close()
        await cluster.close()
        return found

    assert asyncio.run(both()) == ("two", "one")
