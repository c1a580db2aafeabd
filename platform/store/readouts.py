"""Stores read-outs of apps' holdouts, and finds those that run."""

import json
from dataclasses import asdict, replace

from alcove.platform.domain.errors import ResourceNotFoundError
from alcove.platform.domain.readout_records import (
    KeptVersion,
    ReadoutPlan,
    ReadoutRecord,
    ReadoutResult,
    ReadoutState,
)
from alcove.platform.domain.records import Page
from alcove.platform.store.tables import ReadoutRow
from pydantic import TypeAdapter
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = [
    "add_readout",
    "find_running_readout",
    "get_readout",
    "list_readouts",
    "running_readouts",
    "save_readout",
]

_PLAN = TypeAdapter(ReadoutPlan)


async def add_readout(session: AsyncSession, record: ReadoutRecord) -> ReadoutRecord:
    """Write a new read-out; return it with its sequence number."""
    row = ReadoutRow(
        readout_id=record.readout_id,
        app=record.app,
        kept=json.dumps([asdict(kept) for kept in record.kept]),
        plan=_PLAN.dump_json(record.plan).decode(),
        share_basis_points=record.share_basis_points,
        state=record.state,
        started_at_s=record.started_at_s,
        until_s=record.until_s,
        end_reason="",
        policy_serial=record.policy_serial,
        revision=1,
    )
    session.add(row)
    await session.flush()
    return _record(row)


async def save_readout(session: AsyncSession, record: ReadoutRecord) -> ReadoutRecord:
    """Write what can change; return it with its next revision."""
    row = await session.get_one(ReadoutRow, record.sequence)
    row.state = record.state
    row.ended_at_s = record.ended_at_s
    row.end_reason = record.end_reason
    row.result = None if record.result is None else json.dumps(asdict(record.result))
    row.policy_serial = record.policy_serial
    row.revision += 1
    await session.flush()
    return replace(record, revision=row.revision)


async def get_readout(session: AsyncSession, readout_id: str) -> ReadoutRecord:
    """Return a read-out.

    Raises:
        ResourceNotFoundError: there is none of this id.
    """
    row = await session.scalar(select(ReadoutRow).where(ReadoutRow.readout_id == readout_id))
    if row is None:
        raise ResourceNotFoundError("read-out", readout_id)
    return _record(row)


async def find_running_readout(session: AsyncSession, app: str) -> ReadoutRecord | None:
    """Return the read-out of an app that runs, or None."""
    query = select(ReadoutRow).where(ReadoutRow.app == app, ReadoutRow.state == ReadoutState.RUNNING)
    row = await session.scalar(query)
    return None if row is None else _record(row)


async def running_readouts(session: AsyncSession) -> list[ReadoutRecord]:
    """Return the read-outs of all apps that run, in order of creation."""
    query = select(ReadoutRow).where(ReadoutRow.state == ReadoutState.RUNNING).order_by(ReadoutRow.sequence)
    return [_record(row) for row in await session.scalars(query)]


async def list_readouts(session: AsyncSession, page: Page, *, app: str) -> list[ReadoutRecord]:
    """Return the read-outs of an app in order of creation."""
    query = select(ReadoutRow).where(ReadoutRow.app == app, ReadoutRow.sequence > page.after)
    return [_record(row) for row in await session.scalars(query.order_by(ReadoutRow.sequence).limit(page.size))]


def _record(row: ReadoutRow) -> ReadoutRecord:
    return ReadoutRecord(
        sequence=row.sequence,
        readout_id=row.readout_id,
        app=row.app,
        kept=tuple(KeptVersion(**kept) for kept in json.loads(row.kept)),
        plan=_PLAN.validate_json(row.plan),
        share_basis_points=row.share_basis_points,
        state=ReadoutState(row.state),
        started_at_s=row.started_at_s,
        until_s=row.until_s,
        ended_at_s=row.ended_at_s,
        end_reason=row.end_reason,
        result=None if row.result is None else ReadoutResult(**json.loads(row.result)),
        policy_serial=row.policy_serial,
        revision=row.revision,
    )
