"""The commands a plan prints: complete, from the right start, each value with its source."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from slca_core.config import REPOSITORY, Study, load_study
from tasks.planning.commands import commands

PAPER = sorted((REPOSITORY / "configs" / "studies").glob("paper-*.yaml"))
MODELS = {
    "paper-qwen2.5-3b": "Qwen2.5-3B-Instruct",
    "paper-qwen2.5-7b": "Qwen2.5-7B-Instruct",
    "paper-qwen3-8b": "Qwen3-8B-Base",
}


@pytest.fixture
def printed(tmp_path):
    """A study's commands: title -> text."""

    def read(path: Path, *overrides: str) -> dict[str, str]:
        study = load_study(path, (f"root={tmp_path}", "seeds=[1]", "arms=[slca]", *overrides))
        return {title: "\n".join(lines) for title, lines in commands(study)}

    return read


def arguments(text: str) -> list[str]:
    """What the printed shell would pass on."""
    last = text.rstrip().splitlines()[-1]
    shell = text.replace(last, 'printf "%s\\n" ' + last)
    return subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True).stdout.splitlines()


def by_title(found: dict[str, str], start: str) -> str:
    (text,) = [text for title, text in found.items() if title.startswith(start)]
    return text


@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_a_paper_study_prints_services_sft_and_training(printed, path):
    found = printed(path)
    starts = ["serve the mocker", "serve the judge", "finetune sft,", "finetune sft_full,", "train slca, seed 1:"]
    assert [title.startswith(start) for title, start in zip(found, starts, strict=True)] == [True] * 5
    assert load_study(path).policy.checkpoint == Path("models") / MODELS[path.stem]


@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_the_services_are_served_as_published(printed, path):
    found = printed(path)
    mocker, judge = arguments(by_title(found, "serve the mocker")), arguments(by_title(found, "serve the judge"))
    assert mocker[:3] == ["vllm", "serve", "Qwen/Qwen3-235B-A22B-Instruct-2507"]
    for option in ("--tensor-parallel-size 8", "--max-model-len 32768", "--max-num-seqs 300", "--gpu-memory-utilization 0.7"):
        assert option in shlex.join(mocker)
    assert {"--enable-expert-parallel", "--disable-custom-all-reduce", "--enable-prefix-caching"} <= set(mocker)
    assert judge[:3] == ["vllm", "serve", "openai/gpt-oss-120b"]
    for option in ("--tensor-parallel-size 8", "--max-model-len 16384", "--max-num-seqs 6000", "--gpu-memory-utilization 0.85"):
        assert option in shlex.join(judge)
    assert {"--enable-chunked-prefill", "--async-scheduling"} <= set(judge)
    assert (mocker[mocker.index("--port") + 1], judge[judge.index("--port") + 1]) == ("8003", "8016")


def test_a_deployment_of_ones_own_is_not_shown_as_the_papers(printed):
    text = by_title(printed(PAPER[0], "services.mocker.deployment.max_num_seqs=64"), "serve the mocker")
    assert re.search(r"--max-num-seqs 64 +# the study's own; Table 7 has another value", text)
    assert re.search(r"--max-model-len 32768 +# Table 7", text)


def test_sft_starts_from_the_policy_that_the_policy_step_makes(printed, tmp_path):
    text = by_title(printed(PAPER[1]), "finetune sft,")
    assert f"--model.model_name_or_path {tmp_path}/artifacts/policy/paper-qwen2.5-7b/model" in text
    assert "python -m torch.distributed.run --standalone --nproc-per-node 8 -m openrlhf.cli.train_sft" in text


def test_every_number_of_training_has_a_source(printed):
    text = by_title(printed(PAPER[1]), "train slca, seed 1:")
    unexplained = [line.split()[0] for line in text.splitlines() if re.match(r"  --\S+ [-\d.e ]+$", line)]
    assert unexplained == ["--ckpt.max_num"]


def test_a_slurm_study_shows_and_writes_the_script_of_each_run(printed, tmp_path):
    found = printed(PAPER[1], "machine.launcher={kind: slurm, partition: h20, account: lab}")
    (title,) = [title for title in found if "as Slurm runs it" in title]
    script = tmp_path / "reports" / "paper-qwen2.5-7b" / "slca-seed1.sbatch"
    assert title.endswith(str(script))
    assert script.read_text().splitlines() == found[title].splitlines()
    assert {"#SBATCH --nodes=4", "#SBATCH --gpus-per-node=8", "#SBATCH --partition=h20"} <= set(found[title].splitlines())


def test_a_study_with_stand_ins_prints_no_deployment(tmp_path):
    study = Study.model_validate({"name": "tiny", "policy": {"scratch": {}}, "root": tmp_path, "arms": ["slca"]})
    assert [title.split(",")[0] for title, _ in commands(study)] == ["finetune sft", "finetune sft_full", "train slca"]


def test_a_server_that_the_run_manages_is_shown_as_it_is_started(printed):
    deployment = "{checkpoint: Qwen/Qwen3-30B-A3B, tensor_parallel: 2, max_model_len: 16384, max_num_seqs: 256, gpu_memory: 0.85}"
    managed = f"services.checker={{managed: vllm, model: checker, deployment: {deployment}}}"
    text = by_title(printed(PAPER[0], "arms=[rltr]", managed), "serve the checker, started, watched and stopped by the run")
    assert arguments(text)[:3] == ["vllm", "serve", "Qwen/Qwen3-30B-A3B"]
    assert "--max-num-seqs 256" in shlex.join(arguments(text))


def test_a_second_mocker_is_served_beside_the_first(printed):
    deployment = "{checkpoint: openai/gpt-oss-120b, max_model_len: 16384, max_num_seqs: 300, gpu_memory: 0.85}"
    alternate = f"services.alternate_mocker={{managed: vllm, model: other, deployment: {deployment}}}"
    found = printed(PAPER[0], "arms=[grpo_alternate, slca_alternate]", alternate)
    assert [title for title in found if title.startswith("serve")][1].startswith("serve the alternate mocker, started")
