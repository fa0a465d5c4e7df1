"""The matched comparison: every arm and seed from the same SFT checkpoint, prompts, order and budget."""

from prefect import flow

from slca_core.config import Study
from slca_core.records.store import Record
from tasks.orchestration.task_runner import gather
from tasks.services import frozen_services
from tasks.train import train_arm


@flow(name="compare")
def compare(study: Study, data: Record, sft: Record) -> dict[str, dict[int, Record]]:
    """Arm -> seed -> trained checkpoint; arms of equal condition share one run."""
    with frozen_services(study) as services:
        running = {
            (arm.name, seed): train_arm.submit(study, arm, seed, data, sft, services) for arm in study.arms for seed in study.seeds
        }
        trained = gather(study, "train", running)
    return {arm.name: {seed: trained[arm.name, seed] for seed in study.seeds} for arm in study.arms}
