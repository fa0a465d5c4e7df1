"""What Prefect's pages show of a run: plan, status, progress and report."""

from __future__ import annotations

import json
import time

import httpx
import pytest
from prefect import flow, task
from prefect.artifacts import Artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey

from flows.reproduce import reproduce
from slca_core.config import load_study
from slca_core.reporting.report import ReportPaths
from tasks.orchestration import pages
from tasks.orchestration.progress import bar
from tasks.report import report_paths
from tests.support.scripted import finish, write_study


@pytest.fixture
def study(tmp_path):
    """Named by its folder, so that no test meets another's artifacts."""
    return load_study(write_study(tmp_path, name="s." + tmp_path.name.replace("_", "-")))


def key(kind: str, study) -> str:
    return f"{kind}-{study.name}".replace(".", "-")


def read(kind: str, study) -> list[dict]:
    return json.loads(Artifact.get(key(kind, study)).data)


def versions(name: str) -> int:
    with get_client(sync_client=True) as client:
        return len(client.read_artifacts(artifact_filter=ArtifactFilter(key=ArtifactFilterKey(any_=[name]))))


def test_the_reproduction_shows_its_plan_its_status_and_its_report(prefect_server, study):
    finish(study)
    paths = reproduce(study)
    plan = {row["step"]: row["state"] for row in read("plan", study)}
    assert plan["train slca, seed 1"] == "cached"
    assert {row["state"] for row in read("status", study)} == {"done"}
    rows = {row["condition"]: row for row in read("report", study)}
    assert rows["SLCA-GRPO"]["Success@0.9 (process)"] == "50.0 %"
    assert str(paths.html) in Artifact.get(key("report", study)).description


def test_the_status_is_one_artifact_written_again_as_steps_finish(prefect_server, study, monkeypatch):
    monkeypatch.setattr(pages, "STATUS_EVERY_S", 0.05)
    seen: list[str] = []

    def wait_for(description: str) -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            found = Artifact.get(key("status", study))
            if found and found.description == description:
                seen.append(description)
                return
            time.sleep(0.1)

    @flow
    @pages.published
    def run(study) -> ReportPaths:
        wait_for("0 of 10 steps done")
        finish(study)
        wait_for("10 of 10 steps done")
        return report_paths(study)

    run(study)
    assert seen == ["0 of 10 steps done", "10 of 10 steps done"]
    assert versions(key("status", study)) == 1


def test_a_bar_of_a_task_is_a_progress_artifact_too(prefect_server):
    @task
    def train():
        with bar("train slca seed 7", total=4) as update:
            for done in range(1, 5):
                update(completed=done, note=f"R_tool 0.{done}")

    flow(lambda: train())()
    found = Artifact.get("train-slca-seed-7")
    assert (found.type, found.data) == ("progress", 100.0)
    assert found.description == "train slca seed 7  R_tool 0.4"


def test_pages_that_cannot_be_written_do_not_stop_the_run(prefect_server, study, monkeypatch):
    def refuse(*_, **__):
        raise httpx.ConnectError("the server went away")

    monkeypatch.setattr(pages, "create_table_artifact", refuse)
    assert flow(pages.published(lambda study: report_paths(study)))(study) == report_paths(study)
    assert Artifact.get(key("status", study)) is None


def test_without_a_server_of_its_own_a_run_writes_no_pages(study, monkeypatch):
    monkeypatch.setattr(pages, "make_plan", pytest.fail)
    assert pages.published(report_paths)(study) == report_paths(study)
