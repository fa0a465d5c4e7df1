"""Scripted SFT and RL: files, resume and books as the real ones have them, in seconds and without the stack.

python -m tests.chaos.trainer run_rl SPEC          python -m tests.chaos.trainer run_sft ARGUMENTS OF train_sft
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from hashlib import sha256
from pathlib import Path

from slca_core.records.fingerprint import digest, file_digest
from slca_core.reporting.figures import QUANTITIES
from slca_core.trainer.ledger import append_line, cut_back
from slca_core.trainer.spec import load_spec

UPDATE_S, STEPS = 0.2, 10


def train_rl(spec_path: Path) -> None:
    """As resumable as the real one: a checkpoint now and then, metrics cut back to it, the next update a function of the last."""
    spec = load_spec(spec_path)
    spec.checkpoints.mkdir(exist_ok=True)
    saved = spec.checkpoints / "state.json"
    state = json.loads(saved.read_text()) if saved.exists() else {"update": 0, "weights": digest(spec.arm.condition())}
    cut_back(spec.metrics, state["update"])
    while state["update"] < spec.rl.updates:
        time.sleep(UPDATE_S)
        weights = sha256(f"{state['weights']} {spec.seed}".encode()).hexdigest()
        state = {"update": state["update"] + 1, "weights": weights}
        share = int(weights[:8], 16) / 2**32
        drawn = dict.fromkeys([quantity.column for quantity in QUANTITIES], share)
        spent = {"rollouts": 16, "prompt_tokens": 80.0, "response_tokens": 40.0, "error_rate": 0.0, "seconds_total": UPDATE_S}
        append_line(spec.metrics, {"update": state["update"], **drawn, **spent})
        if state["update"] % spec.rl.checkpoint_every == 0:
            unfinished = saved.with_suffix(".unfinished")
            unfinished.write_text(json.dumps(state))
            unfinished.replace(saved)
    copy_model(spec.initial_checkpoint, spec.model, state["weights"])


def train_sft(argv: list[str]) -> None:
    def value(option: str) -> Path:
        return Path(argv[argv.index(option) + 1])

    for step in range(1, STEPS + 1):
        time.sleep(UPDATE_S / 2)
        print(f"Train step of epoch 0: 10%|#| {step}/{STEPS} [00:01<00:02, gpt_loss={1 / step:.3f}]", flush=True)
    copy_model(value("--model.model_name_or_path"), value("--ckpt.output_dir"), file_digest(value("--data.dataset")))


def copy_model(start: Path, out: Path, weights: str) -> None:
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(start, out)
    (out / "scripted.json").write_text(json.dumps(weights))


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    if kind == "run_rl":
        train_rl(Path(rest[0]))
    else:
        train_sft(rest)
