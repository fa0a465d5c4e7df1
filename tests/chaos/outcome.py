"""What a finished study says, in a form that two runs of it can be compared by, and what must hold of any."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd

from slca_core.config import Study
from slca_core.records.json_lines import read_lines
from slca_core.records.store import RECORD


def tables(study: Study) -> dict[str, Any]:
    """The report's figures and every per-item result; times are left out."""
    report = json.loads((study.root / "reports" / study.name / "report.json").read_text())
    figures = {key: report[key] for key in ("rows", "columns", "values", "spread")}
    for row in figures["rows"]:
        row.pop("run_id", None)
    stored = (study.root / "artifacts" / "evaluate").glob("*/items.parquet")
    items = [
        pd.read_parquet(path).drop(columns="seconds").to_dict("list")
        for path in sorted(stored, key=lambda path: _identity(path.parent))
    ]
    return {"figures": figures, "items": items}


def checkpoints(study: Study) -> dict[str, str]:
    """Identity of a step -> digest of what it made."""
    return {
        _identity(path.parent): json.loads(path.read_text())["output_digest"]
        for path in (study.root / "artifacts").glob(f"*/*/{RECORD}")
    }


def _identity(folder: Path) -> str:
    """Of a step's folder; the name before it is that of whoever asked for the step first."""
    return folder.name.rpartition("-")[2]


def check_books(study: Study, updates: int) -> None:
    """Each policy update is in the metrics file once, and in MLflow once."""
    for folder in (study.root / "artifacts" / "train").iterdir():
        assert [line["update"] for line in read_lines(folder / "metrics.jsonl")] == list(range(1, updates + 1)), folder
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{study.root.resolve() / 'mlflow.db'}")
    experiment = client.get_experiment_by_name(study.name)
    runs = client.search_runs([experiment.experiment_id])
    identities = Counter((run.data.tags.get("slca.identity"), run.data.tags.get("slca.condition")) for run in runs)
    assert max(identities.values()) == 1, "a step has two runs in MLflow"
    for run in runs:
        if run.data.tags.get("slca.step") == "train":
            steps = [point.step for point in client.get_metric_history(run.info.run_id, "r_tool")]
            assert steps == list(range(1, updates + 1)), run.info.run_name
            assert run.info.status == "FINISHED"
