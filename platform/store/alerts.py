"""Stores what is to be sent of alerts: the outbox, whose other half is the audit log.

    waiting ──claimed: attempts + 1, not again before the claim ends──▶ sent ──▶ delivered
       ▲ │                                                           └─ failed ─▶ waiting, later
       │ └─ failed for the last time ─▶ dead
       └──────────── retried by a person ──┘

D1  An alert is for each destination once: to add it again changes nothing.
D2  A claim is written before the sending begins, so a server that is killed sends again, under the same id, when the
    claim has ended; two servers never send one delivery at a time.
D3  What is not delivered stays: dead letters until somebody retries them, or `KEEP_DEAD_S` have gone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from alcove.platform.domain.alerts.alert import Alert
from alcove.platform.domain.alerts.rendering import alert_from_text, alert_to_text
from alcove.platform.domain.errors import ResourceNotFoundError
from alcove.platform.store.alert_tables import AlertCursorRow, AlertDeliveryRow
from alcove.platform.store.dialects import insert_into
from alcove.platform.store.tables import AuditRow
from sqlalchemy import ColumnElement, and_, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = [
    "KEEP_DEAD_S",
    "KEEP_DELIVERED_S",
    "Delivery",
    "DeliveryState",
    "QueueState",
    "add_deliveries",
    "claim_deliveries",
    "end_delivery",
    "find_due_destinations",
    "forget_deliveries",
    "get_delivery",
    "list_deliveries",
    "move_cursor",
    "newest_sequence",
    "postpone_delivery",
    "read_cursor",
    "read_queue_state",
    "retry_delivery",
]

KEEP_DELIVERED_S: Final = 90 * 86_400  # what was sent in the last quarter of a year can be shown
KEEP_DEAD_S: Final = 365 * 86_400  # dead letters wait for a person for a year
_AUDIT: Final = "audit"
_WAIT_MAX_S: Final = 86_400  # seconds; a longer wait was written by a clock that was ahead


class DeliveryState(StrEnum):
    """State of a delivery; the transitions are drawn above."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    DEAD = "dead"


@dataclass(frozen=True)
class Delivery:
    """An alert for a destination.

    Attributes:
        sequence: its number.
        destination: name of the webhook or e-mail in alerts.toml.
        alert: what is sent.
        state: where it stands.
        attempts: how often its sending was begun.
        created_at_s: when it came.
        next_at_s: before which it is not sent.
        ended_at_s: when it was delivered or died; None: it waits.
        problem: why the last attempt failed; "": it did not.
    """

    sequence: int
    destination: str
    alert: Alert
    state: DeliveryState
    attempts: int
    created_at_s: int
    next_at_s: int
    ended_at_s: int | None
    problem: str


@dataclass(frozen=True)
class QueueState:
    """The number of dead letters and of those that wait, and when the oldest of these came; None: none waits."""

    dead: int
    waiting: int
    oldest_at_s: int | None


async def read_cursor(session: AsyncSession) -> int | None:
    """Return the audit log's last entry of which alerts were made; None: it was never read for them."""
    row = await session.get(AlertCursorRow, _AUDIT)
    return None if row is None else row.sequence


async def move_cursor(session: AsyncSession, sequence: int) -> None:
    """Note that alerts were made of the audit log's entries up to this one."""
    await session.merge(AlertCursorRow(name=_AUDIT, sequence=sequence))
    await session.flush()


async def newest_sequence(session: AsyncSession) -> int:
    """Return the number of the newest entry of the audit log, 0 where there is none."""
    return int(await session.scalar(select(func.max(AuditRow.sequence))) or 0)


async def add_deliveries(session: AsyncSession, alert: Alert, destinations: Iterable[str], *, now_s: int) -> None:
    """Add an alert for destinations; D1."""
    rows = [
        {
            "alert_id": alert.alert_id,
            "destination": name,
            "alert": alert_to_text(alert),
            "state": DeliveryState.WAITING,
            "attempts": 0,
            "created_at_s": now_s,
            "next_at_s": now_s,
            "ended_at_s": None,
            "problem": "",
        }
        for name in destinations
    ]
    if rows:
        insert = insert_into(session.get_bind().dialect.name, AlertDeliveryRow)
        await session.execute(insert.values(rows).on_conflict_do_nothing())


async def find_due_destinations(session: AsyncSession, now_s: int) -> set[str]:
    """Return the destinations for which something is to be sent now."""
    query = select(AlertDeliveryRow.destination).distinct()
    query = query.where(_is_due(now_s))
    return set(await session.scalars(query))


