"""A frozen service that the run serves by vLLM itself: a real server on a tiny model, killed in the middle, and up again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psutil
import pytest

from slca_core.config import CpuProfile, JudgeConfig, ScratchPolicy, ServicesConfig
from slca_core.curation.decomposition import decompose
from slca_core.curation.readers import read_record
from slca_core.curation.synthetic.generator import generate
from slca_core.errors import AnswerCut
from slca_core.policy import adopt_chat_format, create_policy
from slca_core.services.frozen import Clients, serve_frozen
from slca_core.services.usage import Usage, total
from slca_core.standins.mocker import mock_response
from tests.support.waiting import wait_until

pytestmark = pytest.mark.e2e

SIZES = {"dtype": "float32", "tensor_parallel": 1, "max_model_len": 256, "max_num_seqs": 4, "gpu_memory": 0.5}
PROMPT = "Rate the answer."


@pytest.fixture(scope="module")
def services(tmp_path_factory) -> ServicesConfig:
    folder = tmp_path_factory.mktemp("judge")
    samples = [sample for record in generate(20, 0, mock_response) for sample in decompose(read_record(record))]
    scratch = ScratchPolicy(vocab_size=900, hidden_size=64, intermediate_size=128, layers=1, heads=2)
    made = create_policy(folder / "made", samples, scratch)
    model = adopt_chat_format(made, folder / "model")
    deployment = {"checkpoint": str(model), **SIZES}
    return ServicesConfig(judge=JudgeConfig(managed="vllm", model="tiny", max_tokens=8, retry_delay_s=0.5, deployment=deployment))


def ask(services: ServicesConfig, url: str) -> tuple[str, Usage]:
    async def once() -> tuple[str, Usage]:
        clients = Clients(services, {"mocker": url, "judge": url}, None)
        lines = clients.lines("anybody")
        try:
            answer = await lines.judge(PROMPT)
        except AnswerCut as cut:  # A model without training does not stop by itself.
            answer = cut.text
        await clients.close()
        return answer, total(lines.usage().values())

    return asyncio.run(once())


def server_of(url: str) -> psutil.Process:
    """The process that listens there."""
    port = int(url.rsplit(":", 1)[1].partition("/")[0])
    found = [one.pid for one in psutil.net_connections("tcp") if one.laddr.port == port and one.status == psutil.CONN_LISTEN]
    return psutil.Process(found[0])


def test_a_server_that_is_killed_is_up_again_and_who_asked_meanwhile_is_answered(services, tmp_path):
    said: list[str] = []
    with serve_frozen(services, CpuProfile(), root=tmp_path, logs=tmp_path / "logs", say=said.append) as serving:
        url = serving.urls(("judge",))["judge"]
        answer, usage = ask(services, url)
        assert (usage.requests, usage.failed) == (1, 0)
        first = server_of(url)
        first.kill()
        assert wait_until(lambda: bool(said), 30)
        again, usage = ask(services, url)
        assert again == answer, "at temperature 0 the same server says the same"
        assert usage.connection > 0
        assert usage.failed == 0
        second = server_of(url)
        assert second.pid != first.pid
    assert "vLLM server of the judge ended with code" in said[0]
    assert wait_until(lambda: not second.is_running(), 30)
    assert {path.name for path in Path(tmp_path / "logs").iterdir()} == {"judge.log", "judge.1.log"}
