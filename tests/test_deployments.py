"""prefect.yaml on a server: every deployment registers with its form and schedules, and a worker runs what is scheduled."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
import yaml
from prefect import Flow
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools import is_valid_schema, validate

from slca_core.config import ARMS, load_study
from slca_core.estimators import ESTIMATORS
from slca_core.services.process import start, stop
from tests.scripted import finish, write_study

ROOT = Path(__file__).parents[1]
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
def api(prefect_api):
    with httpx.Client(base_url=prefect_api, trust_env=False, timeout=60) as client:
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


@pytest.mark.e2e
def test_a_scheduled_sweep_appears_and_a_worker_completes_it(prefect_api, api, deployed, tmp_path):
    """Every step has its record, so that the run takes seconds; only the schedule starts it."""
    told = tmp_path / "told.json"
    path = write_study(tmp_path, seeds=[1, 2], notify={"command": ["tee", str(told)]})
    finish(load_study(path))
    deployment = deployed["sweep"]["id"]
    due = datetime.now(UTC) + timedelta(seconds=10)
    once = {"rrule": f"DTSTART:{due:%Y%m%dT%H%M%SZ}\nRRULE:FREQ=DAILY;COUNT=1"}
    schedule = {"active": True, "schedule": once, "parameters": {"study_file": str(path), "seeds": [1, 2]}}
    assert api.post(f"/deployments/{deployment}/schedules", json=[schedule]).status_code == 201
    env = {"PREFECT_API_URL": prefect_api, "PREFECT_WORKER_QUERY_SECONDS": "1"}
    worker = start([*PREFECT, "worker", "start", "--pool", "local"], tmp_path / "worker.log", env)
    try:
        run = ended_run(api, deployment, timeout_s=300)
    finally:
        stop(worker)
    assert (run["state_name"], run["auto_scheduled"]) == ("Completed", True), (tmp_path / "worker.log").read_text()
    news = json.loads(told.read_text())
    assert (news["study"], news["flow_run"], news["state"]) == ("scripted", run["name"], "completed")
    assert Path(news["report"]).is_file()


def ended_run(api: httpx.Client, deployment: str, timeout_s: float) -> dict:
    """The deployment's first run, once it has ended."""
    until = time.monotonic() + timeout_s
    wanted = {"deployments": {"id": {"any_": [deployment]}}}
    while time.monotonic() < until:
        runs = api.post("/flow_runs/filter", json=wanted).json()
        if runs and runs[0]["end_time"]:
            return runs[0]
        time.sleep(1)
    raise AssertionError(f"no run of the deployment ended within {timeout_s:.0f} s; its runs: {runs}")
