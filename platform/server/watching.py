"""Looks at a record again and again for those who watch it, and yields it at each change.

The database is read, so that changes of other servers and of the command line are seen, too.  On SQLite all who watch
the same record share one read of it until the next commit (`VersionCache`): a hundred cost little more than one.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from typing import TypeVar

from alcove.platform.domain import limits
from alcove.platform.store import Store
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["changes", "read_shared"]

_Record = TypeVar("_Record")


async def changes(look: Callable[[], Awaitable[_Record]], mark: Callable[[_Record], object]) -> AsyncGenerator[_Record]:
    """Yield what is there now, and again whenever its mark differs from the last one's; endless.

    Args:
        look: reads the record.
        mark: says what of it counts.
    """
    last: object = None
    while True:
        record = await look()
        seen = mark(record)
        if seen != last:
            yield record
        last = seen
        await asyncio.sleep(limits.WATCH_S)


async def read_shared(store: Store, key: Hashable, read: Callable[[AsyncSession], Awaitable[_Record]]) -> _Record:
    """Return what `read` returned since the last commit, or returns now; nobody may change it."""

    async def look() -> _Record:
        async with store.read() as session:
            return await read(session)

    return await store.version_cache.answer(("watched", key), look)
