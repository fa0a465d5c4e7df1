"""The bounds of a study's settings, the numbers of YAML and the paths at home: refused or read when the study is, all at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel

from slca_core import config
from slca_core.config import Frozen, JudgeConfig, Scheduler, Study, load_study
from slca_core.errors import ConfigError

MINIMAL = {"name": "tiny", "policy": {"scratch": {}}}
SERVED = {"checkpoint": "c", "max_model_len": 1, "max_num_seqs": 1, "gpu_memory": 0.5}


@pytest.fixture
def load(tmp_path):
    def read(*overrides: str, **settings: Any) -> Study:
        path = tmp_path / "study.yaml"
        path.write_text(yaml.safe_dump({**MINIMAL, **settings}))
        return load_study(path, overrides)

    return read


# Setting -> values out of its bounds, and what the sentence on it says.
OUTSIDE = {
    "rl.temperature": ([-1, 0], "greater than 0"),
    "rl.learning_rate": ([0, -1e-6, 2], ""),
    "rl.micro_batch_size": ([0, -1], "greater than or equal to 1"),
    "rl.warmup_ratio": ([-0.1, 1.1], ""),
    "rl.scheduler": (["cosinus", "reduce_lr_on_plateau"], "'constant'"),
    "rl.betas": ([[1.0, 0.9], [-0.1, 0.9]], ""),
    "rl.kl_coef": ([-0.1], ""),
    "rl.clip": ([0, -0.2, 1.5], ""),
    "rl.dual_clip": ([1, 0], "greater than 1"),
    "rl.max_length": ([0], ""),
    "rl.eps": ([0, -1], ""),
    "rl.omission_penalty": ([0, 0.5], "less than 0"),
    "sft.learning_rate": ([0, -1], "greater than 0"),
    "sft.batch_size": ([0], ""),
    "sft.micro_batch_size": ([0], ""),
    "sft.max_length": ([0], ""),
    "sft.warmup_ratio": ([-1, 2], ""),
    "sft.min_lr_ratio": ([-1, 2], ""),
    "sft.scheduler": (["none"], ""),
    "sft.betas": ([[0.9, 1.0]], "less than 1"),
    "sft.seed": ([-1, 2**32], ""),
    "seeds": ([[-1]], ""),
    "policy.scratch.layers": ([-3, 0], "greater than or equal to 1"),
    "policy.scratch.heads": ([0], ""),
    "policy.scratch.hidden_size": ([0, -32], ""),
    "policy.scratch.intermediate_size": ([0], ""),
    "policy.scratch.initializer_range": ([0, 2], ""),
    "policy.scratch.vocab_size": ([1], ""),
    "services.judge.temperature": ([-0.1], ""),
    "services.judge.extra_body": ([{"top_p": 0}, {"top_p": 1.5}], "top_p was expected to be a number above 0, at most 1"),
    "services.mocker.extra_body": ([{"min_p": "lots"}, {"min_p": -1}], "min_p was expected to be a number from 0 to 1"),
    "services.checker.extra_body": ([{"max_tokens": 5}, {"stream": True}], "is a setting of the service, or none it can have"),
    "services.user.extra_body": ([{"seed": float("inf")}], "nan and infinity are none"),
    "services.unread_limit": ([-0.1, 1.1], ""),
    "services.failure_limit": ([-0.1, 1.1], ""),
    "services.judge.deployment": ([{**SERVED, "devices": [-1]}, {**SERVED, "devices": [1, 1]}, {**SERVED, "gpu_memory": 0}], ""),
    "evaluation.toucan_test.temperature": ([-1], ""),
    "evaluation.toucan_test.concurrency": ([0], ""),
    "evaluation.bfcl": ([{"max_tokens": 0}, {"concurrency": 0}], ""),
    "evaluation.tau2": ([{"temperature": -1}, {"seed": -1}, {"trials": 0}], ""),
    "machine": (
        [{"kind": "gpu", name: 0} for name in ("actor_nodes", "actor_gpus_per_node", "vllm_engines", "vllm_tensor_parallel")]
        + [{"kind": "gpu", "gpu_memory": 1.5}, {"kind": "cpu", "threads": 0}],
        "",
    ),
    "machine.launcher": ([{"kind": "slurm", "time": "tomorrow"}, {"kind": "ray_job", "address": "http://h:0"}], ""),
    "arms": ([[{"name": "a", "title": "A", "estimator": "slca", "lambda_tool": -1}]], ""),
}


@pytest.mark.parametrize(
    ("setting", "value", "sentence"), [(key, one, text) for key, (values, text) in OUTSIDE.items() for one in values]
)
def test_a_value_out_of_its_bounds_is_refused_with_the_range(load, setting, value, sentence):
    with pytest.raises(ConfigError) as caught:
        load(f"{setting}={yaml.safe_dump(value, default_flow_style=True).removesuffix('...' + chr(10))}")
    assert setting.split(".")[0] in str(caught.value)
    assert sentence in str(caught.value)


def test_all_that_is_out_of_bounds_is_refused_at_once(load):
    wrong = {"rl.temperature": -1, "rl.learning_rate": 0, "sft.micro_batch_size": 0, "rl.scheduler": "cosinus"}
    with pytest.raises(ConfigError, match="has 4 errors") as caught:
        load(*(f"{key}={value}" for key, value in wrong.items()))
    assert all(f"  - {key}: " in str(caught.value) for key in wrong)


def numbers_of(model: type[BaseModel], place: str = "") -> dict[str, bool]:
    """Setting -> whether its JSON schema has a bound for a number in it."""
    found: dict[str, bool] = {}
    schema = model.model_json_schema()["properties"]
    for name, field in schema.items():
        parts = [
            field,
            *field.get("anyOf", []),
            *field.get("prefixItems", []),
            *([field["items"]] if isinstance(field.get("items"), dict) else []),
        ]
        numeric = [part for part in parts if part.get("type") in ("integer", "number")]
        if numeric:
            found[f"{place}{name}"] = all(
                any(bound in part for bound in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")) for part in numeric
            )
    return found


MODELS = [
    one
    for one in vars(config).values()
    if isinstance(one, type) and issubclass(one, Frozen) and one is not Frozen and one.__module__ == config.__name__
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_number_of_a_study_has_a_bound(model):
    unbounded = [name for name, bounded in numbers_of(model).items() if not bounded]
    assert set(unbounded) <= {"seed"}, f"{model.__name__} has numbers without a bound"
    if "seed" in unbounded:
        assert model.__name__ in ("DataConfig", "DataSettings", "GeneratedData")  # They are hashed, whatever they are.


@pytest.mark.parametrize("name", get_args(Scheduler))
def test_every_scheduler_of_a_study_works_with_what_stock_training_gives_it(name):
    import torch
    from transformers.optimization import get_scheduler

    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=1e-3)
    own = {"min_lr_rate": 0.0} if name in ("cosine_with_min_lr", "cosine_warmup_with_min_lr") else {}
    scheduler = get_scheduler(name, optimizer, num_warmup_steps=1, num_training_steps=10, scheduler_specific_kwargs=own)
    for _ in range(10):
        optimizer.step()
        scheduler.step()
    assert 0 <= scheduler.get_last_lr()[0] <= 1e-3


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-2", 0.01),
        ("1E3", 1000.0),
        ("-2e+1", -20.0),
        (".5e1", 5.0),
        *(("1_000", 1000), ("0x10", 16), ("+7", 7), ("0", 0), ("-.5", -0.5), ("1.", 1.0)),
        ("1.e2", 100.0),
        ("1.5e-6", 1.5e-6),
        ("0.25", 0.25),
        ("3", 3),
    ],
)
def test_a_number_in_scientific_notation_is_one_in_files_and_overrides(load, tmp_path, text, value):
    found = load(f"services.judge.extra_body={{x: {text}}}").services.judge.extra_body["x"]
    assert (found, type(found)) == (value, type(value))
    path = tmp_path / "other.yaml"
    path.write_text(f"name: t\npolicy: {{scratch: {{}}}}\nservices: {{judge: {{extra_body: {{x: {text}, y: [{text}]}}}}}}\n")
    assert load_study(path).services.judge.extra_body == {"x": value, "y": [value]}


@pytest.mark.parametrize("text", ["1e", "e2", "1e2x", "v1e2", "'1e-2'", "1-2", "0x1e2z", "12:30:00", "1.2.3", "."])
def test_what_is_no_number_stays_a_text(load, text):
    found = load(f"services.judge.extra_body={{reasoning_effort: {text}}}").services.judge.extra_body["reasoning_effort"]
    assert found == text.strip("'")


def test_the_home_folder_is_meant_by_a_tilde_in_every_path(load, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    served = {**SERVED, "checkpoint": "~/models/judge"}
    study = load(
        root="~/state",
        data={"source": ["~/toucan", "~/b.jsonl"]},
        policy={"checkpoint": "~/models/policy"},
        services={"judge": {"managed": "vllm", "model": "m", "deployment": served}},
        evaluation={"tau2": {"version": "tau2 0.2.0", "python": "~/venv/bin/python", "data_dir": "~/tau2"}},
    )
    home = Path("/home/me")
    assert study.root == home / "state"
    assert study.data.source == (home / "toucan", home / "b.jsonl")
    assert study.policy.checkpoint == home / "models" / "policy"
    assert study.services.judge.deployment.checkpoint == "/home/me/models/judge"
    assert (study.evaluation.tau2.python, study.evaluation.tau2.data_dir) == (home / "venv" / "bin" / "python", home / "tau2")
    assert load("root=~/elsewhere").root == home / "elsewhere"


def test_the_home_of_nobody_is_said(load):
    with pytest.raises(ConfigError, match=r"root: the home folder in ~no-such-user/x was expected to be somebody's"):
        load(root="~no-such-user/x")


def test_a_service_says_nothing_of_its_decoding_twice():
    assert JudgeConfig(extra_body={"top_p": 0.9, "top_k": -1, "min_p": 0, "seed": 7}).extra_body["top_p"] == 0.9
