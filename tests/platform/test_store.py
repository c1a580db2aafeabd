"""The database keeps what it promises by itself."""

import asyncio
import contextlib
import sqlite3
from pathlib import Path

import grpc
import pytest
from alcove.platform.core.errors import RequestIdReusedError, StoreBusyError, StoreDamagedError
from alcove.platform.core.records import Page
from alcove.platform.server.status import status_of
from alcove.platform.store import Store, database
from alcove.platform.store.audit import list_audit, write_audit
from alcove.platform.store.database import MIGRATIONS
from alcove.platform.store.migrations import HEAD
from alcove.platform.store.reports import add_counts, cell_counts, window_count
from alcove.platform.store.requests import find_response, keep_response
from alcove.platform.store.tables import Base
from alcove.platform.store.versions import add_version, find_version
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text
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


async def test_opening_again_keeps_everything(tmp_path: Path) -> None:
    """Migrations run at every start and change nothing that is up to date."""
    for count in (1, 2, 3):
        store = await Store.open(tmp_path / "again.db")
        async with store.write() as session:
            await write_audit(session, at_s=1, principal="p", action="a", subject="s", details={"n": count})
        async with store.read() as session:
            assert len(await list_audit(session, Page(0, 100))) == count
        await store.close()


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    """Rubbish is told as such and left as it was."""
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
        "INSERT OR REPLACE INTO {table} SELECT * FROM {table}",
    ],
)
async def test_audit_and_versions_only_grow(store: Store, table: str, statement: str) -> None:
    """Whoever has the connection, entries can neither be changed, replaced nor removed."""
    async with store.write() as session:
        await write_audit(session, at_s=1, principal="p", action="a", subject="s", details={})
        await add_version(
            session, feature="f", version="1.0.0", team="t", manifest_sha256="0", manifest=b'{"variants":[]}',
            published_at_s=1,
        )  # fmt: skip
    column = {"audit": "action", "versions": "version"}[table]
    with pytest.raises(DBAPIError, match="append-only"):
        async with store.write() as session:
            await session.execute(text(statement.format(table=table, column=column)))
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
            await add_counts(session, {("t", 0, 1): 2, ("t", 1, 0): 1})

    await asyncio.gather(*(add() for _ in range(20)))
    async with store.read() as session:
        assert await cell_counts(session, "t", 3) == [20, 40, 0]
        assert await window_count(session, "t") == 2


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


async def test_a_writer_that_waits_in_vain_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process holds the database for too long: UNAVAILABLE to whoever called; then all is well."""
    monkeypatch.setattr(database, "BUSY_TIMEOUT_MS", 20)
    path = tmp_path / "busy.db"
    store = await Store.open(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for is_held in (True, False):
        with pytest.raises(StoreBusyError) if is_held else contextlib.nullcontext():
            async with store.write() as session:
                await write_audit(session, at_s=1, principal="p", action="a", subject="s", details={})
        other.close()
    await store.close()
    assert status_of(StoreBusyError()) is grpc.StatusCode.UNAVAILABLE
