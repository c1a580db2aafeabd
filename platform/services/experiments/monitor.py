"""Takes the planned looks of running experiments when they are due, without an operator's call.

    each that runs and plans looks ─▶ reports ─▶ due? (looks.py) ─▶ look, kept with the experiment ─▶ audited

A look is one transaction, which holds the database's writer lock and asks again whether it is due: with several servers
one takes it, and the next finds it taken.  All that it knows is in the database, so a restart changes nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, replace
from typing import Final

import structlog
from alcove.platform.domain.errors import PlatformError
from alcove.platform.domain.experiments.analysis import UNREADABLE_ERRORS
from alcove.platform.domain.experiments.looks import is_due, taken
from alcove.platform.domain.experiments.schedule import next_look_reports
from alcove.platform.domain.experiments.task import task_of
from alcove.platform.domain.records import ExperimentRecord, ExperimentState
from alcove.platform.store.experiments import get_experiment, running_experiments, save_experiment
from alcove.platform.store.reports import cell_counts, window_count
from alcove.platform.store.unit_of_work import UnitOfWork
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["PRINCIPAL", "due_experiments", "look", "look_at_all", "looked"]

PRINCIPAL: Final = "server/experiments"  # of what happens by itself, in the audit log
_log = structlog.get_logger()

Act = Callable[[str, Callable[[UnitOfWork], Awaitable[ExperimentRecord]]], Awaitable[ExperimentRecord]]
"""Runs a change in a transaction of its own, as a principal."""


async def due_experiments(session: AsyncSession) -> list[str]:
    """Return the ids of the running experiments that have a planned look due."""
    due = []
    for record in await running_experiments(session):
        if next_look_reports(record) is not None:
            task = task_of(record)
            if is_due(record, sum(await cell_counts(session, task.task_id, task.cell_count))):
                due.append(record.experiment_id)
    return due


async def look_at_all(experiment_ids: Iterable[str], act: Act) -> list[ExperimentRecord]:
    """Take the looks that are due; one that cannot be taken holds up no other.

    Args:
        experiment_ids: from `due_experiments`.
        act: makes the changes.
    """
    seen = []
    for experiment_id in experiment_ids:

        async def work(uow: UnitOfWork, experiment_id: str = experiment_id) -> ExperimentRecord:
            return await look(uow, experiment_id)

        try:
            seen.append(await act(PRINCIPAL, work))
        except (PlatformError, *UNREADABLE_ERRORS) as error:
            _log.error("experiment not looked at", experiment=experiment_id, error=str(error))
        except Exception as error:  # noqa: BLE001 - the others have their looks planned too
            _log.error("experiment not looked at", experiment=experiment_id, exc_info=error)
    return seen


async def look(uow: UnitOfWork, experiment_id: str) -> ExperimentRecord:
    """Take the look of an experiment that is due, if one is, and return it as it is then.

    Raises:
        NotFoundError: there is no such experiment.
        StatsError: statistics refuse its reports.
    """
    return await looked(uow, await get_experiment(uow.session, experiment_id))


async def looked(uow: UnitOfWork, record: ExperimentRecord) -> ExperimentRecord:
    """Return a running experiment with the look that is due, which is kept; the same where none is.

    Raises:
        StatsError: statistics refuse its reports.
    """
    if record.state is not ExperimentState.RUNNING or next_look_reports(record) is None:
        return record
    task = task_of(record)
    counts = await cell_counts(uow.session, task.task_id, task.cell_count)
    if not is_due(record, sum(counts)):
        return record
    windows = await window_count(uow.session, task.task_id)
    found = await asyncio.to_thread(taken, record, task, counts, windows, now_s=uow.now_s)
    record = await save_experiment(uow.session, replace(record, looks=(*record.looks, found)))
    await uow.audit(
        "look at experiment",
        record.experiment_id,
        look=len(record.looks),
        reports=found.reports,
        fraction=found.fraction,
        boundary=found.boundary,
        decision=asdict(found.decision),
    )
    return record
