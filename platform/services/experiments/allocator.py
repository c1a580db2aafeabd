"""Moves the shares of bandits' arms once a day, without an operator's call.

    each that runs and has a bandit ─▶ time? (bandit.py) ─▶ closed windows ─▶ move ─┬─▶ new policy, audited
                                                            none since ─▶ later         ├─▶ shares stay, with a reason
                                                                                        └─▶ a guardrail's stop, audited

A look is one transaction, which holds the database's writer lock and asks again whether it is time: with several
servers one looks, and the next finds it done.  All that it knows is in the database, so a restart changes nothing.
"""

import asyncio
from collections.abc import Iterable

import structlog
from alcove.platform.domain.errors import PlatformError
from alcove.platform.domain.experiments.analysis import UNREADABLE_ERRORS
from alcove.platform.domain.experiments.bandit import closed_reports, is_due, newest_closed
from alcove.platform.domain.experiments.task import task_of
from alcove.platform.domain.records import ExperimentRecord, ExperimentState
from alcove.platform.domain.snapshots import bandit
from alcove.platform.services.experiments.monitor import PRINCIPAL, Act
from alcove.platform.services.loading import load_experiment
from alcove.platform.services.reports import read_windows
from alcove.platform.services.saving import save_app
from alcove.platform.store.experiments import running_experiments
from alcove.platform.store.unit_of_work import UnitOfWork
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["due_bandits", "move_all", "move_shares"]

_log = structlog.get_logger()


async def due_bandits(session: AsyncSession, now_s: int) -> list[str]:
    """Return the ids of the running experiments whose shares are to be looked at now."""
    due = []
    for record in await running_experiments(session):
        if is_due(record, now_s):
            closed = closed_reports(await read_windows(session, task_of(record)), now_s)
            if newest_closed(closed) > record.allocation.read_window:
                due.append(record.experiment_id)
    return due


async def move_all(experiment_ids: Iterable[str], act: Act) -> list[ExperimentRecord]:
    """Look at the shares that are due; one that fails holds up no other.

    Args:
        experiment_ids: from `due_bandits`.
        act: makes the changes.
    """
    seen = []
    for experiment_id in experiment_ids:

        async def work(uow: UnitOfWork, experiment_id: str = experiment_id) -> ExperimentRecord:
            return await move_shares(uow, experiment_id)

        try:
            seen.append(await act(PRINCIPAL, work))
        except (PlatformError, *UNREADABLE_ERRORS) as error:
            _log.error("shares of an experiment were not moved", experiment=experiment_id, error=str(error))
        except Exception as error:  # noqa: BLE001 - the others have shares to be moved too
            _log.error("shares of an experiment were not moved", experiment=experiment_id, exc_info=error)
    return seen


async def move_shares(uow: UnitOfWork, experiment_id: str) -> ExperimentRecord:
    """Look at an experiment's reports if it is time to, and return it as it is then.

    Raises:
        ResourceNotFoundError: there is no such experiment.
    """
    before, record = await load_experiment(uow, experiment_id)
    if record.state is not ExperimentState.RUNNING or not is_due(record, uow.now_s):
        return record
    reports = await read_windows(uow.session, task_of(record))
    if newest_closed(closed_reports(reports, uow.now_s)) <= record.allocation.read_window:
        return record
    after = await asyncio.to_thread(bandit.move_shares, before, record, reports, now_s=uow.now_s)
    return (await save_app(uow, before, after)).experiments[experiment_id]