async def claim_deliveries(
    session: AsyncSession, destination: str, *, now_s: int, until_s: int, size: int
) -> list[Delivery]:
    """Return what is to be sent to a destination now, oldest first, at most `size`, and keep others from it; D2."""
    query = select(AlertDeliveryRow).order_by(AlertDeliveryRow.sequence).limit(size)
    query = query.where(_is_due(now_s), AlertDeliveryRow.destination == destination)
    rows = list(await session.scalars(query))
    for row in rows:
        row.attempts += 1
        row.next_at_s = until_s
    await session.flush()
    return [_delivery(row) for row in rows]


async def postpone_delivery(session: AsyncSession, claimed: Delivery, *, next_at_s: int, problem: str) -> None:
    """Note that an attempt failed, and when the next one is; nothing where another claimed it meanwhile."""
    await _change(session, claimed, next_at_s=next_at_s, problem=problem)


async def end_delivery(
    session: AsyncSession, claimed: Delivery, state: DeliveryState, *, now_s: int, problem: str = ""
) -> None:
    """Note that it was delivered, or that it is dead; nothing where another claimed it meanwhile."""
    await _change(session, claimed, state=state, ended_at_s=now_s, problem=problem)


async def retry_delivery(session: AsyncSession, sequence: int, *, now_s: int) -> Delivery:
    """Let a delivery be sent again, with all its attempts before it, and return it.

    Raises:
        ResourceNotFoundError: there is none of this number.
    """
    row = await _get(session, sequence)
    row.state, row.attempts, row.next_at_s, row.ended_at_s = DeliveryState.WAITING, 0, now_s, None
    await session.flush()
    return _delivery(row)


async def get_delivery(session: AsyncSession, sequence: int) -> Delivery:
    """Return a delivery.

    Raises:
        ResourceNotFoundError: there is none of this number.
    """
    return _delivery(await _get(session, sequence))


async def list_deliveries(
    session: AsyncSession, states: Sequence[DeliveryState], *, destination: str = "", limit: int
) -> list[Delivery]:
    """Return deliveries in these states, the newest first."""
    query = select(AlertDeliveryRow).where(AlertDeliveryRow.state.in_(states))
    if destination:
        query = query.where(AlertDeliveryRow.destination == destination)
    query = query.order_by(AlertDeliveryRow.sequence.desc()).limit(limit)
    return [_delivery(row) for row in await session.scalars(query)]


async def read_queue_state(session: AsyncSession) -> QueueState:
    """Return how many are dead or wait, and since when."""
    query = select(AlertDeliveryRow.state, func.count(), func.min(AlertDeliveryRow.created_at_s)).group_by(
        AlertDeliveryRow.state
    )
    found = {state: (count, oldest) for state, count, oldest in await session.execute(query)}
    waiting, oldest = found.get(DeliveryState.WAITING, (0, None))
    return QueueState(found.get(DeliveryState.DEAD, (0, None))[0], waiting, oldest)


async def forget_deliveries(session: AsyncSession, *, now_s: int) -> None:
    """Remove what was delivered or died long ago; D3."""
    for state, keep_s in ((DeliveryState.DELIVERED, KEEP_DELIVERED_S), (DeliveryState.DEAD, KEEP_DEAD_S)):
        old = (AlertDeliveryRow.state == state) & (AlertDeliveryRow.ended_at_s < now_s - keep_s)
        await session.execute(delete(AlertDeliveryRow).where(old))


def _is_due(now_s: int) -> ColumnElement[bool]:
    moment = or_(AlertDeliveryRow.next_at_s <= now_s, AlertDeliveryRow.next_at_s > now_s + _WAIT_MAX_S)
    return and_(AlertDeliveryRow.state == DeliveryState.WAITING, moment)


async def _get(session: AsyncSession, sequence: int) -> AlertDeliveryRow:
    row = await session.get(AlertDeliveryRow, sequence)
    if row is None:
        raise ResourceNotFoundError("alert", str(sequence))
    return row


async def _change(session: AsyncSession, claimed: Delivery, **values: Any) -> None:
    is_ours = (
        (AlertDeliveryRow.sequence == claimed.sequence)
        & (AlertDeliveryRow.attempts == claimed.attempts)
        & (AlertDeliveryRow.state == DeliveryState.WAITING)
    )
    await session.execute(update(AlertDeliveryRow).where(is_ours).values(**values))


def _delivery(row: AlertDeliveryRow) -> Delivery:
    return Delivery(
        sequence=row.sequence,
        destination=row.destination,
        alert=alert_from_text(row.alert),
        state=DeliveryState(row.state),
        attempts=row.attempts,
        created_at_s=row.created_at_s,
        next_at_s=row.next_at_s,
        ended_at_s=row.ended_at_s,
        problem=row.problem,
    )
