"""prefect.yaml on a server: every deployment registers with its form and schedules, and a worker runs what is scheduled."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import psutil
import pytest
import yaml
from prefect import Flow
from prefect.blocks.system import Secret
from prefect.client.base import PrefectHttpxSyncClient
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools import is_valid_schema, validate

from slca_core.config import ARMS, Study, load_study
from slca_core.credit.estimators import ESTIMATORS
from slca_core.errors import ConfigError
from slca_core.processes.supervise import start, stop
from tasks.secrets import at_hand, kept, refuse_overrides, resolved
from tests.support.scripted import finish, write_study
from tests.support.secret_run import Service, leaks
from tests.test_secrets import STUDY

ROOT = Path(__file__).parents[2]
DEPLOYMENTS = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
STUDIES = sorted((ROOT / "configs" / "studies").glob("*.yaml"))
PREFECT = (sys.executable, "-m", "prefect")


def flow_of(deployment: dict) -> Flow:
    path, name = deployment["entrypoint"].split(":")
    return getattr(importlib.import_module(path.removesuffix(".py").replace("/", ".")), name)


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda deployment: deployment["name"])
def test_a_deployment_names_a_flow_and_parameters_it_takes(deployment):
    flow = flow_of(deployment)
    given = deployment.get("parameters", {})
    assert set(given) <= set(parameter_schema(flow).properties)
    if "study_file" in given:
        assert flow.validate_parameters(given)["study_file"] == given["study_file"]
        assert (ROOT / given["study_file"]).is_file()


def test_the_reproduction_the_sweep_and_a_nightly_smoke_are_deployed_the_last_two_on_a_schedule():
    schedules = {deployment["name"]: deployment.get("schedules", []) for deployment in DEPLOYMENTS}
    assert {"reproduce", "sweep", "nightly-smoke"} <= set(schedules)
    assert all(schedules[name][0]["cron"] for name in ("sweep", "nightly-smoke"))


@pytest.fixture(scope="module")
def api(prefect_api) -> Iterator[httpx.Client]:
    """It asks again where a busy database makes the server say 503."""
    with PrefectHttpxSyncClient(base_url=prefect_api, timeout=60, raise_on_all_errors=False) as client:
        yield client


@pytest.fixture(scope="module")
def deployed(prefect_api, api) -> dict[str, dict]:
    """What the server has after the commands that prefect.yaml opens with: name -> deployment."""
    for command in (("work-pool", "create", "--type", "process", "local"), ("--no-prompt", "deploy", "--all")):
        env = {**os.environ, "PREFECT_API_URL": prefect_api}
        done = subprocess.run([*PREFECT, *command], cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return {deployment["name"]: deployment for deployment in api.post("/deployments/filter", json={}).json()}


@pytest.fixture
def study_schema(deployed) -> dict:
    return deployed["reproduce"]["parameter_openapi_schema"]


def test_every_deployment_is_registered_as_declared(deployed):
    assert set(deployed) == {deployment["name"] for deployment in DEPLOYMENTS}
    for declared in DEPLOYMENTS:
        found = deployed[declared["name"]]
        assert found["entrypoint"] == declared["entrypoint"]
        assert found["parameters"] == declared.get("parameters", {})
        schedules = [(one["schedule"]["cron"], one["schedule"]["timezone"], one["active"]) for one in found["schedules"]]
        assert schedules == [(one["cron"], one["timezone"], one["active"]) for one in declared.get("schedules", [])]
        assert is_valid_schema(found["parameter_openapi_schema"]) is None


def test_the_study_is_a_form_with_types_bounds_and_choices(study_schema):
    assert study_schema["properties"]["study"]["$ref"] == "#/definitions/Study"
    models = study_schema["definitions"]
    assert {"name", "policy", "rl", "arms", "services", "machine", "notify"} <= set(models["Study"]["properties"])
    assert models["RlConfig"]["properties"]["group_size"]["minimum"] == 2
    assert all(key == field["title"] for model in ("Study", "RlConfig") for key, field in models[model]["properties"].items())
    name, arm = models["Study"]["properties"]["arms"]["items"]["anyOf"]
    assert name["enum"] == sorted(path.stem for path in ARMS.glob("*.yaml"))
    assert arm == {"$ref": "#/definitions/Arm"}
    assert models["Arm"]["properties"]["estimator"]["anyOf"][0]["enum"] == sorted(ESTIMATORS)


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_the_form_takes_every_study_that_ships_as_its_file_says_it(study_schema, path):
    assert validate({"study": yaml.safe_load(path.read_text())}, study_schema) == []


def test_the_server_refuses_an_unknown_arm_by_name(api, deployed):
    study = {"name": "toy", "policy": {"scratch": {}}, "arms": ["slca", "slka"]}
    answer = api.post(f"/deployments/{deployed['reproduce']['id']}/create_flow_run", json={"parameters": {"study": study}})
    assert answer.status_code == 409
    assert "'slka' is not one of" in answer.json()["detail"]


@pytest.fixture(scope="module")
def worker(prefect_api, deployed, tmp_path_factory) -> Iterator[subprocess.Popen]:
    env = {"PREFECT_API_URL": prefect_api, "PREFECT_WORKER_QUERY_SECONDS": "1", "MOCKER_KEY": "mk-of-the-worker"}
    log = tmp_path_factory.mktemp("worker") / "worker.log"
    process = start([*PREFECT, "worker", "start", "--pool", "local"], log, env)
    yield process
    stop(process)


@pytest.mark.e2e
def test_a_scheduled_sweep_appears_and_a_worker_completes_it(api, deployed, worker, tmp_path):
    """Every step has its record, so that the run takes seconds; only the schedule starts it."""
    told = tmp_path / "told.json"
    path = write_study(tmp_path, seeds=[1, 2], notify={"command": ["tee", str(told)]})
    finish(load_study(path))
    deployment = deployed["sweep"]["id"]
    due = datetime.now(UTC) + timedelta(seconds=10)
    once = {"rrule": f"DTSTART:{due:%Y%m%dT%H%M%SZ}\nRRULE:FREQ=DAILY;COUNT=1"}
    schedule = {"active": True, "schedule": once, "parameters": {"study_file": str(path), "seeds": [1, 2]}}
    assert api.post(f"/deployments/{deployment}/schedules", json=[schedule]).status_code == 201

    def ended() -> list[dict]:
        runs = api.post("/flow_runs/filter", json={"deployments": {"id": {"any_": [deployment]}}}).json()
        return [run for run in runs if run["end_time"]]

    (run,) = until(ended)
    assert (run["state_name"], run["auto_scheduled"]) == ("Completed", True)
    # Hooks begin once the run has its last state.
    news = json.loads(until(lambda: told.exists() and told.read_text()))
    assert (news["study"], news["flow_run"], news["state"]) == ("scripted", run["name"], "completed")
    assert Path(news["report"]).is_file()


@pytest.mark.e2e
def test_of_a_run_whose_process_is_killed_the_worker_tells(api, deployed, worker, tmp_path):
    told = tmp_path / "told.json"
    endless = {"generated": {"count": 10**7}}
    path = write_study(tmp_path, name="killed", data=endless, notify={"command": ["tee", str(told)]})
    wanted = {"parameters": {"study_file": str(path)}, "state": {"type": "SCHEDULED"}}
    run = api.post(f"/deployments/{deployed['reproduce-file']['id']}/create_flow_run", json=wanted).json()
    until((tmp_path / "state" / "artifacts").exists)
    for process in psutil.Process(worker.pid).children(recursive=True):
        if process.environ().get("PREFECT__FLOW_RUN_ID") == run["id"]:
            process.kill()
    news = json.loads(until(lambda: told.exists() and told.read_text()))
    assert (news["study"], news["state"]) == ("killed", "crashed")
    assert "-9" in news["message"]


@pytest.fixture(scope="module")
def scripted(api, deployed) -> str:
    """The id of a deployment of the reproduction whose training is scripted."""
    kept = ("flow_id", "work_pool_name", "path", "pull_steps", "parameter_openapi_schema", "enforce_parameter_schema")
    values = {name: deployed["reproduce"][name] for name in kept}
    made = api.post(
        "/deployments/", json={**values, "name": "scripted", "entrypoint": "tests/support/secret_deployment.py:reproduce"}
    )
    return made.json()["id"]


def private_study(root: Path, port: int, **services: dict) -> dict:
    external = {"managed": "external", "url": f"http://127.0.0.1:{port}", "model": "m"}
    asked = {"judge": {**external, "api_key": "${secret:judge-key}"}, "mocker": {**external, "api_key": "${env:MOCKER_KEY}"}}
    return {**STUDY, "root": str(root), "services": {role: {**asked[role], **services.get(role, {})} for role in asked}}


@pytest.mark.e2e
def test_a_deployed_study_has_its_keys_from_the_workers_environment_and_from_a_secret_block(
    api, prefect_api, scripted, worker, tmp_path
):
    service = Service(echoes=0)
    with temporary_settings({PREFECT_API_URL: prefect_api}):
        Secret(value="mk-in-a-block").save("judge-key", overwrite=True, _sync=True)
    with service.listening() as port:
        asked = {"parameters": {"study": private_study(tmp_path, port)}, "state": {"type": "SCHEDULED"}}
        run = api.post(f"/deployments/{scripted}/create_flow_run", json=asked).json()["id"]
        ended = until(lambda: (found := api.get(f"/flow_runs/{run}").json())["end_time"] and found)
    assert ended["state_name"] == "Completed", ended["state"]["message"]
    assert {key for key, _ in service.seen} == {"Bearer mk-of-the-worker", "Bearer mk-in-a-block"}
    assert leaks(tmp_path, ["mk-of-the-worker", "mk-in-a-block"]) == set()


def test_a_deployment_refuses_a_key_that_is_given_directly_before_the_server_keeps_it(api, scripted, tmp_path):
    study = private_study(tmp_path, 9, judge={"api_key": "mk-given"})
    answer = api.post(f"/deployments/{scripted}/create_flow_run", json={"parameters": {"study": study}})
    assert answer.status_code == 409
    assert "does not match" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("study", "place"),
    [
        ({"notify": {"command": ["curl", "-H", "X-Key: mk"]}}, "notify.command.2"),
        ({"services": {"judge": {"extra_body": {"session": "mk"}}}}, "services.judge.extra_body.session"),
        ({"services": {"user": {"extra_body": {"provider": {"api_key": "mk"}}}}}, "services.user.extra_body.provider.api_key"),
    ],
)
def test_a_deployment_refuses_what_may_be_a_secret_with_a_sentence(monkeypatch, study, place):
    given = Study.model_validate({**STUDY, **study})
    monkeypatch.setattr("tasks.secrets.deployment", SimpleNamespace(id="d"))
    with pytest.raises(ConfigError, match=rf"^{place}: given directly to a deployment, .* Name it as \$\{{env:NAME\}}"):
        at_hand(given)


def test_a_deployed_study_file_may_hold_what_its_overrides_may_not_bring(monkeypatch, tmp_path):
    path = write_study(tmp_path, notify={"url": "https://hooks.test/mk"})
    monkeypatch.setattr("tasks.secrets.deployment", SimpleNamespace(id="d"))
    refuse_overrides(lambda some: load_study(path, some), ("rl.clip=0.1",))
    with pytest.raises(ConfigError, match=r"^notify\.url: given directly to a deployment"):
        refuse_overrides(lambda some: load_study(path, some), ("notify.url=https://hooks.test/other",))


def test_what_a_deployed_study_file_holds_goes_on_by_reference_and_is_not_refused(monkeypatch, tmp_path):
    monkeypatch.setattr("os.environ", dict(os.environ))
    monkeypatch.setattr("tasks.secrets.deployment", SimpleNamespace(id="d"))
    study = kept(load_study(write_study(tmp_path, notify={"command": ["tee", "/told"]})))
    assert resolved(at_hand(study).notify) == (None, ("tee", "/told"))


def test_a_value_that_stayed_where_a_run_was_asked_for_is_missed_with_a_sentence():
    """As a client of Prefect's sends a study that it has as a value."""
    sent = Study.model_validate_json(Study.model_validate({**STUDY, "notify": {"url": "https://hooks.test/mk"}}).model_dump_json())
    with pytest.raises(
        ConfigError, match=r"A value for private was given directly where this run was asked for, and does not travel"
    ):
        at_hand(sent)


def test_a_block_that_is_not_there_is_named(prefect_server):
    with pytest.raises(ConfigError, match="A Prefect Secret block called nowhere was expected at http"):
        at_hand(Study.model_validate({**STUDY, "notify": {"url": "${secret:nowhere}"}}))


def until(condition: Callable[[], Any], timeout_s: float = 300) -> Any:
    """What the condition gives, once it gives something."""
    over = time.monotonic() + timeout_s
    while time.monotonic() < over:
        if found := condition():
            return found
        time.sleep(0.5)
    raise AssertionError(f"{condition} did not come about within {timeout_s:.0f} s")
