"""`slca adopt`: a person's word that finished steps are what today's code and packages would make of the same values.

An identity counts every line of code that bears on a result, so a refactoring makes finished steps strangers. Adopting gives them
today's identity; who did it, when, why and what had changed stands in the record from then on, and below every table made of it.
"""

from __future__ import annotations

import getpass
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slca_core.config import Study
from slca_core.errors import ConfigError
from slca_core.records.store import Adoption, Record, Step
from tasks.mlflow_store import store_path
from tasks.orchestration.workspace import Workspace
from tasks.planning.plan import NOT_MADE, PlannedStep, difference, make_plan, values_that_differ
from tasks.tracking import Tracking


@dataclass(frozen=True, slots=True)
class Adopted:
    """A step of the study that was to run, and what came of adopting it.

    Attributes:
        record: None if there is none that can be adopted.
        note: what had changed since the record, or why there is none.
    """

    name: str
    record: Record | None
    note: str


def adopt(study: Study, reason: str, names: Sequence[str] = ()) -> Iterator[Adopted]:
    """Adopt finished steps for the steps of the study that would run again, in the order in which they would.

    A record with another value or input is another experiment, and never adopted. One that lacks a setting of today, or has one
    that is gone since, is adopted if its step is named.

    Args:
        reason: why the records hold today; it is shown wherever their figures are.
        names: of steps, as `slca plan` has them; all of them if none is given.

    Raises:
        ConfigError: the reason is empty, or a name is none of the plan's.
        DataError: a record's output is not as it was recorded, or its step was begun anew.
    """
    if not reason.strip():
        raise ConfigError("A reason was expected (--reason): it is shown wherever the adopted figures are.")
    known = {one.name for one in make_plan(study).steps}
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"{study.name} has no step called {', '.join(unknown)}; there are: {', '.join(sorted(known))}.")
    told: set[str] = set()
    # What a step would be is known only once those before it are there.
    while waiting := [one for one in _ready(study) if one.name not in told and (not names or one.name in names)]:
        for one in waiting:
            told.add(one.name)
            yield _adopt(study, one, reason, strictly=not names)


def _ready(study: Study) -> list[PlannedStep]:
    """Steps that would run and whose inputs are there."""
    to_run = make_plan(study).to_run
    return [one for one in to_run if not any(value.startswith(NOT_MADE) for value in one.step.inputs.values())]


def _adopt(study: Study, planned: PlannedStep, reason: str, *, strictly: bool) -> Adopted:
    step, store = planned.step, Workspace(study).store
    records = store.readable(step.step)
    fitting = [record for record in records if not _hinders(step, record, strictly)]
    if not fitting:
        hinders = [_hinders(step, record, strictly) for record in records]
        return Adopted(planned.name, None, "; ".join(min(hinders, key=len)) if hinders else "never made")
    record = min(fitting, key=lambda one: (one.name != step.name, len(difference(step, one)), one.identity))
    changed = tuple(difference(step, record))
    who = f"{getpass.getuser()}@{socket.gethostname()}"
    word = Adoption(at=time.time(), by=who, reason=reason, identity=record.identity, differences=changed)
    found = store.adopt(step, record, word)
    if store_path(store.root).is_file():
        Tracking(study).adopt(found, word)
    return Adopted(planned.name, found, "; ".join(changed))


def _hinders(step: Step, record: Record, strictly: bool) -> list[str]:
    """Settings and inputs that make the record another experiment than the step."""
    return [one.words for one in values_that_differ(step, record) if not one.of_code and (strictly or one.in_both)]
