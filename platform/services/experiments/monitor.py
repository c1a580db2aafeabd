"""Makes the planned interim analyses of running experiments when they are due, without an operator's call.

    each that runs and plans analyses ─▶ reports ─▶ due? (interim.py) ─▶ analysis, kept with the experiment ─▶ audited

An analysis is one transaction, which holds the database's writer lock and asks again whether it is due: with several
servers one makes it, and the next finds it made.  All that it knows is in the database, so a restart changes nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import structlog
from alcove.platform.domain.errors import PlatformError
from alcove.platform.domain.experiments.analysis import UNREADABLE_ERRORS
from alcove.platform.domain.experiments.interim import is_due
from alcove.platform.domain.experiments.schedule import next_analysis_reports
from alcove.platform.domain.records import ExperimentRecord, ExperimentState
from alcove.platform.domain.snapshots.experiment import analyze_if_due
from alcove.platform.services.reports import read_deciding_reports, read_experiment_reports
from alcove.platform.store.experiments import get_experiment, running_experiments, save_experiment
from alcove.platform.store.unit_of_work import UnitOfWork
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["PRINCIPAL", "analyze_all", "analyze_experiment", "due_experiments"]

PRINCIPAL: Final = "server/experiments"  # of what happens by itself, in the audit log
_log = structlog.get_logger()

Act = Callable[[str, Callable[[UnitOfWork], Awaitable[ExperimentRecord]]], Awaitable[ExperimentRecord]]
"""Runs a change in a transaction of its own, as a principal."""


async def due_experiments(session: AsyncSession) -> list[str]:
    """Return the ids of the running experiments that have an interim analysis due."""
    due = []
    for record in await running_experiments(session):
        if next_analysis_reports(record) is not None:
            reports = await read_deciding_reports(session, record)
            if is_due(record, reports.reports):
                due.append(record.experiment_id)
    return due


async def analyze_all(experiment_ids: Iterable[str], act: Act) -> list[ExperimentRecord]:
    """Make the analyses that are due; one that cannot be made holds up no other.

    Args:
        experiment_ids: from `due_experiments`.
        act: makes the changes.
    """
    seen = []
    for experiment_id in experiment_ids:

        async def work(uow: UnitOfWork, experiment_id: str = experiment_id) -> ExperimentRecord:
            return await analyze_experiment(uow, experiment_id)

        try:
            seen.append(await act(PRINCIPAL, work))
        except (PlatformError, *UNREADABLE_ERRORS) as error:
            _log.error("the analysis of an experiment failed", experiment=experiment_id, error=str(error))
        except Exception as error:  # noqa: BLE001 - the others have interim analyses planned too
            _log.error("the analysis of an experiment failed", experiment=experiment_id, exc_info=error)
    return seen


async def analyze_experiment(uow: UnitOfWork, experiment_id: str) -> ExperimentRecord:
    """Make the interim analysis of an experiment that is due, if one is, and return it as it is then.

    Raises:
        ResourceNotFoundError: there is no such experiment.
        StatsError: statistics refuse its reports.
    """
    record = await get_experiment(uow.session, experiment_id)
    if record.state is not ExperimentState.RUNNING or next_analysis_reports(record) is None:
        return record
    reports = await read_experiment_reports(uow.session, record)
    after, entry = await asyncio.to_thread(analyze_if_due, record, reports, now_s=uow.now_s)
    if entry is None:
        return record
    after = await save_experiment(uow.session, after)
    await uow.audit(entry.action, entry.subject, **entry.details)
    return after
