"""Which rollouts are there, and which one holds a feature?"""

from alcove.platform.core.errors import NotFoundError
from alcove.platform.core.records import Page, RolloutRecord, RolloutState
from alcove.platform.store.tables import RolloutRow
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["add_rollout", "get_rollout", "list_rollouts", "live_rollouts", "save_rollout"]

LIVE = (RolloutState.RUNNING, RolloutState.PAUSED)


async def add_rollout(session: AsyncSession, record: RolloutRecord) -> RolloutRecord:
    """Write a new rollout; return it with its sequence number."""
    row = RolloutRow(**{name: value for name, value in vars(record).items() if name != "sequence"})
    session.add(row)
    await session.flush()
    return _record(row)


async def save_rollout(session: AsyncSession, record: RolloutRecord) -> None:
    """Write what can change: state, share, times, policy serial."""
    row = await session.get_one(RolloutRow, record.sequence)
    row.state = record.state
    row.share_permyriad = record.share_permyriad
    row.updated_at_s = record.updated_at_s
    row.policy_serial = record.policy_serial
    await session.flush()


async def get_rollout(session: AsyncSession, rollout_id: str) -> RolloutRecord:
    """Return the rollout.

    Raises:
        NotFoundError: there is none of this id.
    """
    row = await session.scalar(select(RolloutRow).where(RolloutRow.rollout_id == rollout_id))
    if row is None:
        raise NotFoundError("rollout", rollout_id)
    return _record(row)


async def list_rollouts(
    session: AsyncSession, page: Page, *, app: str | None = None, feature: str | None = None
) -> list[RolloutRecord]:
    """Return rollouts in order of creation."""
    query = select(RolloutRow).where(RolloutRow.sequence > page.after).order_by(RolloutRow.sequence).limit(page.size)
    if app is not None:
        query = query.where(RolloutRow.app == app)
    if feature is not None:
        query = query.where(RolloutRow.feature == feature)
    return [_record(row) for row in await session.scalars(query)]


async def live_rollouts(session: AsyncSession, app: str) -> list[RolloutRecord]:
    """Return the rollouts of an app that are on devices: running or paused."""
    query = select(RolloutRow).where(RolloutRow.app == app, RolloutRow.state.in_(LIVE)).order_by(RolloutRow.sequence)
    return [_record(row) for row in await session.scalars(query)]


def _record(row: RolloutRow) -> RolloutRecord:
    return RolloutRecord(
        sequence=row.sequence,
        rollout_id=row.rollout_id,
        app=row.app,
        feature=row.feature,
        version=row.version,
        manifest_sha256=row.manifest_sha256,
        salt=row.salt,
        state=RolloutState(row.state),
        share_permyriad=row.share_permyriad,
        created_at_s=row.created_at_s,
        updated_at_s=row.updated_at_s,
        policy_serial=row.policy_serial,
    )
