"""A database goes from one schema to the next and back, between two versions of alcove that are made here."""

import asyncio
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alcove.platform.cli.main import run
from alcove.platform.domain.errors import InvalidFieldError, StoreUnavailableError
from alcove.platform.domain.records import RolloutRecord, RolloutState
from alcove.platform.domain.rollout_records import AnalysisRecord, StageDecisionKind
from alcove.platform.server.serve import run as serve
from alcove.platform.server.settings import Settings
from alcove.platform.services.auth.local import create_local_token, list_local_tokens
from alcove.platform.services.backups import ServerData, create_backup, open_place, restore_backup
from alcove.platform.store import Store
from alcove.platform.store.database import MIGRATIONS
from alcove.platform.store.migrations import HEAD
from alcove.platform.store.rollouts import add_rollout, get_rollout
from alcove.platform.store.schema import Schema
from alcove.platform.store.schema_changes import list_revisions, migrate_to, read_schema_state
from alcove.platform.store.stage_analyses import keep_analysis
from alcove.platform.testing import ServerWorld
from alcove.runtime.clock import SYSTEM_CLOCK
from sqlalchemy import text
from structlog.testing import capture_logs

from tests.platform.versions import add_released

NEXT = "9001"
KNOWN = sorted(path.name[1:5] for path in (MIGRATIONS / "versions").glob("v0*.py"))
REVISION = '''"""Adds a table and a column, as a version to come will."""

import sqlalchemy as sa
from alembic import op

revision = "9001"
down_revision = "{head}"
branch_labels = None
depends_on = None


def upgrade():
    op.create_table("moods", sa.Column("name", sa.Text, primary_key=True))
    op.add_column("tokens", sa.Column("mood", sa.Text))
    {fault}


def downgrade():
    with op.batch_alter_table("tokens") as table:
        table.drop_column("mood")
    op.drop_table("moods")
'''


