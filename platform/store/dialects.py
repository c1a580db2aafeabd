"""Opens SQLite and PostgreSQL so that both keep the same promises, and translates their errors.

                     SQLite (one server)                PostgreSQL (several servers)
    writers queue    BEGIN IMMEDIATE                    an advisory lock, the first statement of each writer
    readers see      the last commit, all through       the same, by REPEATABLE READ
    commits last     synchronous=FULL                   synchronous_commit, switched on where it is off
    a wait ends      busy_timeout                       lock_timeout
    an error says    the statement, never what was in it, in both: it goes to the log

Writers see what was committed before them in both, so code may read, decide and write without a thought of others.
Everything else in this package is the same for both; what cannot be is said here and in the migrations.
"""

import asyncio
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from alcove.platform.domain.errors import (
    ServerError,
    StoreBusyError,
    StoreDamagedError,
    StoreFullError,
    StoreUnavailableError,
)
from sqlalchemy import (
    JSON,
    URL,
    AsyncAdaptedQueuePool,
    BigInteger,
    ColumnElement,
    Connection,
    FromClause,
    Integer,
    Pool,
    Text,
    cast,
    event,
    func,
)
from sqlalchemy.dialects import postgresql, registry, sqlite
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.util import await_only

__all__ = [
    "BIG",
    "BUSY_TIMEOUT_MS",
    "describe_store_errors",
    "insert",
    "insert_into",
    "is_busy",
    "join_sqlite",
    "json_integer",
    "json_text",
    "open_direct_sqlite",
    "open_postgresql",
    "open_sqlite",
    "where_of_url",
]

BUSY_TIMEOUT_MS: Final = 10_000
GUEST_TIMEOUT_MS: Final = 1_000  # of a process that lets others go first; in SQLite it does not wait at all
POOL_CONNECTIONS: Final = 20  # of each server; PostgreSQL admits 100 by default
SEARCH_CONNECTIONS: Final = 4  # of each server besides, so that who looks through all rows keeps nobody from writing
# SQLite's integers have 64 bits and its row ids must be called INTEGER; PostgreSQL's have 32, and time ends in 2038.
BIG: Final = BigInteger().with_variant(Integer, "sqlite")

WRITER_LOCK: Final = 0x616C_636F_7665_0001  # "alcove", 1; advisory locks are numbers, one space for each database
TREE_LOCK: Final = 0x616C_636F_7665_0002

_SQLITE_CODE: Final = 0xFF  # the primary part of an error code
_KEEPALIVE: Final = {"tcp_keepalives_idle": "30", "tcp_keepalives_interval": "10", "tcp_keepalives_count": "3"}
_HOSTS: Final = re.compile(r"[\w.,:/\[\]-]*")
_PORTS: Final = re.compile(r"[0-9,]*")
_T = TypeVar("_T")


class DirectDialect(SQLiteDialect_pysqlite):
    """Python's own SQLite as an asyncio engine takes it, in the event loop's thread: for short reads.

    A look-up by key takes half the processor time that it takes with aiosqlite, of which each step is two switches of
    threads; and no transaction is open while a thread waits for Python's lock (decision 0033).
    """

    driver = "alcove_direct"
    is_async = True
    supports_statement_cache = True

    @classmethod
    def get_pool_class(cls, url: URL) -> type[Pool]:  # noqa: ARG003 - SQLAlchemy's signature
        """Return the pool of asyncio engines."""
        return AsyncAdaptedQueuePool


class _DirectCursor(sqlite3.Cursor):
    """A cursor with the one thing more that SQLAlchemy asks of asyncio's."""

    async def _async_soft_close(self) -> None:
        """Do nothing: no other thread holds anything."""


