"""The database keeps what it promises by itself."""

import asyncio
import contextlib
import sqlite3
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import psycopg
import pytest
from alcove.platform.domain.errors import (
    RequestIdReusedError,
    StoreBusyError,
    StoreDamagedError,
    StoreFullError,
    StoreUnavailableError,
)
from alcove.platform.domain.records import Page
from alcove.platform.domain.value_overrides import ValueOverride
from alcove.platform.server.status import status_of
from alcove.platform.store import (
    Store,
    audit,
    catalog_tables,  # noqa: F401 - its tables join those of `Base`
    dialects,
    metric_tables,  # noqa: F401 - likewise
)
from alcove.platform.store.audit import AuditFilter, list_audit, search_audit, select_newest, write_audit
from alcove.platform.store.database import MIGRATIONS
from alcove.platform.store.migrations import HEAD
from alcove.platform.store.reports import add_counts, cell_counts, reported_windows
from alcove.platform.store.requests import find_response, keep_response
from alcove.platform.store.tables import AuditRow, Base
from alcove.platform.store.value_overrides import save_override, standing_overrides
from alcove.platform.store.versions import add_version, find_version
from alcove.platform.testing.postgres import PostgresServer
from alcove.registry.parameters import Setting
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, insert, inspect, text
from sqlalchemy.exc import DBAPIError


async def test_the_migrations_make_the_schema_that_the_code_expects(store: Store) -> None:
    """Models and migrations cannot drift apart."""
    async with store._readers.connect() as connection:
        differences = await connection.run_sync(
            lambda sync: compare_metadata(MigrationContext.configure(sync), Base.metadata)
        )
    assert differences == []


def test_the_newest_revision_is_the_one_that_the_store_looks_for() -> None:
    """A new revision without its number in `migrations/__init__.py` would never run."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


async def test_opening_again_keeps_everything(database: Path | str) -> None:
    """Migrations run at every start and change nothing that is up to date."""
    for count in (1, 2, 3):
        store = await Store.open(database)
        async with store.write() as session:
            await write_audit(session, at_s=1, principal="p", action="a", subject="s", details={"n": count})
        async with store.read() as session:
            assert len(await list_audit(session, Page(0, 100))) == count
        await store.close()


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    """Rubbish is reported as such and left as it was."""
    path = tmp_path / "rubbish.db"
    path.write_bytes(b"this is not a database, it is a sentence" * 100)
    before = path.read_bytes()
    with pytest.raises(StoreDamagedError, match=r"rubbish\.db"):
        await Store.open(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("table", ["audit", "versions"])
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {table} SET {column} = 'other'",
        "DELETE FROM {table}",
        "DELETE FROM {table} WHERE sequence = 1",
        "{replace}",
        "{truncate}",
    ],
)
async def test_audit_and_versions_only_grow(store: Store, table: str, statement: str) -> None:
    """Even with the connection, entries can neither be changed, replaced nor removed."""
    if store.is_shared:
        replace = f"INSERT INTO {table} SELECT * FROM {table} ON CONFLICT (sequence) DO UPDATE SET sequence = 7"
        truncate = f"TRUNCATE {table} CASCADE"
    else:
        replace = f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}"
        truncate = f"DELETE FROM {table} WHERE 1"  # what SQLite optimizes to a truncation
    async with store.write() as session:
        await write_audit(session, at_s=1, principal="p", action="a", subject="s", details={})
        await add_version(
            session, feature="f", version="1.0.0", team="t", manifest_sha256="0", manifest=b'{"variants":[]}',
            published_at_s=1,
        )  # fmt: skip
    column = {"audit": "action", "versions": "version"}[table]
    with pytest.raises(DBAPIError, match="append-only"):
        async with store.write() as session:
            await session.execute(
                text(statement.format(table=table, column=column, replace=replace, truncate=truncate))
            )
    async with store.read() as session:
        assert [entry.action for entry in await list_audit(session, Page(0, 10))] == ["a"]
        assert await find_version(session, "f", "1.0.0") is not None


async def test_a_failed_change_leaves_nothing(store: Store) -> None:
    """An exception in the middle undoes all of the transaction."""

    async def change() -> None:
        async with store.write() as session:
            await write_audit(session, at_s=1, principal="p", action="a", subject="s", details={})
            await add_counts(session, {("t", 0, 0): 1})
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await change()
    async with store.read() as session:
        assert await list_audit(session, Page(0, 10)) == []
        assert await cell_counts(session, "t", 1) == [0]


async def test_writers_queue_and_lose_no_count(store: Store) -> None:
    """Twenty writers at once add up."""

    async def add() -> None:
        async with store.write() as session:
            await add_counts(session, {("t", 3, 1): 2, ("t", 7, 0): 1})

    await asyncio.gather(*(add() for _ in range(20)))
    async with store.read() as session:
        assert await cell_counts(session, "t", 3) == [20, 40, 0]
        assert await reported_windows(session, "t") == (2, 5)
        assert await reported_windows(session, "another") == (0, 0)


async def test_reports_leave_sums_and_no_rows_of_their_own(store: Store) -> None:
    """A thousand reports of one cell are one row that says 1000."""
    for _ in range(10):
        async with store.write() as session:
            await add_counts(session, {("t", 0, 0): 100})
    async with store.read() as session:
        rows = (await session.execute(text("SELECT * FROM report_counts"))).all()
    assert [tuple(row) for row in rows] == [("t", 0, 0, 1000)]


async def test_a_request_id_answers_its_own_content_only(store: Store) -> None:
    """Same caller, id and content: the stored answer; another content: refused; another caller: new."""
    key = {"principal": "operator", "request_id": "r-1", "method": "CreateRollout", "content_sha256": "aa"}
    async with store.write() as session:
        await keep_response(session, **key, response=b"answer", now_s=1)
    async with store.read() as session:
        assert await find_response(session, **key) == b"answer"
        assert await find_response(session, **(key | {"principal": "team:text"})) is None
        for other in ({"content_sha256": "bb"}, {"method": "PauseRollout"}):
            with pytest.raises(RequestIdReusedError, match="r-1"):
                await find_response(session, **(key | other))


async def test_a_writer_that_waits_in_vain_is_refused(database: Path | str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process holds the database for too long: UNAVAILABLE to the caller; then all is well."""
    monkeypatch.setattr(dialects, "BUSY_TIMEOUT_MS", 20)
    store = await Store.open(database)
    with hold_writer(database) as release:
        for is_held in (True, False):
            with pytest.raises(StoreBusyError) if is_held else contextlib.nullcontext():
                async with store.write() as session:
                    await write_audit(session, at_s=1, principal="p", action="a", subject="s", details={})
            release()
    await store.close()
    assert status_of(StoreBusyError()) is grpc.StatusCode.UNAVAILABLE


