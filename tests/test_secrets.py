"""Secrets: wherever a user may put one, it is used where it is needed and lies nowhere."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import yaml
from pydantic import ValidationError

from slca_core import secrets
from slca_core.benchmarks.tau2 import SCRIPT
from slca_core.benchmarks.worker import Worker
from slca_core.config import REPOSITORY, JudgeConfig, RayJobLauncher, SlurmLauncher, Study, load_study
from slca_core.errors import ConfigError, ServiceError
from slca_core.services.client import ChatClient
from slca_core.services.frozen import identity
from slca_core.services.usage import Usage
from tasks.secrets import at_hand, resolved
from tasks.standalone import endpoint
from tests.support.secret_run import Service, leaks

STUDY = {
    "name": "private",
    "arms": ["slca"],
    "data": {"generated": {"count": 120}, "test_size": 8, "sft_fraction": 0.6},
    "policy": {"scratch": {}},
    "sft": {"max_length": 40000, "batch_size": 4, "micro_batch_size": 4},
    "rl": {
        **{"updates": 2, "checkpoint_every": 1, "prompts_per_update": 4, "minibatch_prompts": 4, "group_size": 4},
        **{"max_length": 40000, "response_tokens": 4000, "observation_tokens": 1000, "turn_tokens": 1000},
    },
}
# Marker of each place -> what is in this process's environment.
KEPT = {
    "JUDGE_USER": "mk-judge-user",
    "JUDGE_PASSWORD": "mk-judge+password",
    "MOCKER_KEY": "mk-mocker-key",
    "EXTRA": "mk-extra-env",
}
GIVEN = ("mk-query", "mk-path", "mk-login", "mk-argument", "mk-extra-given", "mk-checker-key", "mk-in-file")


def settings(port: int) -> list[str]:
    """Every place, by reference or directly, as options of the command line."""
    external = f"managed: external, url: 'http://127.0.0.1:{port}/v1'"
    judge = f"managed: external, url: 'http://${{env:JUDGE_USER}}:${{env:JUDGE_PASSWORD}}@127.0.0.1:{port}/v1', model: j"
    hook = f"http://me:mk-login@127.0.0.1:{port}/hook/mk-path?token=mk-query"
    extra = "{note: mk-extra-given, safe: {deep: ['${env:EXTRA}']}, reasoning_effort: low}"
    return [
        f"notify={{url: '{hook}', command: [{sys.executable}, -c, 'import sys; sys.stdin.read()', mk-argument]}}",
        f"services.judge={{{judge}, extra_body: {{session_key: mk-in-file}}}}",
        f"services.mocker={{{external}, model: m, api_key_env: MOCKER_KEY, extra_body: {extra}}}",
        f"services.checker={{{external}, model: c, api_key: mk-checker-key}}",
        "services.failure_limit=1",
    ]


def slca(study: Path, port: int) -> subprocess.CompletedProcess:
    options = [part for setting in settings(port) for part in ("--set", setting)]
    argv = [sys.executable, "-m", "tests.support.secret_run", "run", str(study), *options]
    env = {**os.environ, **KEPT}
    return subprocess.run(argv, cwd=REPOSITORY, env=env, capture_output=True, text=True, timeout=900, check=False)


@pytest.mark.e2e
def test_what_a_user_keeps_secret_lies_nowhere_below_the_root_of_a_run(tmp_path):
    study, service = tmp_path / "study.yaml", Service()
    study.write_text(yaml.safe_dump({**STUDY, "root": str(tmp_path / "state")}))
    with service.listening() as port:
        done = slca(study, port)
    assert done.returncode == 0, done.stderr
    assert leaks(tmp_path / "state", [*KEPT.values(), *GIVEN, "bWstanVkZ2"]) == set()
    assert not [marker for marker in (*KEPT.values(), *GIVEN) if marker in done.stdout + done.stderr]
    keys = {key for key, _ in service.seen}
    assert keys == {"Bearer mk-mocker-key", "Basic bWstanVkZ2UtdXNlcjptay1qdWRnZStwYXNzd29yZA=="}
    assert {body.get("note") for _, body in service.seen} == {"mk-extra-given", None}
    assert all(body["safe"] == {"deep": ["mk-extra-env"]} for _, body in service.seen if "note" in body)
    assert [(path, body["state"]) for path, _, body in service.news] == [("/hook/mk-path?token=mk-query", "completed")]


@pytest.fixture
def environment(monkeypatch):
    for name, value in KEPT.items():
        monkeypatch.setenv(name, value)


def test_a_reference_stands_for_its_value_wherever_it_is_in_nested_settings(environment):
    assert secrets.resolve({"a": ["x ${env:EXTRA}", 1], "b": "${env:EXTRA}"}, "mocker") == {
        "a": ["x mk-extra-env", 1],
        "b": "mk-extra-env",
    }


@pytest.mark.parametrize(
    ("text", "sentence"), [("${env:}", "name an environment variable"), ("${secret:A B}", "name a Prefect block")]
)
def test_a_reference_to_nothing_is_refused_when_the_study_is_read(text, sentence):
    with pytest.raises(ValidationError, match=sentence):
        JudgeConfig(extra_body={"a": {"b": text}})


def test_what_is_kept_elsewhere_bears_on_no_identity_and_what_is_given_directly_by_its_digest(environment):
    plain, referring = JudgeConfig(), JudgeConfig(extra_body={"meta": {"key": "${env:EXTRA}"}})
    one, other = (JudgeConfig(extra_body={"session": value}) for value in ("mk-one", "mk-other"))
    assert identity(referring) == identity(plain)
    assert identity(one) != identity(other)
    assert "mk-one" not in str(identity(one))
    assert identity(JudgeConfig(extra_body={"reasoning_effort": "low"}))["extra_body"] == {"reasoning_effort": "low"}


def test_a_study_goes_through_json_with_references_and_through_python_with_values():
    given = {"notify": {"url": "https://h/mk", "command": ["curl", "-H", "mk"]}, "services": {"judge": {"extra_body": {"a": "mk"}}}}
    study = Study.model_validate({**STUDY, **given})
    assert set(study.private) == {"notify.url", "notify.command.2", "services.judge.extra_body.a"}
    assert "mk" not in study.model_dump_json().replace("mk-", "")
    assert "https://h" not in repr(study)
    assert Study.model_validate(study.model_dump()) == study
    assert Study.model_validate_json(study.model_dump_json()).model_dump_json() == study.model_dump_json()


def test_a_local_run_has_what_was_given_directly_in_its_environment(monkeypatch):
    monkeypatch.setattr("os.environ", dict(os.environ))
    study = at_hand(Study.model_validate({**STUDY, "notify": {"url": "https://h/mk"}}))
    written = Study.model_validate_json(study.model_dump_json())
    assert resolved(written.notify) == ("https://h/mk", ())


def test_a_job_that_outlives_its_run_may_not_need_what_was_given_directly():
    launcher = {"kind": "cpu", "launcher": {"kind": "ray_job", "address": "http://h:8265"}}
    study = Study.model_validate({**STUDY, "machine": launcher, "services": {"judge": {"extra_body": {"a": "mk"}}}})
    with pytest.raises(ConfigError, match=r"services\.judge\.extra_body\.a: given directly, and a job \(ray_job\) does not have"):
        at_hand(study)


def test_an_error_of_a_study_repeats_nothing_private(tmp_path):
    path = tmp_path / "study.yaml"
    wrong = {
        "notify": {"url": "ftp://h/mk-1", "command": "mk-2"},
        "services": {"judge": {"api_key": 5, "extra_body": {"n": "mk-3"}}},
    }
    path.write_text(yaml.safe_dump({**STUDY, **wrong, "rl": {"updates": 0}}))
    with pytest.raises(ConfigError) as caught:
        load_study(path, ("services.mocker={managed: external, model: m, url: 'http://me:mk-4@h/v1?mk-5'}",))
    assert "mk-" not in str(caught.value)
    assert "services.mocker.url: user and password were expected by reference, e.g. https://${env:USER}" in str(caught.value)
    with pytest.raises(ValidationError) as raised:
        Study.model_validate({**STUDY, **wrong})
    assert "mk-" not in str(raised.value)


MIXED = {
    "notify": {"url": "https://h/mk/hook?x=${env:EXTRA}", "command": ["tell", "--key=mk${env:EXTRA}"]},
    "services": {"judge": {"extra_body": {"a": ["mk-given-${env:EXTRA}"]}}},
}


def test_what_stands_beside_a_reference_is_private_and_goes_by_a_reference_of_its_own(environment, monkeypatch):
    monkeypatch.setattr("os.environ", dict(os.environ))
    study = at_hand(Study.model_validate({**STUDY, **MIXED}))
    assert set(study.private) == {"notify.url", "notify.command.1", "services.judge.extra_body.a.0"}
    text = study.model_dump_json()
    assert "mk" not in text
    written = Study.model_validate_json(text)
    assert resolved(written.notify) == ("https://h/mk/hook?x=mk-extra-env", ("tell", "--key=mkmk-extra-env"))
    extra = written.services.judge.extra_body
    assert secrets.resolve(extra, "judge") == {"a": ["mk-given-mk-extra-env"]}
    assert secrets.hide("mk-given-mk-extra-env, mk-extra-env", secrets.values_of(extra)) == "***, ***"
    assert identity(written.services.judge) == identity(study.services.judge)
    monkeypatch.delenv("EXTRA")
    with pytest.raises(ConfigError, match="expected in the environment variable EXTRA"):
        secrets.resolve(extra, "judge")


@pytest.mark.parametrize(
    "text",
    [
        "${env:A}",
        "https://h:1/${env:A}",
        "https://${env:A}:${env:B}@h/",
        "Authorization: Bearer ${env:A}",
        "--key=${env:A}",
        "${env:A}:${env:B}",
    ],
)
def test_what_tells_nothing_may_stand_beside_a_reference(text):
    study = Study.model_validate({**STUDY, "notify": {"command": ["tell", text]}})
    assert study.private == {}
    assert study.model_dump(mode="json")["notify"]["command"] == ["tell", text]


@pytest.mark.parametrize("key", ["mk${env:A}", "${env:A}${env:B}", "Bearer ${env:A}"])
def test_a_key_is_one_reference_or_the_key_itself(key):
    with pytest.raises(ValidationError, match="one reference and nothing beside it was expected"):
        JudgeConfig(api_key=key)
    assert JudgeConfig(api_key="mk").model_dump(mode="json")["api_key"] == str(secrets.reference_to("mk"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[mk-1, mk-2", r"line 1, column \d+: expected ',' or '\]', but got '<stream end>'$"),
        ("'mk-1", r"line 1, column 6: found unexpected end of stream$"),
        ('"mk-1\\y"', r"line 1, column \d+: found unknown escape character 'y'$"),
        ("*mk-1", "an alias without an anchor"),
        ("&mk-1 [*mk-1]", "an alias in line 1 stands within itself"),
        ("!mk-1 a", "a text that begins with ! goes in quotes"),
        ("!mk!1 a", "a text that begins with ! goes in quotes"),
        ("mk-1: mk-2: 3", "mapping values are not allowed here"),
        ("{? [mk-1] : 2}", "a key, or a tag, that no setting has"),
        ("mk-1 \x01", "character 6 is none that YAML has"),
        ("[mk-1, 2001-99-99]", "line 1, column 8: a number or a date was expected, it is none"),
        ("!!int mk-89", "line 1, column 1: a number or a date was expected, it is none"),
    ],
    ids=ascii,
)
def test_a_fault_of_yaml_is_told_by_its_place_and_kind_and_repeats_nothing(tmp_path, text, sentence):
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(STUDY))
    with pytest.raises(
        ConfigError, match=rf"^The value of the override services\.judge\.api_key is not YAML: .*{sentence}"
    ) as override:
        load_study(path, (f"services.judge.api_key={text}",))
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"study\.yaml is not YAML: ") as file:
        load_study(path)
    assert not {"mk", "99", "89"} & {word for error in (override, file) for word in re.split(r"\W", str(error.value))}


@pytest.mark.parametrize("override", ["services.judge.api_key:mk", "services.judge.api_key: mk", "mk", "=mk", "name.api_key=mk"])
def test_an_override_that_is_none_is_not_repeated_beyond_its_setting(tmp_path, override):
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(STUDY))
    with pytest.raises(ConfigError, match=r"^(An|The) override") as raised:
        load_study(path, (override,))
    assert "mk" not in str(raised.value)


@pytest.mark.parametrize("wrong", ["study", "arm"])
def test_a_study_or_an_arm_that_cannot_be_read_is_a_sentence(monkeypatch, tmp_path, wrong):
    def refuse(path: Path, **_) -> str:
        if path.stem == wrong or (wrong == "arm" and path.stem == "slca"):
            raise PermissionError(13, "Permission denied")
        return yaml.safe_dump(STUDY)

    path = tmp_path / "study.yaml"
    path.write_text("")
    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(ConfigError, match=r"\.yaml was expected to be a file that can be read: Permission denied"):
        load_study(path)


@pytest.mark.parametrize(
    ("argument", "recorded"),
    [
        ("notify={url: 'https://h/x?t=mk'}", "notify=***"),
        ("--set=notify.url=https://h/mk", "--set=notify.url=***"),
        ("notify.url=https://h/${env:HOOK}", "notify.url=https://h/${env:HOOK}"),
        ("notify={url: '${env:HOOK}', command: [curl, mk]}", "notify=***"),
        ("services={judge: {extra_body: {a: mk}}}", "services=***"),
        ("services.judge.extra_body.a.b=mk", "services.judge.extra_body.a.b=***"),
        ("notify.url=https://h/mk?x=${env:A}", "notify.url=***"),
        ("--set=services.judge.extra_body.a=mk-${env:A}", "--set=services.judge.extra_body.a=***"),
        ("services.judge.api_key=mk${env:A}", "services.judge.api_key=***"),
        ("services.judge.url=https://${env:A}:mk@h/v1", "services.judge.url=https://***@h/v1"),
        ("services.judge.url=https://${env:A}:${env:B}@h/v1", "services.judge.url=https://${env:A}:${env:B}@h/v1"),
        ("services.judge.url=https://me:m/k@h/v1", "services.judge.url=https://***@h/v1"),
        ("--endpoint=https://h/v1?k=mk&x=${env:A}", "--endpoint=https://h/v1?***"),
        ("--endpoint=https://h/v1?x=${env:A}", "--endpoint=https://h/v1?x=${env:A}"),
        ("services.judge.api_key=mk", "services.judge.api_key=***"),
        ("services.judge.api_key_env=JUDGE_KEY", "services.judge.api_key_env=JUDGE_KEY"),
        ("services.judge.url=http://me:m@k@h:1/v1", "services.judge.url=http://***@h:1/v1"),
        ("--endpoint=https://me:mk@h/v1?k=mk#mk", "--endpoint=https://***@h/v1?***"),
        ("rl.updates=3", "rl.updates=3"),
    ],
)
def test_a_recorded_command_line_has_no_private_value(argument, recorded):
    assert secrets.hide_arguments(["slca", argument]) == ("slca", recorded)


def test_a_benchmark_gets_keys_in_its_environment_alone_and_writes_none_that_a_server_repeats(environment, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import importlib.util, json, os, sys\n"
        f"source = open({str(SCRIPT)!r}).read()\n"
        "names = {}\n"
        "for part in ('filled', 'hidden'):\n"
        "    start = source.index(f'def {part}(')\n"
        "    exec('import json, os, re\\n' + source[start:source.index('\\n\\n\\n', start)], names)\n"
        "raw = json.load(open(sys.argv[1])); job = names['filled'](raw)\n"
        "line = {'error': f\"401: {job['key']}\", 'sent': os.environ['EXTRA'], 'written': raw['key']}\n"
        "print('log:', job['key'])\n"
        "open(job['out'], 'w').write(names['hidden'](json.dumps(line)) + '\\n')\n"
    )
    worker = Worker("fake", script, Path(sys.executable))
    (line,) = worker.run(tmp_path, {"key": "Bearer ${env:EXTRA}"}, {"EXTRA": KEPT["EXTRA"]}, hidden={KEPT["EXTRA"]})
    assert line == {"error": "401: Bearer ***", "sent": "***", "written": "Bearer ${env:EXTRA}"}
    assert leaks(tmp_path, [KEPT["EXTRA"]]) == set()


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("https://h/api/paas/v4", "https://h/api/paas/v4"),
        ("https://h/api/paas/v4/", "https://h/api/paas/v4"),
        ("http://h:8000", "http://h:8000/v1"),
        ("http://h:8000/", "http://h:8000/v1"),
        ("http://h/v1", "http://h/v1"),
        ("http://[::1]:8000", "http://[::1]:8000/v1"),
    ],
)
def test_an_endpoints_path_is_kept_as_it_is_given_and_a_bare_host_gets_v1(url, asked):
    assert endpoint(url, "m").api_url == asked
    assert JudgeConfig(managed="external", model="m", url=url).url == asked


def test_the_login_of_an_endpoint_is_in_no_address_that_is_written(monkeypatch):
    monkeypatch.setattr("os.environ", dict(os.environ))
    server = endpoint("https://me:m%40k@h/api", "m")
    assert "me" not in server.api_url
    assert secrets.credentials(secrets.resolve(server.api_url, "endpoint")) == ("me", "m@k")


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("h:8000/v1", "http:// or https:// with a host was expected"),
        ("ftp://h/v1", "http:// or https:// with a host was expected"),
        ("http://", "http:// or https:// with a host was expected"),
        ("http://h..x/v1", "a host was expected whose labels have"),
        ("http://h h/v1", "http:// or https:// with a host was expected"),
        ("http://h:0/v1", "a port from 1 to 65535 was expected"),
        ("http://h:99999/v1", "a port from 1 to 65535 was expected"),
        ("http://h:port/v1", "a port from 1 to 65535 was expected"),
        ("http://me:mk@h/v1", "user and password were expected by reference"),
        ("http://${env:A}:mk@h/v1", "user and password were expected by reference"),
        ("http://mk${env:A}@h/v1", "user and password were expected by reference"),
        ("${env:A}:mk@h/v1", "http:// or https:// with a host was expected"),
        ("http://me:m/k@h/v1", "a host was expected behind user and password"),
        ("http://h/v1?key=mk", "an address without a query"),
        ("http://h/v1#x", "an address without a query"),
        ("http://${env:}@h/v1", "name an environment variable"),
    ],
)
def test_an_address_that_cannot_be_one_is_refused_when_the_study_is_read(url, sentence):
    with pytest.raises(ValidationError, match=sentence):
        JudgeConfig(managed="external", model="m", url=url)
    with pytest.raises(ValidationError):
        RayJobLauncher(address=url)


@pytest.mark.parametrize("login", [{"api_key": "${env:A}", "api_key_env": "A"}, {"url": "http://${env:A}@h", "api_key_env": "A"}])
def test_a_key_that_is_named_twice_is_refused(login):
    with pytest.raises(ValidationError, match="one of them was expected"):
        JudgeConfig(**{"managed": "external", "model": "m", "url": "http://h", **login})


def test_a_client_sends_what_references_stand_for_and_says_where_and_why_without_it(environment):
    def refuse(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(401, text=f"{request.headers['authorization']} {request.content.decode()} {KEPT['JUDGE_PASSWORD']}")

    sent: list[httpx.Request] = []
    url = "http://${env:JUDGE_USER}:${env:JUDGE_PASSWORD}@h:1/v1"
    config = JudgeConfig(managed="external", model="m", url=url, extra_body={"a": "${env:EXTRA}", "b": "mk-given"})
    chat = ChatClient("judge", url, config, transport=httpx.MockTransport(refuse))
    with pytest.raises(ServiceError) as raised:
        asyncio.run(chat.ask("Hi", Usage()))
    assert "mk-" not in str(raised.value)
    assert str(raised.value).startswith("The judge at http://h:1/v1 was expected to answer; after one try: HTTP 401: Basic ***")
    assert json.loads(sent[0].content) | {"messages": []} == {
        **{"model": "m", "messages": [], "temperature": 0.0, "max_tokens": 8192, "a": "mk-extra-env", "b": "mk-given"}
    }


def test_a_setup_line_of_a_job_may_not_write_a_secret_out():
    with pytest.raises(ValidationError, match="was expected to come from a file that the line sources"):
        SlurmLauncher(setup=("module load cuda", "export HF_TOKEN=mk"))
    assert SlurmLauncher(setup=(". ~/keys.sh", "export HF_TOKEN=$MINE", "KEYS=", "export OMP_NUM_THREADS=4"))
