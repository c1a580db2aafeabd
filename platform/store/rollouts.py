"""Stores rollouts, and finds those that are on devices.

Plan, proposal, last analysis, evidence and values are kept as JSON; of an analysis its decision is searched for.
"""

from collections.abc import Iterator
from typing import Any, Final

from alcove.platform.domain.errors import ResourceNotFoundError
from alcove.platform.domain.records import RolloutRecord, RolloutState
from alcove.platform.domain.rollout_records import (
    AnalysisRecord,
    Evidence,
    Proposal,
    RolloutPlan,
    StageDecisionKind,
)
from alcove.platform.domain.rollouts.machine import LIVE
from alcove.platform.domain.rollouts.search import RolloutNeed, RolloutOrder, RolloutQuery
from alcove.platform.store.dialects import json_text
from alcove.platform.store.parameter_values import values_from_text, values_to_text
from alcove.platform.store.tables import RolloutRow
from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = [
    "add_rollout",
    "count_rollouts",
    "delete_rollout",
    "get_rollout",
    "live_rollouts",
    "save_rollout",
    "search_rollouts",
    "watched_rollouts",
]

_AGAINST: Final = (StageDecisionKind.ALARM, StageDecisionKind.HARM, StageDecisionKind.TIMEOUT)
_ADVANCES: Final = (RolloutState.DRAFT, RolloutState.RUNNING, RolloutState.PAUSED)
_PLAN = TypeAdapter(RolloutPlan)
_PROPOSAL = TypeAdapter(Proposal)
_ANALYSIS = TypeAdapter(AnalysisRecord)
_EVIDENCE = TypeAdapter(Evidence)
_CHANGING = (
    "state",
    "share_basis_points",
    "updated_at_s",
    "policy_serial",
    "audience",
    "stage",
    "stage_started_at_s",
    "control_basis_points",
    "revision",
)


async def add_rollout(session: AsyncSession, record: RolloutRecord) -> RolloutRecord:
    """Write a new rollout; return it with its sequence number and first revision."""
    values = {name: value for name, value in vars(record).items() if name not in ("sequence", "values")}
    row = RolloutRow(**values | _texts(record) | {"revision": 1})
    session.add(row)
    await session.flush()
    return _record(row)


async def save_rollout(session: AsyncSession, record: RolloutRecord) -> None:
    """Write what can change, the revision among it; an analysis alone leaves that, so that an etag holds."""
    row = await session.get_one(RolloutRow, record.sequence)
    for name in _CHANGING:
        setattr(row, name, getattr(record, name))
    for name, text in _texts(record).items():
        setattr(row, name, text)
    await session.flush()


async def delete_rollout(session: AsyncSession, record: RolloutRecord) -> None:
    """Delete the row of a rollout; the audit log keeps what was done to it."""
    await session.delete(await session.get_one(RolloutRow, record.sequence))
    await session.flush()


async def get_rollout(session: AsyncSession, rollout_id: str) -> RolloutRecord:
    """Return the rollout.

    Raises:
        ResourceNotFoundError: there is none of this id.
    """
    row = await session.scalar(select(RolloutRow).where(RolloutRow.rollout_id == rollout_id))
    if row is None:
        raise ResourceNotFoundError("rollout", rollout_id)
    return _record(row)


async def search_rollouts(session: AsyncSession, query: RolloutQuery) -> tuple[list[RolloutRecord], bool]:
    """Return the rollouts of a page, in the query's order, and whether more follow."""
    number, after, size = RolloutRow.sequence, query.page.after, query.page.size
    is_newest_first = query.order is RolloutOrder.NEWEST
    statement = select(RolloutRow).where(*_conditions(session, query))
    statement = statement.order_by(number.desc() if is_newest_first else number).limit(size + 1)
    if after:
        statement = statement.where(number < after if is_newest_first else number > after)
    found = [_record(row) for row in await session.scalars(statement)]
    return found[:size], len(found) > size


async def count_rollouts(session: AsyncSession, query: RolloutQuery) -> int:
    """Return how many rollouts fit every filter, on whichever page."""
    return await session.scalar(select(func.count(RolloutRow.sequence)).where(*_conditions(session, query))) or 0


def _conditions(session: AsyncSession, query: RolloutQuery) -> Iterator[ColumnElement[bool]]:
    if query.app is not None:
        yield RolloutRow.app == query.app
    if query.feature is not None:
        yield RolloutRow.feature == query.feature
    if query.states:
        yield RolloutRow.state.in_(query.states)
    for word in query.words:
        texts = (RolloutRow.rollout_id, RolloutRow.app, RolloutRow.feature, RolloutRow.version)
        yield or_(*(func.lower(each).contains(word, autoescape=True) for each in texts))
    if query.need is RolloutNeed.APPROVAL:
        yield RolloutRow.proposal.is_not(None)
        yield RolloutRow.state.in_(_ADVANCES)
    elif query.need is RolloutNeed.ACTION:
        yield or_(
            RolloutRow.state == RolloutState.PAUSED,
            and_(RolloutRow.state == RolloutState.HALTED, RolloutRow.updated_at_s > query.halted_since_s),
            and_(
                RolloutRow.state == RolloutState.RUNNING,
                json_text(session, RolloutRow.analysis, "decision").in_(_AGAINST),
            ),
        )


async def live_rollouts(session: AsyncSession, app: str | None = None) -> list[RolloutRecord]:
    """Return the rollouts that are on devices, running or paused; of one app or of all."""
    query = select(RolloutRow).where(RolloutRow.state.in_(LIVE)).order_by(RolloutRow.sequence)
    if app is not None:
        query = query.where(RolloutRow.app == app)
    return [_record(row) for row in await session.scalars(query)]


async def watched_rollouts(session: AsyncSession) -> list[str]:
    """Return the ids of the running rollouts that have a control group."""
    query = select(RolloutRow.rollout_id).where(
        RolloutRow.state == RolloutState.RUNNING, RolloutRow.control_basis_points > 0
    )
    return list(await session.scalars(query.order_by(RolloutRow.sequence)))


def _texts(record: RolloutRecord) -> dict[str, str | None]:
    return {
        "plan": _PLAN.dump_json(record.plan).decode(),
        "proposal": None if record.proposal is None else _PROPOSAL.dump_json(record.proposal).decode(),
        "analysis": None if record.analysis is None else _ANALYSIS.dump_json(record.analysis).decode(),
        "evidence": _EVIDENCE.dump_json(record.evidence).decode(),
        "parameter_values": values_to_text(record.values),
    }


def _record(row: RolloutRow) -> RolloutRecord:
    values: dict[str, Any] = {column.key: getattr(row, column.key) for column in RolloutRow.__table__.columns}
    values["values"] = values_from_text(values.pop("parameter_values"))
    values["state"] = RolloutState(row.state)
    values["plan"] = _PLAN.validate_json(row.plan)
    values["proposal"] = None if row.proposal is None else _PROPOSAL.validate_json(row.proposal)
    values["analysis"] = None if row.analysis is None else _ANALYSIS.validate_json(row.analysis)
    values["evidence"] = _EVIDENCE.validate_json(row.evidence)
    return RolloutRecord(**values)
