"""Opens an aggregator's database."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar

from alcove.platform.aggregator.store.migrations import HEAD
from alcove.platform.core.tracing import span
from alcove.platform.store.dialects import BUSY_TIMEOUT_MS, describe_store_errors, is_busy, open_direct_sqlite
from alcove.platform.store.schema import Database, Schema
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

__all__ = ["DATABASE_FILE", "AggregatorDatabase", "run_in"]

_T = TypeVar("_T")
_P = ParamSpec("_P")

DATABASE_FILE: Final = "aggregator.db"
"""In the aggregator's data folder."""

_AGAIN_S: Final = 0.01
"""Seconds between two attempts to begin while another process writes."""


class AggregatorDatabase(Database):
    """An aggregator's rows. Writers of a SQLite file queue; those of PostgreSQL run at once and lock rows (A6).

    Transactions of a SQLite file run in the event loop's thread but for their commits (decision 0052).
    """

    schema = Schema(Path(__file__).parent / "migrations", HEAD)

    def __init__(self, readers: AsyncEngine, searchers: AsyncEngine, writers: AsyncEngine, *, where: str) -> None:
        super().__init__(readers, searchers, writers, where=where)
        self._turn = asyncio.Lock()
        if self.is_shared:
            self._writers = writers.execution_options(is_writer=False)

    @classmethod
    def _open_file(cls, path: str) -> tuple[AsyncEngine, AsyncEngine, AsyncEngine]:
        return open_direct_sqlite(path)

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncSession]:
        """Give a session whose changes are committed and synced together at the end, or not at all.

        Raises:
            StoreBusyError, StoreDamagedError, StoreFullError, StoreUnavailableError: as `Database.write`.
        """
        if self.is_shared:
            async with super().write() as session:
                yield session
            return
        with describe_store_errors(self.where), span("store write"):
            async with self._turn, AsyncSession(self._writers, expire_on_commit=False) as session, session.begin():
                await _begin(session)
                yield session


async def _begin(session: AsyncSession) -> None:
    """Begin as the one writer of the file; another process's transaction is waited for, and this thread goes on."""
    until_s = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            await session.connection()
        except OperationalError as error:
            if not is_busy(error) or time.monotonic() >= until_s:
                raise
            await asyncio.sleep(_AGAIN_S)
        else:
            return


async def run_in(
    session: AsyncSession, step: Callable[Concatenate[Connection, _P], _T], *args: _P.args, **kwargs: _P.kwargs
) -> _T:
    """Return what a function makes of the connection of a session's transaction; its statements run as one step."""
    return await session.run_sync(lambda inner: step(inner.connection(), *args, **kwargs))
