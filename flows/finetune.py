"""A policy -> its SFT checkpoint, and the data-equivalent one trained on the RL split's demonstrations too."""

from prefect import flow

from slca_core.config import Study
from slca_core.records.store import Record
from tasks import finetune as tasks
from tasks.orchestration.task_runner import gather
from tasks.report import SFT, SFT_FULL


@flow(name="finetune")
def finetune(study: Study, data: Record) -> tuple[Record, Record, Record]:
    policy = tasks.prepare_policy(study, data)
    running = {
        SFT: tasks.finetune.submit(study, data, policy, SFT, splits=("sft",), epochs=study.sft.epochs),
        SFT_FULL: tasks.finetune.submit(study, data, policy, SFT_FULL, splits=study.data.full_sft, epochs=study.sft.full_epochs),
    }
    tuned = gather(study, "finetune", running)
    return policy, tuned[SFT], tuned[SFT_FULL]
