"""Opens and migrates the database, and gives sessions for transactions in it.

Writers queue (up to `BUSY_TIMEOUT_MS`) instead of failing half-way; readers see the last commit and never wait.  Every
commit is synced before it returns, because a stored response promises.  All of it holds for a SQLite file, which one
server has for itself, and for PostgreSQL, which several share (see `dialects`).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Self

from alcove.platform.core.tracing import span
from alcove.platform.domain.errors import StoreUnavailableError
from alcove.platform.store.dialects import (
    GUEST_TIMEOUT_MS,
    TREE_LOCK,
    describe_store_errors,
    join_sqlite,
    open_postgresql,
    open_sqlite,
    where_of_url,
)
from alcove.platform.store.migrations import HEAD
from alcove.platform.store.version_cache import VersionCache
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession

__all__ = ["DATABASE_FILE", "Store", "database_of"]

DATABASE_FILE = "alcove.db"  # in the server's data folder
MIGRATIONS = Path(__file__).parent / "migrations"


def database_of(data_dir: Path, url: str | None) -> Path | str:
    """Return where the database of a data folder is: at the URL, or in the folder where there is none."""
    return url or data_dir / DATABASE_FILE


def _make_private_file(path: Path) -> None:
    """Make the file readable by its owner only; SQLite gives its companions the same mode."""
    path.touch(mode=0o600, exist_ok=True)


def _is_migrated(connection: Connection) -> bool:
    """Tell whether the schema is the newest revision's."""
    if not connection.dialect.has_table(connection, "alembic_version"):
        return False
    return bool(connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar() == HEAD)


def _migrate(connection: Connection) -> None:
    """Bring the schema to the newest revision."""
    if _is_migrated(connection):
        return
    from alembic import command  # noqa: PLC0415 - most starts migrate nothing, and are half a second faster without
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


class Store:
    """The server's rows.  `read` and `write` give sessions; modules of this package hold the questions.

    Attributes:
        where: the file, or server and name of the database; never a password.
        is_shared: whether other servers may use it at the same time.
        version_cache: answers that hold until the next commit.
    """

    def __init__(self, readers: AsyncEngine, searchers: AsyncEngine, writers: AsyncEngine, *, where: str) -> None:
        self._readers = readers
        self._searchers = searchers
        self._writers = writers
        self.version_cache = VersionCache(None if readers.dialect.name == "postgresql" else where)
        self.where = where
        self.is_shared = readers.dialect.name == "postgresql"

    @classmethod
    async def open(cls, location: Path | str) -> Self:
        """Open the database and migrate it to the newest schema.

        Args:
            location: a SQLite file (made 0600 if missing), or the URL of a PostgreSQL database as libpq reads it.

        Raises:
            OSError: the file cannot be made.
            StoreDamagedError: it is no database, or a damaged one.
            StoreBusyError: another writer holds it.
            StoreFullError: its disk is full.
            StoreUnavailableError: the server of the database cannot be reached, or refuses.
        """
        if isinstance(location, str) and "://" in location:
            where = where_of_url(location)
            readers, searchers, writers = open_postgresql(location)
        else:
            where = str(location)
            _make_private_file(Path(location))
            readers, searchers, writers = open_sqlite(where)
        store = cls(readers, searchers, writers, where=where)
        try:
            with describe_store_errors(where):
                async with writers.begin() as connection:
                    await connection.run_sync(_migrate)
        except BaseException:
            await store.close()
            raise
        return store

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
                    is_migrated = await connection.run_sync(_is_migrated)
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
        for engine in (self._readers, self._searchers, self._writers):
            await engine.dispose()

    @asynccontextmanager
    async def read(self, *, is_long: bool = False) -> AsyncIterator[AsyncSession]:
        """Give a session that sees the last commit; what it changes is thrown away.

        Args:
            is_long: whether it looks through many rows: nothing else of this process waits for it then.

        Raises:
            StoreDamagedError: the database is damaged.
            StoreUnavailableError: it cannot be reached.
        """
        with describe_store_errors(self.where), span("store read"):
            engine = self._searchers if is_long else self._readers
            async with AsyncSession(engine, expire_on_commit=False) as session:
                yield session

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncSession]:
        """Give a session whose changes are committed and synced together at the end, or not at all.

        Raises:
            StoreBusyError: another writer held the database for longer than `BUSY_TIMEOUT_MS`.
            StoreDamagedError: the database is damaged.
            StoreFullError: its disk is full.
            StoreUnavailableError: it cannot be reached; whether the changes were committed is not known.
        """
        with describe_store_errors(self.where), span("store write"):
            async with AsyncSession(self._writers, expire_on_commit=False) as session, session.begin():
                yield session

    @asynccontextmanager
    async def rehearse(self) -> AsyncIterator[AsyncSession]:
        """Give a session that changes rows as a writer does, and throws away what it changed.

        Raises:
            StoreBusyError, StoreDamagedError, StoreFullError, StoreUnavailableError: as `write`.
        """
        with describe_store_errors(self.where):
            async with AsyncSession(self._writers, expire_on_commit=False) as session:
                yield session
                await session.flush()  # what the database refuses, it refuses now

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
