"""Toucan records -> SFT, RL and test splits."""

from prefect import flow

from slca_core.config import Study
from slca_core.records.store import Record
from tasks.curate import curate_data


@flow(name="curate")
def curate(study: Study) -> Record:
    return curate_data(study)