def make_next(folder: Path, *, fault: str = "") -> Schema:
    """Return the schema of a version to come, whose migrations lie in a folder."""
    shutil.copytree(MIGRATIONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions/v9001_moods.py").write_text(REVISION.format(head=HEAD, fault=fault), encoding="utf-8")
    return Schema(folder, NEXT)


@pytest.fixture
def following(tmp_path: Path) -> Schema:
    """The schema of a version to come."""
    return make_next(tmp_path / "migrations")


def open_with(schema: Schema, location: Path | str) -> tuple[str | None, int]:
    """Open a database as a version with a schema does; return whence it was migrated and the number of tokens."""

    class Versioned(Store):
        pass

    Versioned.schema = schema

    async def work() -> tuple[str | None, int]:
        store = await Versioned.open(location)
        try:
            async with store.read() as session:
                count = (await session.execute(text("SELECT count(*) FROM tokens"))).scalar_one()
            return store.migrated_from, int(count)
        finally:
            await store.close()

    return asyncio.run(work())


def issue(location: Path | str, tmp_path: Path) -> None:
    """Add a row that must survive."""
    folder, url = (tmp_path, location) if isinstance(location, str) else (location.parent, None)
    create_local_token(folder, "reader", database=url)


def revision_of(location: Path | str) -> str | None:
    """Return the revision of a database."""
    return asyncio.run(read_schema_state(location, Store.schema)).revision


def test_database_of_the_version_before_is_migrated_when_it_is_opened_and_back_by_command(
    database: Path | str, following: Schema, tmp_path: Path
) -> None:
    """Its rows stay; the version before opens it again once it is back."""
    issue(database, tmp_path)
    assert open_with(following, database) == (HEAD, 1)
    assert open_with(following, database) == (None, 1)
    assert asyncio.run(migrate_to(database, following, HEAD)) == (NEXT, HEAD)
    assert open_with(Store.schema, database) == (None, 1)
    assert asyncio.run(migrate_to(database, following, "head")) == (HEAD, NEXT)
    assert open_with(following, database) == (None, 1)


def test_tokens_of_before_tokens_had_names_stay_valid(database: Path | str, tmp_path: Path) -> None:
    """They have an empty name; back at the older schema, and forth again, they are there still."""
    issue(database, tmp_path)
    assert asyncio.run(migrate_to(database, Store.schema, "0001")) == (HEAD, "0001")
    assert open_with(Store.schema, database) == ("0001", 1)
    folder, url = (tmp_path, database) if isinstance(database, str) else (database.parent, None)
    (token,) = list_local_tokens(folder, database=url)
    assert (token.role, token.name) == ("reader", "")


def test_migration_that_fails_leaves_the_database_as_it_was(database: Path | str, tmp_path: Path) -> None:
    """The first steps are undone with the last: the version before goes on."""
    issue(database, tmp_path)
    broken = make_next(tmp_path / "broken", fault="raise RuntimeError('no room')")
    with pytest.raises(RuntimeError, match="no room"):
        open_with(broken, database)
    assert revision_of(database) == HEAD
    assert open_with(Store.schema, database) == (None, 1)
    following = make_next(tmp_path / "migrations")
    assert open_with(following, database) == (HEAD, 1)


def test_database_of_a_newer_version_is_left_as_it_is(database: Path | str, following: Schema) -> None:
    """Migrating it with the older version's command is refused in one sentence that names both."""
    open_with(following, database)
    state = asyncio.run(read_schema_state(database, Store.schema))
    assert (state.is_newer, state.revision) == (True, NEXT)
    with pytest.raises(
        StoreUnavailableError, match=f"its schema is {NEXT}, of a newer alcove; this version knows {', '.join(KNOWN)}"
    ):
        asyncio.run(migrate_to(database, Store.schema, "head"))
    assert revision_of(database) == NEXT


def test_unknown_revision_is_refused(database: Path | str) -> None:
    """The known ones are named."""
    with pytest.raises(InvalidFieldError, match=f"one of {', '.join(KNOWN)}, or head"):
        asyncio.run(migrate_to(database, Store.schema, "12"))


def test_revisions_are_in_their_order(following: Schema) -> None:
    """The oldest first."""
    assert list_revisions(following)[-2:] == (HEAD, NEXT)


@pytest.fixture
def installed(following: Schema, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Installs the version to come in the place of this one."""
    return lambda: monkeypatch.setattr(Store, "schema", following)


def test_command_shows_and_migrates(
    installed: Callable[[], None], migrated_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Back only with --yes, because what the older schema has no place for is lost."""
    shutil.copy(migrated_file, tmp_path / "alcove.db")
    data = ["--data-dir", str(tmp_path)]
    installed()
    assert run(["server", "migrate", *data, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"revision": HEAD, "known": [*KNOWN, NEXT], "is_newer": False}
    assert run(["server", "migrate", *data, "--to", "head"]) == 0
    assert f"schema {NEXT}, before {HEAD}" in capsys.readouterr().out
    before = hashlib.sha256((tmp_path / "alcove.db").read_bytes()).digest()
    assert run(["server", "migrate", *data, "--to", HEAD]) == 2
    assert "what it has no place for is lost; make a backup, then add --yes" in capsys.readouterr().err
    assert hashlib.sha256((tmp_path / "alcove.db").read_bytes()).digest() == before
    assert run(["server", "migrate", *data, "--to", HEAD, "--yes"]) == 0
    assert revision_of(tmp_path / "alcove.db") == HEAD


def test_command_says_where_there_is_no_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is made."""
    assert run(["server", "migrate", "--data-dir", str(tmp_path)]) == 1
    assert "there is no database" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_backup_of_the_version_before_is_restored_by_the_next(installed: Callable[[], None], tmp_path: Path) -> None:
    """Its rows are migrated on the way; a backup of the next is refused by the one before."""
    world = ServerWorld(tmp_path / "world", teams={"text": ("text_00",)})
    create_local_token(world.data_dir, "reader")
    place = open_place(str(tmp_path / "backups"))
    data = ServerData(world.data_dir, world.online_keys)
    record = asyncio.run(create_backup(data, place, clock=SYSTEM_CLOCK)).record
    assert record.schema_revision == HEAD
    installed()
    target = ServerData(tmp_path / "restored", tmp_path / "no-keys")
    asyncio.run(restore_backup(place, record, target, clock=SYSTEM_CLOCK))
    assert revision_of(target.location) == NEXT
    assert len(list_local_tokens(target.data_dir)) == 1


def test_server_says_that_it_has_migrated(installed: Callable[[], None], tmp_path: Path) -> None:
    """In its log, with what an older version would need; nothing where it found the schema that it knows."""
    world = ServerWorld(tmp_path / "world", teams={"text": ("text_00",)})
    create_local_token(world.data_dir, "reader")
    installed()
    settings = Settings(data_dir=world.data_dir, online_keys=world.online_keys, grpc_port=0, only="grpc")

    async def start() -> list[Any]:
        with capture_logs() as lines:
            async with serve(settings):
                pass
        return [(line["before"], line["revision"]) for line in lines if line["event"] == "database migrated"]

    assert asyncio.run(start()) == [(HEAD, NEXT)]
    assert asyncio.run(start()) == []


def test_page_of_compatibility_names_the_newest_revision(repository: Path) -> None:
    """Whoever reads which schema is current reads the one that a server makes."""
    page = (repository / "docs/compatibility.md").read_text(encoding="utf-8")
    assert f"| database | revision of its schema, now {HEAD} |" in page


async def count_analyses(location: Path | str) -> tuple[int, int]:
    """Return the numbers of rollouts and of their analyses that are kept."""
    store = await Store.open(location)
    try:
        async with store.read() as session:
            counts = [
                int((await session.execute(text(f"SELECT count(*) FROM {table}"))).scalar_one())
                for table in ("rollouts", "stage_analyses")
            ]
        return counts[0], counts[1]
    finally:
        await store.close()


async def test_analyses_of_rollouts_go_with_the_schema_before_them_and_rollouts_stay(database: Path | str) -> None:
    """One revision down and up again: the table is empty, and what is analyzed next is kept."""
    found = AnalysisRecord(1, StageDecisionKind.HOLD, "inconclusive", "because", 10, (5.0, 5.0), ())
    store = await Store.open(database)
    async with store.write() as session:
        await add_released(session, feature="f", version="1.0.0", team="t", manifest_sha256="1" * 64)
        made = RolloutRecord(
            0, "ro-1", "app", "f", "1.0.0", "1" * 64, "0" * 32, RolloutState.RUNNING, 100, 1, 1, 1, stage=1
        )
        made = await add_rollout(session, made)
        assert await keep_analysis(session, made, found)
    await store.close()
    assert await count_analyses(database) == (1, 1)
    assert await migrate_to(database, Store.schema, "0006") == (HEAD, "0006")
    assert await count_analyses(database) == (1, 0)  # opening it migrates it again
    store = await Store.open(database)
    async with store.write() as session:
        assert await keep_analysis(session, await get_rollout(session, "ro-1"), found)
    await store.close()
    assert await count_analyses(database) == (1, 1)
