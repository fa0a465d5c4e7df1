"""What the README shows runs: its Python example as it stands, its study fragment as a study."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import yaml

from slca_core.config import Study

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def example(language: str) -> str:
    (block,) = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    return block


def test_a_new_estimator_takes_the_lines_the_readme_says():
    printed = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", example("python")], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    # The z-scores of a pair are +-0.7071: tool tokens carry z(tool) + z(summary) / 2, summary tokens z(summary).
    assert [float(number) for number in re.findall(r"-?\d+\.\d+", printed)] == [
        0.3536,
        0.3536,
        0,
        -0.7071,
        -0.3536,
        0,
        0.7071,
        0.7071,
    ]


def test_the_same_estimator_is_an_arm_of_a_study():
    study = Study.model_validate({"name": "readme", "policy": {"scratch": {}}, **yaml.safe_load(example("yaml"))})
    assert [arm.name for arm in study.arms] == ["slca", "half"]
    assert study.arms[1].estimator.routing == ((1.0, 0.5), (0.0, 1.0))
