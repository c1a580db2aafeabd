"""How is the database opened, migrated and used in transactions?

Writers begin with BEGIN IMMEDIATE: two of them queue (up to `BUSY_TIMEOUT_MS`) instead of failing half-way; readers see
the last commit and never wait.  Every commit is synced before it returns, because a stored response promises.
"""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Self

from alcove.platform.core.errors import StoreBusyError, StoreDamagedError
from alcove.platform.store.migrations import HEAD
from sqlalchemy import Connection, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

__all__ = ["DATABASE_FILE", "Store"]

DATABASE_FILE = "alcove.db"  # in the server's data folder
BUSY_TIMEOUT_MS = 10_000
_CODE = 0xFF  # the primary part of an error code
MIGRATIONS = Path(__file__).parent / "migrations"


def _make_private_file(path: Path) -> None:
    """Make the file readable by its owner only; SQLite gives its companions the same mode."""
    path.touch(mode=0o600, exist_ok=True)


def _set_pragmas(connection: Any, _record: object) -> None:
    """Prepare a fresh connection; the driver's own transaction handling is switched off."""
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA recursive_triggers=ON")  # INSERT OR REPLACE deletes too: let the triggers see it
    cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    cursor.close()


def _begin(connection: Connection) -> None:
    """Begin as a reader or as a writer, as the execution option says."""
    mode = "IMMEDIATE" if connection.get_execution_options().get("is_writer") else "DEFERRED"
    connection.exec_driver_sql(f"BEGIN {mode}")


def _migrate(connection: Connection) -> None:
    """Bring the schema to the newest revision."""
    if connection.dialect.has_table(connection, "alembic_version"):
        revision = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
        if revision == HEAD:
            return
    from alembic import command  # noqa: PLC0415 - most starts migrate nothing, and are half a second faster without
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


@contextmanager
def _told(path: str | None) -> Iterator[None]:
    """Give what the database itself reports a type of ours."""
    try:
        yield
    except DBAPIError as error:
        code = getattr(error.orig, "sqlite_errorcode", 0) & _CODE
        if code == sqlite3.SQLITE_BUSY:
            raise StoreBusyError from error
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise StoreDamagedError(str(path), str(error.orig)) from error
        raise


class Store:
    """The server's rows.  `read` and `write` give sessions; modules of this package hold the questions."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._readers = engine
        self._writers = engine.execution_options(is_writer=True)

    @classmethod
    async def open(cls, path: Path) -> Self:
        """Open the database file (made 0600 if missing) and migrate it to the newest schema.

        Raises:
            OSError: the file cannot be made.
            StoreDamagedError: it is no database, or a damaged one.
            StoreBusyError: another writer holds it.
        """
        _make_private_file(path)
        engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
        event.listen(engine.sync_engine, "connect", _set_pragmas)
        event.listen(engine.sync_engine, "begin", _begin)
        store = cls(engine)
        try:
            with _told(str(path)):
                async with store._writers.begin() as connection:
                    await connection.run_sync(_migrate)
        except BaseException:
            await engine.dispose()
            raise
        return store

    async def close(self) -> None:
        """Close all connections."""
        await self._readers.dispose()

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncSession]:
        """Give a session that sees the last commit; what it changes is thrown away.

        Raises:
            StoreDamagedError: the file is damaged.
        """
        with _told(self._readers.url.database):
            async with AsyncSession(self._readers, expire_on_commit=False) as session:
                yield session

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncSession]:
        """Give a session whose changes are committed and synced together at the end, or not at all.

        Raises:
            StoreBusyError: another writer held the database for longer than `BUSY_TIMEOUT_MS`.
            StoreDamagedError: the file is damaged.
        """
        with _told(self._readers.url.database):
            async with AsyncSession(self._writers, expire_on_commit=False) as session, session.begin():
                yield session
