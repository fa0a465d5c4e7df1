"""Every checkpoint on every benchmark: Toucan-Test, BFCL V3 and tau2-bench, as far as the study asks for them."""

from prefect import flow

from slca_core.config import Study
from slca_core.records.store import Record
from tasks.evaluate import evaluate_checkpoint
from tasks.floor import measure_floor
from tasks.orchestration.task_runner import gather
from tasks.report import SFT, Evaluated
from tasks.services import frozen_services


@flow(name="evaluate")
def evaluate(study: Study, data: Record, checkpoints: dict[str, dict[int, Record]]) -> list[Evaluated]:
    (sft,) = checkpoints[SFT].values()
    behind = dict.fromkeys(study.planners, sft)
    with frozen_services(study) as services:
        if study.evaluation.tau2:
            measure_floor(study)
        running = {
            (condition, seed): evaluate_checkpoint.submit(study, condition, seed, data, checkpoint, behind.get(condition), services)
            for condition, by_seed in checkpoints.items()
            for seed, checkpoint in by_seed.items()
        }
        evaluated = gather(study, "evaluate", running)
    return [
        Evaluated(condition=condition, seed=seed, checkpoint=checkpoints[condition][seed], evaluation=evaluation)
        for (condition, seed), evaluation in evaluated.items()
    ]