class _DirectConnection(sqlite3.Connection):
    """A connection whose cursors asyncio's engines take; always used by one thread at a time, the event loop's."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options | {"check_same_thread": False})

    def cursor(self, factory: Any = _DirectCursor) -> Any:
        """Return a cursor."""
        return super().cursor(factory)


class _ThreadCommitConnection(_DirectConnection):
    """A connection that commits, which waits for the disk, in another thread, while the event loop goes on."""

    def commit(self) -> None:
        """Commit and sync."""
        await_only(_end_in_thread(super().commit))


async def _end_in_thread(step: Callable[[], None]) -> None:
    """Run a step in a thread and return when it has ended; a cancellation is heeded then, never while it runs."""
    running = asyncio.get_running_loop().run_in_executor(None, step)
    cancellation: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait((running,))
        except asyncio.CancelledError as error:
            cancellation = error
    running.result()
    if cancellation is not None:
        raise cancellation


registry.register("sqlite.alcove_direct", __name__, "DirectDialect")


def open_sqlite(path: str) -> tuple[AsyncEngine, AsyncEngine, AsyncEngine]:
    """Return engines for short reads, long reads and writers of a file, each with connections of its own."""
    engine = create_async_engine(f"sqlite+aiosqlite:///{path}", hide_parameters=True)
    searchers = create_async_engine(
        f"sqlite+aiosqlite:///{path}", pool_size=SEARCH_CONNECTIONS, max_overflow=0, hide_parameters=True
    )
    direct = create_async_engine(
        f"sqlite+alcove_direct:///{path}",
        connect_args={"factory": _DirectConnection},
        pool_size=POOL_CONNECTIONS,
        hide_parameters=True,
    )
    for each in (engine, searchers, direct):
        event.listen(each.sync_engine, "connect", _set_pragmas)
        event.listen(each.sync_engine, "begin", _begin_sqlite)
    event.listen(direct.sync_engine, "connect", _wait_for_nobody)
    return direct, searchers, engine.execution_options(is_writer=True)


def join_sqlite(path: str) -> tuple[AsyncEngine, AsyncEngine, AsyncEngine]:
    """Return engines as `open_sqlite` for a process that lets others write first.

    Its writers fail at once where another one writes.  They run in the event loop's thread: between two of its steps a
    transaction would otherwise hold the database while it waits for Python's lock, and others would wait with it.
    """
    readers, writers = _open_direct(path, _DirectConnection)
    return readers, writers, writers.execution_options(is_writer=True)


def open_direct_sqlite(path: str) -> tuple[AsyncEngine, AsyncEngine, AsyncEngine]:
    """Return engines as `join_sqlite` for the one process of a file, whose commits wait for the disk in a thread.

    A statement takes the event loop's thread some tens of microseconds, a third of what handing it to another one and
    back would take; the caller lets one writer at a time begin.
    """
    readers, writers = _open_direct(path, _ThreadCommitConnection)
    return readers, readers, writers.execution_options(is_writer=True)


def _open_direct(path: str, writer: type[_DirectConnection]) -> tuple[AsyncEngine, AsyncEngine]:
    """Return engines of readers and of writers whose statements run in the event loop's thread."""
    engines = [
        create_async_engine(
            f"sqlite+alcove_direct:///{path}",
            connect_args={"factory": factory},
            pool_size=POOL_CONNECTIONS,
            hide_parameters=True,
        )
        for factory in (_DirectConnection, writer)
    ]
    for each, prepare in zip(engines, (_wait_for_nobody, _let_others_go_first), strict=True):
        event.listen(each.sync_engine, "connect", _set_pragmas)
        event.listen(each.sync_engine, "begin", _begin_sqlite)
        event.listen(each.sync_engine, "connect", prepare)
    return engines[0], engines[1]


def open_postgresql(url: str, *, wait_ms: int | None = None) -> tuple[AsyncEngine, AsyncEngine, AsyncEngine]:
    """Return engines for short reads, long reads and writers of a database; the first and the last share connections.

    The URL goes to libpq as it is, so that all of its ways to name servers, TLS and password files work, and so that
    no engine, log or error of SQLAlchemy holds a password.

    Args:
        url: see there.
        wait_ms: how long a writer waits for others; None: BUSY_TIMEOUT_MS.
    """
    import psycopg  # noqa: PLC0415 - who has SQLite needs no libpq

    wait_ms = BUSY_TIMEOUT_MS if wait_ms is None else wait_ms

    async def connect() -> "psycopg.AsyncConnection[Any]":
        connection = await psycopg.AsyncConnection.connect(url, autocommit=True, application_name="alcove")
        try:
            # A dead machine's locks are free after a minute, not after two hours.
            settings = {"lock_timeout": str(wait_ms), "idle_in_transaction_session_timeout": "0"} | _KEEPALIVE
            for name, value in settings.items():
                await connection.execute("SELECT set_config(%s, %s, false)", (name, value))
            await connection.execute(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') = 'off'"
            )
            await connection.set_autocommit(False)
        except BaseException:
            await connection.close()
            raise
        return connection

    engine, searchers = (
        create_async_engine(
            "postgresql+psycopg://",
            async_creator=connect,
            hide_parameters=True,
            pool_pre_ping=True,  # the database may have been restarted
            pool_size=size // 2,
            max_overflow=size // 2,
            pool_timeout=wait_ms / 1000,
        )
        for size in (POOL_CONNECTIONS, SEARCH_CONNECTIONS)
    )
    for each in (engine, searchers):
        event.listen(each.sync_engine, "begin", _begin_postgresql)
    readers, searchers = (each.execution_options(isolation_level="REPEATABLE READ") for each in (engine, searchers))
    # Not REPEATABLE READ: its snapshot would be older than the wait for the lock.
    return readers, searchers, engine.execution_options(isolation_level="READ COMMITTED", is_writer=True)


