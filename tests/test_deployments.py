"""prefect.yaml: every deployment names a flow that exists, with parameters it takes, and the study is a form."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import yaml
from prefect import Flow
from prefect.utilities.callables import parameter_schema

from flows.reproduce import reproduce
from flows.sweep import sweep

ROOT = Path(__file__).parents[1]
DEPLOYMENTS = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]


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


@pytest.mark.parametrize("flow", [reproduce, sweep], ids=lambda flow: flow.name)
def test_the_study_is_a_form_with_types_and_bounds(flow):
    schema = parameter_schema(flow)
    assert schema.properties["study"]["$ref"] == "#/definitions/Study"
    assert {"name", "policy", "rl", "arms", "services"} <= set(schema.definitions["Study"]["properties"])
    assert schema.definitions["RlConfig"]["properties"]["group_size"]["minimum"] == 2