@contextlib.contextmanager
def hold_writer(database: Path | str) -> Iterator[Callable[[], None]]:
    """Begin as another process's writer; give what ends it."""
    if isinstance(database, Path):
        other = sqlite3.connect(database, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        yield other.close
        return
    with psycopg.connect(database) as connection:
        connection.execute(f"SELECT pg_advisory_xact_lock({dialects.WRITER_LOCK})")
        yield connection.rollback


async def test_a_writer_sees_what_the_writer_before_it_wrote(database: Path | str) -> None:
    """Read, decide, write: twenty writers of two servers count to twenty, none from an old number."""
    stores = [await Store.open(database), await Store.open(database)]

    async def count(store: Store) -> None:
        async with store.write() as session:
            entries = await list_audit(session, Page(0, 1000))
            await asyncio.sleep(0)
            details = {"n": len(entries)}
            await write_audit(session, at_s=1, principal="p", action="a", subject="s", details=details)

    await asyncio.gather(*(count(store) for store in stores for _ in range(10)))
    async with stores[0].read() as session:
        assert [entry.details["n"] for entry in await list_audit(session, Page(0, 1000))] == list(range(20))
    for store in stores:
        await store.close()


async def test_a_reader_sees_one_moment_and_holds_up_no_writer(store: Store) -> None:
    """A commit during a read is seen by readers that begin later; what a reader changes is thrown away."""
    async with store.read() as session:
        assert await list_audit(session, Page(0, 10)) == []
        async with store.write() as writer:
            await write_audit(writer, at_s=1, principal="p", action="a", subject="s", details={})
        assert await list_audit(session, Page(0, 10)) == []
    async with store.read() as session:
        assert len(await list_audit(session, Page(0, 10))) == 1
    async with store.read() as session:
        await add_counts(session, {("t", 0, 0): 1})
    async with store.read() as session:
        assert await cell_counts(session, "t", 1) == [0]


async def test_long_reads_hold_no_connection_of_a_writer_or_a_short_read(store: Store) -> None:
    """However many look through all rows, and wait for it, the others go on."""
    is_over = asyncio.Event()

    async def search() -> None:
        async with store.read(is_long=True) as session:
            await session.execute(text("SELECT 1"))
            await is_over.wait()

    async with asyncio.TaskGroup() as searches:
        for _ in range(2 * dialects.POOL_CONNECTIONS):
            searches.create_task(search())
        await asyncio.sleep(0)  # all ask before the writer does
        for number in range(3):
            async with store.write() as session:
                await add_counts(session, {("a" * 32, 0, 0): 1})
            async with store.read() as session:
                assert await cell_counts(session, "a" * 32, 1) == [number + 1]
        is_over.set()


async def test_numbers_beyond_32_bits_are_kept(store: Store) -> None:
    """Time does not end in 2038, nor do sums at two thousand million."""
    async with store.write() as session:
        await write_audit(session, at_s=2**40, principal="p", action="a", subject="s", details={})
        await add_counts(session, {("t", 0, 0): 2**33})
    async with store.write() as session:
        await add_counts(session, {("t", 0, 0): 2**33})
    async with store.read() as session:
        assert [entry.at_s for entry in await list_audit(session, Page(0, 10))] == [2**40]
        assert await cell_counts(session, "t", 1) == [2**34]


async def test_migrations_go_back_and_forth(database: Path | str) -> None:
    """Down to nothing and up again, on both databases: no revision leaves anything behind."""
    store = await Store.open(database)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))

    def down_and_up(connection: Connection) -> set[str]:
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
        left = set(inspect(connection).get_table_names())
        command.upgrade(config, "head")
        return left

    async with store._writers.begin() as connection:
        assert await connection.run_sync(down_and_up) == {"alembic_version"}
    async with store.write() as session:
        await write_audit(session, at_s=1, principal="p", action="a", subject="s", details={})
    await store.close()


