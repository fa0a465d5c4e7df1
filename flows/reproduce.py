"""The whole paper as one flow.

slca run configs/studies/smoke.yaml        (or: make reproduce)
"""

from pathlib import Path

from prefect import flow

from flows.compare import compare
from flows.curate import curate
from flows.evaluate import evaluate
from flows.finetune import finetune
from flows.report import report
from slca_core.config import Study, load_study
from slca_core.reporting.report import ReportPaths
from tasks.matching import planned
from tasks.orchestration.notify import HOOKS
from tasks.orchestration.pages import published
from tasks.orchestration.task_runner import lanes
from tasks.orchestration.watch import watched
from tasks.planning.plan import require_ready
from tasks.report import SFT, SFT_FULL
from tasks.secrets import at_hand, kept, refuse_overrides
from tasks.tracking import tracked


@flow(name="reproduce", **HOOKS)
@tracked
@published
@watched
def reproduce(study: Study) -> ReportPaths:
    """curate -> finetune -> train the arms -> evaluate -> report."""
    at_hand(study)
    planned(study)
    require_ready(study)
    side_by_side = lanes(study)
    data = curate(study)
    policy, sft, sft_full = finetune.with_options(task_runner=side_by_side)(study, data)
    arms = compare.with_options(task_runner=side_by_side)(study, data, sft)
    baselines = {name: {study.sft.seed: record} for name, record in ((SFT, sft), (SFT_FULL, sft_full))}
    evaluated = evaluate.with_options(task_runner=side_by_side)(study, data, baselines | arms)
    return report(study, data, [policy, sft, sft_full], evaluated)


@flow(name="reproduce-file", **HOOKS)
def reproduce_file(study_file: str = "configs/studies/smoke.yaml", overrides: tuple[str, ...] = ()) -> ReportPaths:
    """The same for a study by file name, as deployments name it."""
    refuse_overrides(lambda some: load_study(Path(study_file), some), tuple(overrides))
    return reproduce(kept(load_study(Path(study_file), tuple(overrides))))
