"""Opens the server's database, for itself and for the processes that join it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, Self

from alcove.platform.domain.errors import StoreUnavailableError
from alcove.platform.store.dialects import (
    GUEST_TIMEOUT_MS,
    TREE_LOCK,
    describe_store_errors,
    join_sqlite,
    open_postgresql,
    where_of_url,
)
from alcove.platform.store.migrations import HEAD
from alcove.platform.store.schema import Database, Schema
from alcove.platform.store.version_cache import VersionCache
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

__all__ = ["DATABASE_FILE", "Store", "database_of"]

DATABASE_FILE = "alcove.db"  # in the server's data folder
MIGRATIONS: Final = Path(__file__).parent / "migrations"


def database_of(data_dir: Path, url: str | None) -> Path | str:
    """Return where the database of a data folder is: at the URL, or in the folder where there is none."""
    return url or data_dir / DATABASE_FILE


class Store(Database):
    """The server's rows.

    Attributes:
        version_cache: answers that hold until the next commit.
    """

    schema = Schema(MIGRATIONS, HEAD)

    def __init__(self, readers: AsyncEngine, searchers: AsyncEngine, writers: AsyncEngine, *, where: str) -> None:
        super().__init__(readers, searchers, writers, where=where)
        self.version_cache = VersionCache(None if self.is_shared else where)

    @classmethod
    async def join(cls, location: Path | str) -> Self:
        """Open a database that another process migrated, to read it, and to write when that one does not.

        Raises:
            StoreDamagedError: it is no database, or a damaged one.
            StoreUnavailableError: it cannot be reached, or has another schema than this version's.
        """
        if isinstance(location, str) and "://" in location:
            where = where_of_url(location)
            readers, searchers, writers = open_postgresql(location, wait_ms=GUEST_TIMEOUT_MS)
        else:
            where = str(location)
            if not await asyncio.to_thread(Path(location).is_file):  # SQLite would make one
                raise StoreUnavailableError(where, "there is no database: start `alcove serve` with keys first")
            readers, searchers, writers = join_sqlite(where)
        store = cls(readers, searchers, writers, where=where)
        try:
            with describe_store_errors(where):
                async with readers.begin() as connection:
                    is_migrated = await connection.run_sync(cls.schema.is_applied)
        except BaseException:
            await store.close()
            raise
        if not is_migrated:
            await store.close()
            raise StoreUnavailableError(where, "it has not this version's schema: start `alcove serve` with keys first")
        return store

    async def close(self) -> None:
        """Close all connections."""
        self.version_cache.close()
        await super().close()

    @asynccontextmanager
    async def hold_repository(self) -> AsyncIterator[AsyncConnection | None]:
        """Keep other servers of this database from changing the tree; None where there can be no others.

        The lock lives as long as the connection that is given: who finds it broken has lost the lock.

        Raises:
            StoreBusyError: another server held the lock for too long.
            StoreUnavailableError: the database cannot be reached.
        """
        if not self.is_shared:
            yield None
            return
        with describe_store_errors(self.where):
            # A transaction's lock, not a session's: poolers between us and the server may not keep sessions together.
            async with self._readers.connect() as connection:
                await connection.execute(text(f"SELECT pg_advisory_xact_lock({TREE_LOCK})"))
                yield connection
                with suppress(DBAPIError):  # what was done under the lock is done, whatever became of the connection
                    await connection.rollback()
