"""Per-item results and curves -> the report."""

from prefect import flow

from slca_core.config import Study
from slca_core.records.store import Record
from slca_core.reporting.report import ReportPaths
from tasks.report import Evaluated, make_report


@flow(name="report")
def report(study: Study, data: Record, preparation: list[Record], evaluated: list[Evaluated]) -> ReportPaths:
    return make_report(study, data, preparation, evaluated)
