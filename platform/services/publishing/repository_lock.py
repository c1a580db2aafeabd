"""Locks the tree for one task of one server, and refuses the writes of a task that has lost the lock.

Three locks, from the inside out, each for what the one before cannot see:

    the folder's     processes on this machine                       (alcove.registry.repository)
    the database's   servers on other machines that share it         (Store.hold_repository; only with PostgreSQL)
    this object's    tasks of this server

The database gives its lock to the next server when it loses sight of ours.  So its holder asks, before each file
that it puts in place, whether the connection that the lock lives in is still there (`LockedDisk`).  What remains is a
server that is cut off from the database in the middle of one rename, for longer than the database waits for a dead
connection (a minute); the database and the folder fail it both at once, or the answer comes before.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from alcove.registry.errors import StorageError
from alcove.runtime.files import Disk
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from alcove.platform.store import Store
    from sqlalchemy.ext.asyncio import AsyncConnection

__all__ = ["LockedDisk", "RepositoryLock"]

ANSWER_S: Final = 10.0  # for "SELECT 1" over a connection that was there a moment ago


class RepositoryLock:
    """Held with `async with` while the tree changes; tasks of this server and other servers queue.

    Entering it raises StoreBusyError or StoreUnavailableError as `Store.hold_repository` does.

    Args:
        store: the database that all servers of the tree share.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tasks = asyncio.Lock()
        self._held: AsyncExitStack | None = None
        self._connection: AsyncConnection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> None:
        await self._tasks.acquire()
        try:
            held = AsyncExitStack()
            self._connection = await held.enter_async_context(self._store.hold_repository())
        except BaseException:
            self._tasks.release()
            raise
        self._held, self._loop = held, asyncio.get_running_loop()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        held, self._held, self._connection = self._held, None, None
        try:
            if held is not None:
                await held.aclose()
        finally:
            self._tasks.release()

    def require(self, what: Path) -> None:
        """Ask whether the lock is held, from a worker thread of the task that holds it.

        Raises:
            StorageError: it is not, or not any more; nothing more may be written.
        """
        if not self._store.is_shared:
            return
        if self._held is None or self._loop is None:
            raise StorageError(str(what), "the tree's lock is not held")
        try:
            asyncio.run_coroutine_threadsafe(self._ask(), self._loop).result(ANSWER_S)
        except (SQLAlchemyError, FutureTimeoutError) as error:
            problem = "the tree's lock is lost with its connection: another server may publish now; repeat"
            raise StorageError(str(what), problem) from error

    async def _ask(self) -> None:
        if self._connection is not None:
            await self._connection.execute(text("SELECT 1"))


class LockedDisk(Disk):
    """The disk of a task that holds the tree's lock: each write and rename asks for the lock first."""

    def __init__(self, lock: RepositoryLock) -> None:
        super().__init__(lambda step, path: lock.require(path) if step in {"write", "rename"} else None)
