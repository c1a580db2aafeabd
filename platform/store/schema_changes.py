"""Says which schema a database has, and brings it to another revision, forwards or backwards.

A server migrates its database forwards by itself when it starts.  Backwards is an operator's decision, because what the
older schema has no place for is lost: `alcove server migrate --to`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alcove.platform.domain.errors import InvalidFieldError, StoreUnavailableError
from alcove.platform.store.dialects import describe_store_errors, open_postgresql, open_sqlite, where_of_url
from alcove.platform.store.schema import Schema, read_revision

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

__all__ = ["SchemaState", "list_revisions", "migrate_to", "read_schema_state"]


@dataclass(frozen=True)
class SchemaState:
    """The revision of a database beside those that this version knows.

    Attributes:
        where: file, or server and name of the database.
        revision: of the database; None: it has no tables of alcove.
        known: of this version, the oldest first.
    """

    where: str
    revision: str | None
    known: tuple[str, ...]

    @property
    def is_newer(self) -> bool:
        """Whether a newer version of alcove made it."""
        return self.revision is not None and self.revision not in self.known


def list_revisions(schema: Schema) -> tuple[str, ...]:
    """Return the revisions of a schema, the oldest first."""
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - half a second, for commands that migrate

    found = ScriptDirectory(str(schema.migrations)).walk_revisions()
    return tuple(reversed([script.revision for script in found]))


async def read_schema_state(location: Path | str, schema: Schema) -> SchemaState:
    """Return which revision a database has; nothing is changed.

    Raises:
        StoreUnavailableError: there is no database, or it cannot be reached.
        StoreDamagedError: it is none.
    """
    where, revision = await _run(location, read_revision)
    return SchemaState(where, revision, list_revisions(schema))


async def migrate_to(location: Path | str, schema: Schema, revision: str) -> tuple[str | None, str]:
    """Bring a database to a revision; return the one before and the new one.  No server may run.

    Args:
        location: a file, or the URL of a PostgreSQL database.
        schema: whose migrations.
        revision: one of `list_revisions`, or "head".

    Raises:
        InvalidFieldError: there is no such revision.
        StoreUnavailableError: there is no database, it cannot be reached, or it is a newer version's.
        StoreDamagedError, StoreBusyError, StoreFullError: as `Store.open`.
    """
    known = list_revisions(schema)
    aim = schema.head if revision == "head" else revision
    if aim not in known:
        raise InvalidFieldError("revision", f"one of {', '.join(known)}, or head", revision)

    def change(connection: "Connection") -> str | None:
        now = read_revision(connection)
        if now is not None and now not in known:
            problem = f"its schema is {now}, of a newer alcove; this version knows {', '.join(known)}"
            raise StoreUnavailableError(where_known, problem)
        from alembic import command  # noqa: PLC0415
        from alembic.config import Config  # noqa: PLC0415

        config = Config()
        config.set_main_option("script_location", str(schema.migrations))
        config.attributes["connection"] = connection
        is_back = now is not None and known.index(aim) < known.index(now)
        (command.downgrade if is_back else command.upgrade)(config, aim)
        return now

    where_known = _where(location)
    _, before = await _run(location, change)
    return before, aim


def _where(location: Path | str) -> str:
    return where_of_url(location) if isinstance(location, str) and "://" in location else str(location)


async def _run(location: Path | str, work: "Callable[[Connection], str | None]") -> tuple[str, str | None]:
    """Do some work in one transaction of a writer, in a database that is there."""
    where = _where(location)
    if isinstance(location, str) and "://" in location:
        engines = open_postgresql(location)
    else:
        if not Path(location).is_file():  # noqa: ASYNC240 - SQLite would make one
            raise StoreUnavailableError(where, "there is no database: start `alcove serve` with keys first")
        engines = open_sqlite(where)
    try:
        with describe_store_errors(where):
            async with engines[2].begin() as connection:
                return where, await connection.run_sync(work)
    finally:
        for engine in engines:
            await engine.dispose()
