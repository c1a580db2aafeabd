"""Opens and migrates databases, and gives sessions for transactions in them.

Writers queue (up to `BUSY_TIMEOUT_MS`) instead of failing half-way; readers see the last commit and never wait.  Every
commit is synced before it returns, because a stored response promises.  All of it holds for a SQLite file, which one
server has for itself, and for PostgreSQL, which several share (see `dialects`).
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from alcove.platform.core.tracing import span
from alcove.platform.domain.errors import SchemaTooNewError
from alcove.platform.store.dialects import describe_store_errors, open_postgresql, open_sqlite, where_of_url
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

__all__ = ["Database", "Schema", "read_revision"]


@dataclass(frozen=True)
class Schema:
    """Tables of one kind of database.

    Attributes:
        migrations: the folder of Alembic's scripts.
        head: the newest revision.
    """

    migrations: Path
    head: str

    def is_applied(self, connection: Connection) -> bool:
        """Tell whether the database has the newest revision."""
        return read_revision(connection) == self.head

    def migrate(self, connection: Connection, where: str = "the database") -> str | None:
        """Bring the database, shown as `where`, to the newest revision.

        Returns:
            The revision that it had; None where it had none, or has the newest.

        Raises:
            SchemaTooNewError: it has a revision that is not among ours.
        """
        if self.is_applied(connection):
            return None
        before = read_revision(connection)
        from alembic import command  # noqa: PLC0415 - most starts migrate nothing, and are half a second faster without
        from alembic.config import Config  # noqa: PLC0415
        from alembic.script import ScriptDirectory  # noqa: PLC0415

        config = Config()
        config.set_main_option("script_location", str(self.migrations))
        config.attributes["connection"] = connection
        revisions = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
        if before is not None and before not in revisions:
            raise SchemaTooNewError(where, before, self.head)
        command.upgrade(config, "head")
        return before


def read_revision(connection: Connection) -> str | None:
    """Return the revision of a database, None where it has no tables of ours."""
    if not connection.dialect.has_table(connection, "alembic_version"):
        return None
    found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    return None if found is None else str(found)


class Database:
    """Rows of one schema.  `read` and `write` give sessions; modules of the owner's package hold the questions.

    Attributes:
        schema: of the database; each subclass has its own.
        where: the file, or server and name of the database; never a password.
        is_shared: whether other processes on other machines may use it at the same time.
        migrated_from: the revision from which opening it has migrated it; None: it has not.
    """

    schema: ClassVar[Schema]

    def __init__(self, readers: AsyncEngine, searchers: AsyncEngine, writers: AsyncEngine, *, where: str) -> None:
        self._readers = readers
        self._searchers = searchers
        self._writers = writers
        self.where = where
        self.is_shared = readers.dialect.name == "postgresql"
        self.migrated_from: str | None = None

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
            SchemaTooNewError: a newer alcove has written it.
            StoreUnavailableError: the server of the database cannot be reached, or refuses.
        """
        if isinstance(location, str) and "://" in location:
            where = where_of_url(location)
            readers, searchers, writers = open_postgresql(location)
        else:
            where = str(location)
            _make_private_file(Path(location))
            readers, searchers, writers = cls._open_file(where)
        store = cls(readers, searchers, writers, where=where)
        try:
            with describe_store_errors(where):
                async with writers.begin() as connection:
                    store.migrated_from = await connection.run_sync(cls.schema.migrate, where)
        except BaseException:
            await store.close()
            raise
        return store

    @classmethod
    def _open_file(cls, path: str) -> tuple[AsyncEngine, AsyncEngine, AsyncEngine]:
        """Return engines for short reads, long reads and writers of a SQLite file."""
        return open_sqlite(path)

    async def close(self) -> None:
        """Close all connections."""
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

    async def find_revision(self) -> str | None:
        """Return the revision that the database has now; None: it has no tables of ours.

        Raises:
            StoreDamagedError, StoreUnavailableError: as `read`.
        """
        async with self.read() as session:
            return await (await session.connection()).run_sync(read_revision)

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


def _make_private_file(path: Path) -> None:
    """Make the file readable by its owner only; SQLite gives its companions the same mode."""
    path.touch(mode=0o600, exist_ok=True)