async def test_entries_of_one_subject_are_found_by_their_index(store: Store) -> None:
    """Listing the audit log by subject reads that subject's entries, however long the log is: the plan says so."""
    async with store.write() as session:
        rows = [
            {"at_s": number, "principal": "p", "action": "a", "subject": f"s{number % 200}", "details": "{}"}
            for number in range(4000)
        ]
        await session.execute(insert(AuditRow), rows)
        await session.execute(text("ANALYZE"))
    query = select_newest(AuditFilter(subject="s7"), before=3900, size=10)
    async with store.read() as session:
        statement = query.compile(session.get_bind(), compile_kwargs={"literal_binds": True})
        explain = "EXPLAIN" if store.is_shared else "EXPLAIN QUERY PLAN"
        plan = "\n".join(str(row) for row in await session.execute(text(f"{explain} {statement}")))
        found = await search_audit(session, AuditFilter(subject="s7"), before=3900, size=10)
    assert "ix_audit_subject_sequence" in plan, plan
    assert [entry.at_s for entry in found.entries] == [7 + 200 * turn for turn in range(19, 9, -1)]


async def test_a_search_of_the_audit_log_continues_behind_its_bound_and_finds_each_entry_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer looks through a bounded part of the log, says how far back, and names where the next one begins."""
    monkeypatch.setattr(audit, "SCAN_ENTRIES", 100)
    monkeypatch.setattr(audit, "SCAN_WINDOW", 30)
    async with store.write() as session:
        rows = [
            {
                "at_s": 1000 + number,
                "principal": "operator/Ann" if number % 2 else "server/monitor",
                "action": "halt rollout" if number in (3, 250) else "analyze",
                "subject": f"ro-{number}",
                "details": '{"reason": "100 % Worse \\"now\\""}' if number in (3, 250) else "{}",
            }
            for number in range(1, 401)
        ]
        await session.execute(insert(AuditRow), rows)

    async def search(wanted: AuditFilter, size: int = 10) -> tuple[list[int], list[int]]:
        """Times of what is found, and how far back each answer looked."""
        found: list[int] = []
        reached: list[int] = []
        before = 0
        async with store.read() as session:
            while True:
                page = await search_audit(session, wanted, before=before, size=size)
                found += [entry.at_s - 1000 for entry in page.entries]
                reached.append(page.searched_back_to_s)
                before = page.before
                if not before:
                    return found, reached

    found, reached = await search(AuditFilter(words=("worse", '"now"')))
    assert found == [250, 3]
    assert reached == [1301, 1201, 1101, 0]
    assert (await search(AuditFilter(action="HALT")))[0] == [250, 3]
    assert (await search(AuditFilter(words=("100 %",), principal="operator/ann"), size=1))[0] == [3]
    assert (await search(AuditFilter(words=("100_%",))))[0] == []
    assert (await search(AuditFilter(until_s=1004, since_s=1002)))[0] == [3, 2]
    assert (await search(AuditFilter(principal="ann"), size=7))[0] == list(range(399, 0, -2))
    assert await search(AuditFilter(since_s=1390 + 86_400)) == ([], [0])  # all windows are older than that by a day


@pytest.mark.parametrize("has_rows", [True, False])
async def test_the_revision_of_overrides_and_the_audit_index_goes_back_and_forth(
    database: Path | str, *, has_rows: bool
) -> None:
    """One revision down and up again: the log stays, the index and the table are there as before."""
    store = await Store.open(database)
    if has_rows:
        async with store.write() as session:
            await write_audit(session, at_s=1, principal="p", action="a", subject="s", details={})
            await add_version(
                session, feature="f", version="1.0.0", team="t", manifest_sha256="0", manifest=b'{"variants":[]}',
                published_at_s=1,
            )  # fmt: skip
            await save_override(session, ValueOverride("app", "f", (Setting(name="x", value=1),), "why", "p", 1, 1))
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))

    def there(connection: Connection) -> tuple[bool, bool]:
        found = inspect(connection)
        names = {index["name"] for index in found.get_indexes("audit")}
        return found.has_table("value_overrides"), "ix_audit_subject_sequence" in names

    def down_and_up(connection: Connection) -> list[tuple[bool, bool]]:
        config.attributes["connection"] = connection
        command.downgrade(config, "0003")
        before = there(connection)
        command.upgrade(config, "head")
        return [before, there(connection)]

    async with store._writers.begin() as connection:
        assert await connection.run_sync(down_and_up) == [(False, False), (True, True)]
    async with store.read() as session:
        assert len(await list_audit(session, Page(0, 10))) == has_rows
        assert await standing_overrides(session) == []
    await store.close()


async def test_two_servers_that_start_at_once_migrate_once(postgres: PostgresServer) -> None:
    """An empty database, ten servers: one of them makes the tables, the others find them."""
    url = postgres.url(postgres.database())
    stores = await asyncio.gather(*(Store.open(url) for _ in range(10)))
    async with stores[0].write() as session:
        await write_audit(session, at_s=1, principal="p", action="a", subject="s", details={})
    async with stores[9].read() as session:
        assert len(await list_audit(session, Page(0, 10))) == 1
    for store in stores:
        await store.close()


async def test_a_restarted_database_is_found_again(postgres: PostgresServer, migrated: str) -> None:
    """Broken connections are replaced: the next reader and the next writer notice nothing."""
    store = await Store.open(postgres.url(postgres.database(migrated)))
    for _ in range(2):
        async with store.write() as session:
            await write_audit(session, at_s=1, principal="p", action="a", subject="s", details={})
        await asyncio.to_thread(postgres.end_connections)
        async with store.read() as session:
            await list_audit(session, Page(0, 10))
    with pytest.raises(StoreUnavailableError) as caught:  # noqa: PT012 - the connection breaks inside the change
        async with store.write() as session:
            await write_audit(session, at_s=1, principal="p", action="b", subject="s", details={})
            await asyncio.to_thread(postgres.end_connections)
            await write_audit(session, at_s=1, principal="p", action="b", subject="s", details={})
    assert postgres.password not in str(caught.value)
    async with store.read() as session:
        assert [entry.action for entry in await list_audit(session, Page(0, 10))] == ["a", "a"]
    await store.close()


async def test_a_full_disk_is_reported_and_what_was_begun_is_not_there(tmp_path: Path) -> None:
    """UNAVAILABLE; nothing of the change stays; with room again all continues."""
    store = await Store.open(tmp_path / "full.db")
    for room_pages in (1, 2, 5, 20):
        async with store.write() as session:
            pages = (await session.execute(text("PRAGMA page_count"))).scalar_one()
            await session.execute(text(f"PRAGMA max_page_count = {pages + room_pages}"))
        with pytest.raises(StoreFullError) as caught:  # noqa: PT012 - which of them does not fit is SQLite's own affair
            async with store.write() as session:
                for number in range(10_000):
                    await write_audit(
                        session, at_s=number, principal="p" * 200, action="a", subject="s", details={"x": "y" * 500}
                    )
        assert status_of(caught.value) is grpc.StatusCode.UNAVAILABLE
        async with store.write() as session:
            await session.execute(text("PRAGMA max_page_count = 1000000"))
        async with store.read() as session:
            assert await list_audit(session, Page(0, 10)) == []
    async with store.write() as session:
        await write_audit(session, at_s=1, principal="p", action="a", subject="s", details={})
    await store.close()


async def test_no_error_about_a_database_tells_its_password(postgres: PostgresServer) -> None:
    """A wrong password, name, server or URL is named by server and name only, in the error and all behind it."""
    good, secret = postgres.url("none_such"), postgres.password
    for url in (
        good,
        good.replace(secret, secret + "x"),
        good.replace(f"host={postgres.folder}", "host=/nowhere"),
        good.replace("?host", "?no_such_option=1&host"),
        good.replace("@/", "@:notaport/"),
        good.replace("@/", "/@/"),
        good.replace("@/", "@@/"),
        good.replace(secret, f"x@{secret}"),
        f"postgresql://u:{secret}%zz@/x",
    ):
        with pytest.raises(StoreUnavailableError) as caught:
            await Store.open(url)
        trace = "".join(traceback.format_exception(caught.value))
        assert secret not in trace.replace(repr(url), ""), url
        assert status_of(caught.value) is grpc.StatusCode.UNAVAILABLE
