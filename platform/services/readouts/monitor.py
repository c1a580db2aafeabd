"""Ends read-outs without an operator's call: analyzes them once their last day is over, or stops what measures nothing.

    each that runs ─┬─ last day over ─▶ reports of each month ─▶ analysis, kept ─▶ policy without it, audited
                    └─ the measured version may not be kept any more ─▶ stopped with the reason, likewise

An end is one transaction, which holds the database's writer lock and asks again whether it is due: with several servers
one makes it.  All that it knows is in the database.  A device ends its part by its own clock, whoever is late.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import structlog
from alcove.platform.domain.comparisons import kept_versions
from alcove.platform.domain.errors import PlatformError
from alcove.platform.domain.readout_records import ReadoutRecord, ReadoutState
from alcove.platform.domain.readouts.analysis import analyze
from alcove.platform.domain.readouts.machine import is_over, mark_finished, mark_stopped
from alcove.platform.domain.readouts.task import schedule_of, task_of
from alcove.platform.domain.snapshots.app import AppSnapshot
from alcove.platform.services.loading import load_app
from alcove.platform.services.reports import read_reports
from alcove.platform.services.saving import save_app
from alcove.platform.store.readouts import get_readout
from alcove.platform.store.unit_of_work import UnitOfWork

__all__ = ["PRINCIPAL", "end_all", "end_if_due"]

PRINCIPAL: Final = "server/readouts"  # of what happens by itself, in the audit log
_log = structlog.get_logger()

Act = Callable[[str, Callable[[UnitOfWork], Awaitable[ReadoutRecord]]], Awaitable[ReadoutRecord]]
"""Runs a change in a transaction of its own, as a principal, and publishes what it decided."""


async def end_all(readout_ids: Iterable[str], act: Act) -> list[ReadoutRecord]:
    """End read-outs that are due and return them; one that cannot be ended holds up no other.

    Args:
        readout_ids: of those that run.
        act: makes the changes.
    """
    seen = []
    for readout_id in readout_ids:

        async def work(uow: UnitOfWork, readout_id: str = readout_id) -> ReadoutRecord:
            return await end_if_due(uow, readout_id)

        try:
            seen.append(await act(PRINCIPAL, work))
        except PlatformError as error:
            _log.error("the end of a read-out failed", readout=readout_id, error=str(error))
        except Exception as error:  # noqa: BLE001 - the others have ends too
            _log.error("the end of a read-out failed", readout=readout_id, exc_info=error)
    return seen


async def end_if_due(uow: UnitOfWork, readout_id: str) -> ReadoutRecord:
    """Analyze a read-out whose last day is over, stop one that measures nothing, and return it as it is then.

    Raises:
        ResourceNotFoundError: there is no such read-out.
    """
    record = await get_readout(uow.session, readout_id)
    if record.state is not ReadoutState.RUNNING:
        return record
    before = await load_app(uow, record.app)
    if is_over(record, uow.now_s):
        task, schedule = task_of(record), schedule_of(record.plan, record.until_s)
        months = [await read_reports(uow.session, task, schedule.windows_of(month)) for month in range(schedule.months)]
        result = await asyncio.to_thread(analyze, record, months, now_s=uow.now_s)
        after = before.carry_readout(
            mark_finished(record, result, now_s=uow.now_s), "finish", code=result.code, summary=result.summary
        )
    elif not _may_measure(before, record):
        reason = f"{record.feature} {record.kept[0].version} may not run any more: there is nothing to compare with"
        after = before.carry_readout(mark_stopped(record, reason, now_s=uow.now_s), "stop", reason=reason)
    else:
        return record
    return (await save_app(uow, before, after)).readout or record


def _may_measure(app: AppSnapshot, record: ReadoutRecord) -> bool:
    """Tell whether the kept version of the measured feature may still run."""
    return record.feature in kept_versions(record, app.min_versions, app.halted_digests)
