"""The reproduction over several seeds: mean and spread in every table."""

from pathlib import Path

from prefect import flow

from flows.reproduce import reproduce, reproduce_file
from slca_core.config import Study, load_study
from slca_core.reporting.report import ReportPaths
from tasks.orchestration.notify import HOOKS
from tasks.secrets import at_hand, refuse_overrides


@flow(name="sweep", **HOOKS)
def sweep(study: Study, seeds: tuple[int, ...] = (1, 2, 3)) -> ReportPaths:
    """All arms under each seed, from one SFT checkpoint; seeds that have run are not run again."""
    return reproduce(Study.model_validate({**at_hand(study).model_dump(), "seeds": seeds}))


@flow(name="sweep-file", **HOOKS)
def sweep_file(
    study_file: str = "configs/studies/smoke.yaml", seeds: tuple[int, ...] = (1, 2, 3), overrides: tuple[str, ...] = ()
) -> ReportPaths:
    """The same for a study by file name, as scheduled deployments name it."""
    refuse_overrides(lambda some: load_study(Path(study_file), some), tuple(overrides))
    return reproduce_file(study_file, (*overrides, f"seeds={list(seeds)}"))