def where_of_url(url: str) -> str:
    """Return what of a database's URL may be shown: server and name, never a user or a password.

    Raises:
        StoreUnavailableError: libpq cannot read it; what it says of the URL is kept back, for it may quote a password.
    """
    from psycopg import ProgrammingError  # noqa: PLC0415
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415

    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except ProgrammingError:
        parts = {"port": "?"}
    host, port, name = (parts.get(part, "") for part in ("host", "port", "dbname"))
    # A password with an unescaped "/" or "@" makes a URL that libpq reads in another way: as a host or a port.
    if not (_HOSTS.fullmatch(host) and _PORTS.fullmatch(port) and "@" not in name):
        problem = "no URL that libpq reads (postgresql://user@host:port/name; special characters as %XX)"
        raise StoreUnavailableError("the database", problem)
    return f"postgresql://{host}:{port}/{name}"


def insert(session: AsyncSession, table: type[_T]) -> "sqlite.Insert":
    """Return the database's own INSERT, which knows ON CONFLICT; both have the same methods for it."""
    return insert_into(session.get_bind().dialect.name, table)


def json_text(session: AsyncSession, column: InstrumentedAttribute[Any], name: str) -> ColumnElement[str]:
    """Return the text that a name has in a column of JSON objects; NULL where there is none."""
    if session.get_bind().dialect.name == "postgresql":
        text: ColumnElement[str] = cast(column, JSON)[name].as_string()
        return text
    found: ColumnElement[str] = func.json_extract(column, f"$.{name}", type_=Text)
    return found


def json_integer(session: AsyncSession, column: InstrumentedAttribute[Any], name: str) -> ColumnElement[int]:
    """Return the integer that a name has in a column of JSON objects; NULL where there is none."""
    if session.get_bind().dialect.name == "postgresql":
        integer: ColumnElement[int] = cast(column, JSON)[name].as_integer()
        return integer
    found: ColumnElement[int] = func.json_extract(column, f"$.{name}", type_=Integer)
    return found


def insert_into(dialect: str, table: "type[_T] | FromClause") -> "sqlite.Insert":
    """Return `insert` of the dialect that a connection names."""
    if dialect == "postgresql":
        return postgresql.insert(table)  # type: ignore[return-value,arg-type]
    return sqlite.insert(table)  # type: ignore[arg-type]


@contextmanager
def describe_store_errors(where: str) -> Iterator[None]:
    """Give what the database itself reports a type of ours."""
    try:
        yield
    except PoolTimeoutError as error:
        raise StoreBusyError from error
    except DBAPIError as error:
        kind = _kind(error)
        if kind is None:
            raise
        raise (kind() if kind is StoreBusyError else kind(where, " ".join(str(error.orig).split()))) from error


def is_busy(error: DBAPIError) -> bool:
    """Tell whether the database said that another process writes."""
    return _kind(error) is StoreBusyError


_Kind = Callable[..., ServerError]


def _kind(error: DBAPIError) -> _Kind | None:
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        return _SQLITE_KINDS.get(code & _SQLITE_CODE)
    state = getattr(error.orig, "sqlstate", None)
    if state is None:  # libpq's own: no server, or none any more
        return StoreUnavailableError if isinstance(error, OperationalError) else None
    return next((kind for start, kind in _POSTGRESQL_KINDS.items() if state.startswith(start)), None)


_SQLITE_KINDS: Final[dict[int, _Kind]] = {
    sqlite3.SQLITE_BUSY: StoreBusyError,
    sqlite3.SQLITE_CORRUPT: StoreDamagedError,
    sqlite3.SQLITE_NOTADB: StoreDamagedError,
    sqlite3.SQLITE_FULL: StoreFullError,
    sqlite3.SQLITE_IOERR: StoreUnavailableError,
}
# By the beginning of an SQLSTATE; the longer ones first.
_POSTGRESQL_KINDS: Final[dict[str, _Kind]] = {
    "55P03": StoreBusyError,  # lock_timeout
    "40": StoreBusyError,  # a deadlock or a failed serialization
    "53100": StoreFullError,
    "53": StoreUnavailableError,  # too many connections, no memory
    "57P": StoreUnavailableError,  # shut down, or starting
    "08": StoreUnavailableError,
    "28": StoreUnavailableError,  # not let in
    "3D": StoreUnavailableError,  # no such database
    "25006": StoreUnavailableError,  # a standby
    "XX": StoreDamagedError,
}


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


def _wait_for_nobody(connection: Any, _record: object) -> None:
    """Let a reader in the event loop's thread fail instead of holding up everything; nobody makes it wait anyway."""
    cursor = connection.cursor()
    cursor.execute("PRAGMA busy_timeout=100")
    cursor.close()


def _let_others_go_first(connection: Any, _record: object) -> None:
    """Let a writer fail at once where another one writes."""
    cursor = connection.cursor()
    cursor.execute("PRAGMA busy_timeout=0")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    """Begin as a reader or as a writer, as the execution option says."""
    mode = "IMMEDIATE" if connection.get_execution_options().get("is_writer") else "DEFERRED"
    connection.exec_driver_sql(f"BEGIN {mode}")


def _begin_postgresql(connection: Connection) -> None:
    """Let a writer wait until the writer before it has committed."""
    if connection.get_execution_options().get("is_writer"):
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({WRITER_LOCK})")
