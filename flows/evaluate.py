"""Every checkpoint on every benchmark: Toucan-Test here; BFCL V3 and tau2-bench join it as further tasks."""

from prefect import flow

from slca_core.config import Study
from slca_core.records import Record
from tasks.evaluate import evaluate_checkpoint
from tasks.report import Evaluated
from tasks.services import frozen_services


@flow(name="evaluate")
def evaluate(study: Study, data: Record, checkpoints: dict[str, dict[int, Record]]) -> list[Evaluated]:
    with frozen_services(study) as services:
        running = [
            (condition, seed, checkpoint, evaluate_checkpoint.submit(study, condition, seed, data, checkpoint, services))
            for condition, by_seed in checkpoints.items()
            for seed, checkpoint in by_seed.items()
        ]
        return [
            Evaluated(condition=condition, seed=seed, checkpoint=checkpoint, evaluation=evaluation.result())
            for condition, seed, checkpoint, evaluation in running
        ]
