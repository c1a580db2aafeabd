"""Stores what came of announcing tasks and of asking for their windows, until a window is collected.

A claim is a lease: who has it asks for the window, and others leave it alone until the lease ends.
"""

from alcove.platform.domain.collection import Announcement, WindowRequest
from alcove.platform.domain.limits import COLLECT_AGAIN_S
from alcove.platform.store.dialects import insert
from alcove.platform.store.tables import AnnouncementRow, WindowRequestRow
from sqlalchemy import delete, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = [
    "claim_window",
    "drop_request",
    "find_announcement",
    "postpone_window",
    "save_announcement",
    "window_requests",
]


async def window_requests(session: AsyncSession, task_id: str) -> dict[int, WindowRequest]:
    """Return what came of asking for the windows of a task that are not collected."""
    query = select(WindowRequestRow).where(WindowRequestRow.task_id == task_id)
    return {
        row.window: WindowRequest(row.attempts, row.not_before_s, row.problem) for row in await session.scalars(query)
    }


async def claim_window(session: AsyncSession, task_id: str, window: int, *, now_s: int, until_s: int) -> int:
    """Lease a window until `until_s` and return how often it was asked for, this time included; 0: another has it."""
    statement = insert(session, WindowRequestRow).values(
        task_id=task_id, window=window, attempts=1, not_before_s=until_s, problem=""
    )
    statement = statement.on_conflict_do_update(
        index_elements=["task_id", "window"],
        set_={"attempts": WindowRequestRow.attempts + 1, "not_before_s": until_s},
        where=or_(
            WindowRequestRow.not_before_s <= now_s, WindowRequestRow.not_before_s > now_s + COLLECT_AGAIN_S[1]
        ),  # as `is_due`
    )
    return int(await session.scalar(statement.returning(WindowRequestRow.attempts)) or 0)


async def postpone_window(session: AsyncSession, task_id: str, window: int, *, until_s: int, problem: str) -> None:
    """End a lease: the window is asked for again at `until_s`."""
    row = (WindowRequestRow.task_id == task_id) & (WindowRequestRow.window == window)
    await session.execute(update(WindowRequestRow).where(row).values(not_before_s=until_s, problem=problem))


async def drop_request(session: AsyncSession, task_id: str, window: int) -> None:
    """Remove what came of asking for a window: it is collected."""
    row = (WindowRequestRow.task_id == task_id) & (WindowRequestRow.window == window)
    await session.execute(delete(WindowRequestRow).where(row))


async def find_announcement(session: AsyncSession, task_id: str) -> Announcement | None:
    """Return what came of announcing a task; None: it was not announced yet."""
    row = await session.get(AnnouncementRow, task_id)
    return None if row is None else Announcement(row.not_before_s, row.problem)


async def save_announcement(session: AsyncSession, task_id: str, announcement: Announcement) -> None:
    """Write what came of announcing a task."""
    await session.merge(AnnouncementRow(task_id=task_id, **vars(announcement)))
    await session.flush()
