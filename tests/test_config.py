"""The study file: precedence, and every error at once, with the key that was meant."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from slca_core.config import ARMS, REPOSITORY, Arm, DataConfig, RlConfig, Study, load_arm, load_study
from slca_core.credit.estimators import Estimator
from slca_core.errors import ConfigError

MINIMAL = {"name": "tiny", "policy": {"scratch": {}}}
CONFIGS = REPOSITORY / "configs"
# The five shipped by default, and any other that lies beside them.
ARM_NAMES = sorted(path.stem for path in ARMS.glob("*.yaml"))
STUDIES = sorted((CONFIGS / "studies").glob("*.yaml"))


@pytest.fixture
def study_file(tmp_path: Path):
    def write(**settings) -> Path:
        path = tmp_path / "study.yaml"
        path.write_text(yaml.safe_dump({**MINIMAL, **settings}))
        return path

    return write


def complaint(path: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_study(path, overrides)
    return str(caught.value)


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_every_shipped_study_parses(path):
    assert load_study(path).name


@pytest.mark.parametrize("name", ARM_NAMES)
def test_every_shipped_arm_parses(name):
    assert Arm.model_validate(load_arm(name)).name == name


def test_every_yaml_file_under_configs_is_a_study_or_an_arm():
    assert set(CONFIGS.rglob("*.yaml")) == {*STUDIES, *ARMS.glob("*.yaml")}


def test_the_defaults_compare_the_papers_five_arms(study_file):
    assert [arm.name for arm in load_study(study_file()).arms] == ["grpo", "slca", "wo_slca", "wo_sgls", "wo_hierr"]


def test_a_study_file_goes_before_the_defaults(study_file):
    assert load_study(study_file(rl={"clip": 0.3})).rl == RlConfig(clip=0.3)


def test_an_override_goes_before_the_study_file(study_file):
    assert load_study(study_file(rl={"clip": 0.3, "updates": 9}), ("rl.clip=0.1",)).rl == RlConfig(clip=0.1, updates=9)


def test_the_last_override_counts(study_file):
    assert load_study(study_file(), ("rl.clip=0.1", "rl.clip=0.4")).rl.clip == 0.4


@pytest.mark.parametrize(
    ("override", "read"),
    [
        ("rl.learning_rate=1e-6", lambda study: study.rl.learning_rate == 1e-6),
        ("seeds=[3, 4]", lambda study: study.seeds == (3, 4)),
        ("arms=[slca]", lambda study: [arm.name for arm in study.arms] == ["slca"]),
        ("services.judge.concurrency=5", lambda study: study.services.judge.concurrency == 5),
        ("machine.threads=1", lambda study: study.machine.threads == 1),
        ("description=a=b", lambda study: study.description == "a=b"),
    ],
)
def test_an_override_is_read_as_yaml(study_file, override, read):
    assert read(load_study(study_file(), (override,)))


def test_an_override_goes_into_a_section_that_is_written_empty(study_file):
    assert load_study(study_file(rl=None), ("rl.clip=0.1",)).rl.clip == 0.1


def test_one_setting_of_a_service_leaves_its_other_defaults(study_file):
    judge = load_study(study_file(services={"judge": {"concurrency": 7}})).services.judge
    assert (judge.model, judge.retries, judge.retry_delay_s, judge.max_tokens) == ("standin-judge", 3, 2.0, 8192)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"sedes": [1]}, "sedes: unknown key; did you mean 'seeds'?"),
        ({"rl": {"group_sise": 4}}, "rl.group_sise: unknown key; did you mean 'group_size'?"),
        ({"policy": {"scratch": {"leyers": 2}}}, "policy.scratch.leyers: unknown key; did you mean 'layers'?"),
        ({"services": {"judge": {"temprature": 1}}}, "services.judge.temprature: unknown key; did you mean 'temperature'?"),
        ({"machine": {"thread": 1}}, "machine.cpu.thread: unknown key; did you mean 'threads'?"),
        ({"machine": {"kind": "gpu", "vllm_engine": 1}}, "machine.gpu.vllm_engine: unknown key; did you mean 'vllm_engines'?"),
        (
            {"arms": ["grpo", {"name": "a", "title": "A", "estimator": "slca", "process_rewards": "none"}]},
            "arms.1.process_rewards: unknown key; did you mean 'process_reward'?",
        ),
        (
            {"arms": [{"name": "a", "title": "A", "estimator": {"rewards": ["tool"], "normalizer": "joint"}}]},
            "arms.0.estimator.normalizer: unknown key; did you mean 'normaliser'?",
        ),
        (
            {"machine": {"launcher": {"kind": "ray_job", "adress": "http://h"}}},
            "machine.cpu.launcher.ray_job.adress: unknown key; did you mean 'address'?",
        ),
        ({"data": {"qqqq": 1}}, "data.qqqq: unknown key; known here: generated, keep_invalid, quarantine_limit, seed"),
    ],
)
def test_an_unknown_key_names_the_nearest_known_one(study_file, settings, line):
    assert line in complaint(study_file(**settings))


def test_an_unknown_key_of_an_override_names_the_nearest_known_one(study_file):
    assert "rl.clipp: unknown key; did you mean 'clip'?" in complaint(study_file(), "rl.clipp=0.1")


def test_every_error_is_listed_at_once(study_file):
    text = complaint(study_file(rl={"group_size": 1, "klip": 2}, seeds=[], sft={"epochs": "two"}))
    assert "has 4 errors" in text
    assert all(f"  - {place}:" in text for place in ("rl.group_size", "rl.klip", "seeds", "sft.epochs"))


def test_an_error_shows_what_was_found(study_file):
    assert "sft.epochs" in (text := complaint(study_file(sft={"epochs": "two"})))
    assert "(found 'two')" in text


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"policy": {}}, "exactly one of `checkpoint` and `scratch`"),
        ({"policy": {"scratch": {"hidden_size": 100}}}, "vLLM's CPU attention takes head sizes 32 and 64"),
        ({"rl": {"prompts_per_update": 33}}, "prompts_per_update must be a multiple of minibatch_prompts"),
        ({"rl": {"max_length": 8192}}, "max_length holds prompt and response"),
        (
            {"arms": [{"name": "a", "title": "A", "estimator": "slca", "hierr_weights": "even"}]},
            "hierr_weights 'even' is unknown; known: default",
        ),
        ({"rl": {"kl_coef": float("nan")}}, "rl.kl_coef"),
        ({"arms": ["slca", "slca"]}, "arm names must differ, found slca, slca"),
        ({"arms": ["slka"]}, "known arms: both, dr_grpo"),
        ({"arms": [{"name": "a", "title": "A", "estimator": "grppo"}]}, "estimator 'grppo' is unknown; known: "),
        ({"services": {"judge": {"url": "http://h/v1"}}}, "`url` goes with `managed: external`"),
        ({"services": {"judge": {"managed": "external", "url": "http://h/v1"}}}, "`managed: external` needs `model`"),
    ],
)
def test_what_does_not_fit_together_is_said_in_a_sentence(study_file, settings, sentence):
    assert sentence in complaint(study_file(**settings))


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("rl.clip", "An override is key.sub=value, found 'rl.clip'."),
        ("name.sub=1", "goes below 'name', which is no mapping"),
        ("rl.clip=[1", "is not YAML"),
    ],
)
def test_an_override_of_another_form_is_refused(study_file, override, sentence):
    assert sentence in complaint(study_file(), override)


@pytest.mark.parametrize(("text", "sentence"), [("- a\n", "it holds list"), ("", "it holds NoneType"), ("a: [", "is not YAML")])
def test_a_file_that_is_no_mapping_is_refused(tmp_path, text, sentence):
    path = tmp_path / "study.yaml"
    path.write_text(text)
    assert sentence in complaint(path)


def test_a_missing_file_names_where_the_shipped_ones_are(tmp_path):
    assert str(CONFIGS / "studies") in complaint(tmp_path / "none.yaml")


def test_without_slca_is_grpo_under_another_name():
    grpo, wo_slca = (Arm.model_validate(load_arm(name)) for name in ("grpo", "wo_slca"))
    assert grpo.condition() == wo_slca.condition()


def test_all_other_arms_are_conditions_of_their_own():
    conditions = [Arm.model_validate(load_arm(name)).condition() for name in ARM_NAMES if name != "wo_slca"]
    assert all(one != other for place, one in enumerate(conditions) for other in conditions[:place])


@pytest.mark.parametrize(
    ("arm", "asked"),
    [
        ("slca", ("mocker", "judge")),
        ("rltr", ("mocker", "judge", "checker")),
        ("rltr_hierr", ("mocker", "judge")),
        ("toolpo_judge", ("mocker", "judge")),
        ("slca_alternate", ("alternate_mocker", "judge")),
    ],
)
def test_an_arm_says_which_frozen_services_it_asks(study_file, arm, asked):
    (found,) = load_study(study_file(arms=[arm], services={"alternate_mocker": {}})).arms
    assert found.services == asked


def test_an_arm_with_an_alternate_mocker_needs_one(study_file):
    with pytest.raises(ConfigError, match=r"services\.alternate_mocker is expected, since slca_alternate asks it"):
        load_study(study_file(arms=["slca_alternate"]))


CUSTOM = {"rewards": ["tool", "summary"], "normaliser": "separate", "routing": [[1, 0.5], [0, 1]], "presence": ["tool", "summary"]}


def test_a_study_can_bring_an_estimator_of_its_own(study_file):
    study = load_study(study_file(arms=["slca", {"name": "half", "title": "Half", "estimator": CUSTOM}]))
    half = study.arms[1]
    assert half.estimator == Estimator("custom", ("tool", "summary"), "separate", ((1.0, 0.5), (0.0, 1.0)), ("tool", "summary"))
    assert half.condition() != study.arms[0].condition()
    assert Study.model_validate_json(study.model_dump_json()) == study


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"routing": [[1], [0, 1]]}, "each of 2 coefficients"),
        ({"normaliser": "seperate"}, "arms.0.estimator.normaliser"),
        ({"normalizer": "joint"}, "normalizer"),
    ],
)
def test_an_estimator_that_does_not_fit_together_is_explained(study_file, change, sentence):
    text = complaint(study_file(arms=[{"name": "half", "title": "Half", "estimator": {**CUSTOM, **change}}]))
    assert sentence in text


@pytest.mark.parametrize(("estimator", "counts"), [("slca", True), ("grpo", False)])
def test_weights_make_another_condition_only_where_the_estimator_uses_them(estimator, counts):
    plain, heavy = (Arm(name="a", title="A", estimator=estimator, lambda_tool=weight) for weight in (1.0, 2.0))
    assert (plain.condition() != heavy.condition()) is counts


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("generated", "generated"),
        ("data/toucan", (Path("data/toucan"),)),
        (Path("data/toucan"), (Path("data/toucan"),)),
        ("a.parquet, b.parquet", (Path("a.parquet"), Path("b.parquet"))),
        (["a", "b"], (Path("a"), Path("b"))),
    ],
)
def test_a_data_source_is_a_folder_a_list_or_the_generator(given, read):
    assert DataConfig(source=given).source == read


@pytest.mark.parametrize("source", ["", ",", []])
def test_no_data_source_is_refused(source):
    with pytest.raises(ValidationError):
        DataConfig(source=source)


def test_a_study_cannot_be_changed(study_file):
    study = load_study(study_file())
    with pytest.raises(ValidationError, match="frozen"):
        study.rl.clip = 0.5


def test_a_study_survives_the_way_through_json(study_file):
    study = load_study(study_file(data={"source": "a,b"}, machine={"kind": "gpu"}))
    assert Study.model_validate_json(study.model_dump_json()) == study


def test_a_form_can_be_made_from_the_study():
    assert set(Study.model_json_schema()["required"]) == {"name", "policy"}


def test_an_arm_may_not_be_called_as_a_row_that_is_no_arm():
    with pytest.raises(ValidationError, match="an arm may not be called do_nothing"):
        Study(name="x", policy={"scratch": {}}, arms=[{"name": "do_nothing", "title": "Idle", "estimator": "grpo"}])
