"""A served checkpoint is sampled as the study says, whatever its generation_config.json has."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path

import pytest
from vllm.config import ModelConfig
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.completion.protocol import CompletionRequest
from vllm.sampling_params import SamplingParams

from slca_core.config import CpuProfile, GpuProfile
from slca_core.trainer import serve

GENERATION = {"repetition_penalty": 1.05, "top_p": 0.8, "top_k": 20, "temperature": 0.7, "eos_token_id": [7, 9]}
ARCHITECTURE = {
    **{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 16, "hidden_size": 32, "head_dim": 32},
    **{"num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "intermediate_size": 32, "eos_token_id": 7},
    **{"max_position_embeddings": 64, "torch_dtype": "float32"},
}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    (folder / "config.json").write_text(json.dumps(ARCHITECTURE))
    (folder / "generation_config.json").write_text(json.dumps(GENERATION))
    return folder


@pytest.fixture
def argv_of(monkeypatch, tmp_path):
    """machine -> the command by which a checkpoint is served on it."""

    def ask(machine) -> list[str]:
        asked: list[list[str]] = []

        @contextmanager
        def started(name, argv, **_):
            asked.append(argv)
            yield "http://127.0.0.1:1"

        monkeypatch.setattr(serve, "serve", started)
        monkeypatch.setattr(serve, "python_for", lambda *_: "python")
        with serve.served(Path("/checkpoint"), "sft", machine, max_length=64, root=tmp_path, log=tmp_path / "log"):
            return asked[0]

    return ask


@pytest.mark.parametrize("machine", [CpuProfile(), GpuProfile()], ids=["cpu", "gpu"])
def test_the_policy_server_is_told_to_leave_the_checkpoints_sampling_alone(argv_of, machine):
    argv = argv_of(machine)
    assert argv[argv.index("--generation-config") + 1] == "vllm"


@pytest.mark.parametrize(("setting", "inherited"), [("auto", True), ("vllm", False)])
def test_what_a_request_leaves_open_is_the_checkpoints_only_where_vllm_may_read_it(checkpoint, setting, inherited):
    config = object.__new__(ModelConfig)  # Its own making looks at the model's class too, which takes half a minute.
    where = {"model": str(checkpoint), "hf_config_path": None, "generation_config": setting, "override_generation_config": {}}
    nothing = dict.fromkeys(("revision", "code_revision", "hf_token"))
    vars(config).update({**where, **nothing, "trust_remote_code": False, "config_format": "auto"})
    defaults = config.get_diff_sampling_param()
    toucan = CompletionRequest(model="m", prompt=[1], temperature=0.0, max_tokens=4).to_sampling_params(4, defaults)
    message = [{"role": "user", "content": "Hi"}]
    chat = ChatCompletionRequest(model="m", messages=message, temperature=0.6, max_tokens=4).to_sampling_params(4, defaults)
    assert (toucan.temperature, chat.temperature) == (0.0, 0.6)
    expected = (1.05, 0.8, 20) if inherited else (1.0, 1.0, 0)
    assert (chat.repetition_penalty, chat.top_p, chat.top_k) == expected
    assert toucan.repetition_penalty == expected[0]
    assert config.try_get_generation_config()["eos_token_id"] == [7, 9]  # Where a turn ends stays known.


def test_rollouts_in_training_have_parameters_of_their_own():
    """As OpenRLHF makes them; the engine adds the checkpoint's end tokens to them and nothing else."""
    params = SamplingParams(temperature=1.0, top_p=1.0, top_k=-1, max_tokens=4, min_tokens=1, skip_special_tokens=False)
    params.update_from_generation_config(GENERATION, eos_token_id=7)
    assert (params.repetition_penalty, params.top_p, params.top_k, params.temperature) == (1.0, 1.0, -1, 1.0)
    assert params.stop_token_ids == [9]
