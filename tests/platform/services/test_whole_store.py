"""`alcove registry check` finds every fault of rows, tree and blobs, and `gc` leaves all of them whole."""

import asyncio
import hashlib
import os
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from alcove.platform.domain.errors import InvalidFieldError, StoreDamagedError
from alcove.platform.services.publishing import (
    RepositoryLock,
    StoreReport,
    VersionPublisher,
    audit_store,
    collect_garbage,
)
from alcove.platform.services.publishing.uploads import is_stored, receive_blob
from alcove.platform.services.validation import InThisProcess
from alcove.platform.store import Store
from alcove.platform.store.publications import Publication, add_publication
from alcove.registry import layout
from alcove.registry.errors import RegistryError
from alcove.registry.garbage_collection import GRACE_MIN_S, list_referenced_blobs
from alcove.registry.policy import Halt
from alcove.registry.testing import RepositoryFixture
from sqlalchemy import text


class Whole:
    """A tree with its rows: two versions of one team, one of another, policy and halt of an app."""

    def __init__(self, world: RepositoryFixture, store: Store) -> None:
        self.world, self.store = world, store
        self.tree = world.tree

    async def fill(self) -> None:
        """Publish as a server does: blob, tree, row."""
        packages = [self.world.package("1.0.0"), self.world.package("2.0.0")]
        packages.append(self.world.package("1.0.0", feature="tagging", team="speech"))
        for package in packages:
            self.world.push(package)
        await self.reconcile()
        policy = self.world.policy(1).to_bytes()
        halt = Halt(app="messenger", serial=1, frozen=("language_id",)).to_bytes()
        self.tree.publish_policy("messenger", policy)
        self.tree.publish_halt("messenger", halt)
        async with self.store.write() as session:
            await add_publication(session, Publication("policy", "messenger", 1, policy, is_published=True))
            await add_publication(session, Publication("halt", "messenger", 1, halt, is_published=True))

    async def reconcile(self) -> None:
        """Complete the rows, as a start of the server does."""
        lock, checks = RepositoryLock(self.store), InThisProcess()
        await VersionPublisher(self.store, self.tree, lock, self.world.clock, checks).reconcile()

    async def check(self) -> StoreReport:
        """Inspect, with a tree that remembers nothing."""
        return await audit_store(self.store, type(self.tree)(self.tree.folder, clock=self.world.clock))

    async def alter(self, statement: str, *, table: str) -> None:
        """Change rows past every trigger, as a failing disk or a careless hand would."""
        async with self.store.write() as session:
            if self.store.is_shared:
                await session.execute(text(f"ALTER TABLE {table} DISABLE TRIGGER ALL"))
                await session.execute(text(statement))
                await session.execute(text(f"ALTER TABLE {table} ENABLE TRIGGER ALL"))
                return
            for verb in ("update", "delete"):
                await session.execute(text(f"DROP TRIGGER IF EXISTS {table}_refuses_{verb}"))
            await session.execute(text("PRAGMA defer_foreign_keys=ON"))
            await session.execute(text(statement))


@pytest.fixture
async def whole(tmp_path: Path, store: Store) -> Whole:
    """The same, on both databases."""
    made = Whole(await asyncio.to_thread(RepositoryFixture, tmp_path / "world"), store)
    await made.fill()
    return made


async def test_a_whole_store_is_proved_row_by_row(whole: Whole) -> None:
    """Roles, documents, blobs and rows are counted; nothing is wrong."""
    report = await whole.check()
    assert report.problems == ()
    assert (report.row_count, report.tree.target_count, report.tree.blob_count) == (3, 5, 6)


async def test_every_file_that_is_damaged_or_gone_is_found(whole: Whole) -> None:
    """Each file that a client can reach, flipped, cut and deleted, one at a time; whole again, all is well."""
    state = whole.tree.state()
    reachable = {"1.root.json", "timestamp.json", f"{state.snapshot.version}.snapshot.json"}
    reachable |= {f"{state.targets.version}.targets.json"}
    reachable |= {f"{role.version}.{name}.json" for name, role in state.roles.items()}
    files = [whole.tree.folder / layout.METADATA / name for name in sorted(reachable)]
    files += sorted((whole.tree.folder / layout.TARGETS).rglob("*.json"))
    files += sorted((whole.tree.folder / layout.BLOBS).iterdir())
    assert len(files) == len(reachable) + 5 + 6
    for path in files:
        good = path.read_bytes()
        middle = len(good) // 2
        for damage in (good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :], good[:-1], None):
            if damage is None:
                path.unlink()
            else:
                path.write_bytes(damage)
            report = await whole.check()
            assert not report.is_sound, path
            assert all(isinstance(problem.error, RegistryError) for problem in report.problems)
            path.write_bytes(good)
    assert (await whole.check()).is_sound


@pytest.mark.parametrize(
    ("table", "statement", "named"),
    [
        ("versions", "UPDATE versions SET manifest_sha256 = repeat_a WHERE sequence = 1", "language_id/1.0.0"),
        ("versions", "UPDATE versions SET manifest = bytes_x WHERE sequence = 1", "language_id/1.0.0"),
        ("versions", "UPDATE versions SET version = '7.0.0' WHERE sequence = 1", "language_id/7.0.0"),
        ("versions", "UPDATE versions SET version = '0.9.0' WHERE sequence = 1", "language_id/1.0.0"),
        ("version_facts", "DELETE_VERSION 2", "language_id/2.0.0"),
        ("features", "UPDATE features SET team = 'speech' WHERE name = 'language_id'", "language_id/1.0.0"),
        ("publications", "UPDATE publications SET serial = 2 WHERE kind = 'policy'", "policy/messenger"),
        ("publications", "UPDATE publications SET document = bytes_x WHERE kind = 'halt'", "halt/messenger"),
        ("publications", "UPDATE publications SET app = 'other' WHERE kind = 'halt'", "halt/other"),
    ],
)
async def test_every_row_that_is_not_what_was_published_is_named(
    whole: Whole, table: str, statement: str, named: str
) -> None:
    """Digest, bytes, number, team, a row that is gone, a document that the tree never had."""
    blank = "decode('78', 'hex')" if whole.store.is_shared else "x'78'"
    statement = statement.replace("repeat_a", f"'{'a' * 64}'").replace("bytes_x", blank)
    if statement.startswith("DELETE_VERSION"):
        for child in ("state_moves", "version_facts", "version_tags"):
            await whole.alter(f"DELETE FROM {child} WHERE version_sequence = 2", table=child)
        table, statement = "versions", "DELETE FROM versions WHERE sequence = 2"
    await whole.alter(statement, table=table)
    report = await whole.check()
    assert not report.is_sound
    assert any(named in problem.thing for problem in report.problems), report.problems


async def test_a_row_that_a_kill_kept_from_being_written_is_named_and_completed(whole: Whole) -> None:
    """Published and not listed: a fault until a server starts."""
    whole.world.push(whole.world.package("3.0.0"))
    (problem,) = (await whole.check()).problems
    assert "language_id/3.0.0" in problem.thing
    await VersionPublisher(
        whole.store, whole.tree, RepositoryLock(whole.store), whole.world.clock, InThisProcess()
    ).reconcile()
    assert (await whole.check()).is_sound


async def test_a_tree_that_was_put_back_is_named(whole: Whole, tmp_path: Path) -> None:
    """A backup of the tree older than the rows: each row that it cannot keep, and nothing is collected for it."""
    metadata = whole.tree.folder / layout.METADATA
    shutil.copytree(metadata, tmp_path / "backup")
    whole.world.push(whole.world.package("3.0.0"))
    await VersionPublisher(
        whole.store, whole.tree, RepositoryLock(whole.store), whole.world.clock, InThisProcess()
    ).reconcile()
    shutil.rmtree(metadata)
    shutil.copytree(tmp_path / "backup", metadata)
    report = await whole.check()
    assert [problem.thing for problem in report.problems] == ["row of language_id/3.0.0.json"]
    tree = type(whole.tree)(whole.tree.folder, clock=whole.world.clock)
    done = await collect_garbage(whole.store, tree, RepositoryLock(whole.store), now_s=2**40, grace_s=GRACE_MIN_S)
    assert done.removed == ()


async def test_a_database_file_with_a_broken_page_is_found(tmp_path: Path) -> None:
    """SQLite's own look at each page is part of the check."""
    store = await Store.open(tmp_path / "alcove.db")
    whole = Whole(await asyncio.to_thread(RepositoryFixture, tmp_path / "world"), store)
    await whole.fill()
    async with store.read() as session:
        page = (await session.execute(text("PRAGMA page_size"))).scalar_one()
        root = (await session.execute(text("SELECT rootpage FROM sqlite_master WHERE name = 'versions'"))).scalar_one()
    await store.close()
    path = tmp_path / "alcove.db"
    data = bytearray(path.read_bytes())
    data[(root - 1) * page + 8 : (root - 1) * page + 40] = bytes(32)
    path.write_bytes(data)
    whole.store = await Store.open(path)
    with pytest.raises(StoreDamagedError):
        await whole.check()
    await whole.store.close()


async def test_a_collection_leaves_the_store_whole(whole: Whole) -> None:
    """Garbage goes, listed first; what tree and rows name stays; a grace too short for a push is refused."""
    blobs = whole.tree.blobs
    names = set()
    for number in range(100):
        data = f"garbage {number}".encode()
        names.add(hashlib.sha256(data).hexdigest())
        blobs.put(hashlib.sha256(data).hexdigest(), data)
    lock = RepositoryLock(whole.store)
    with pytest.raises(InvalidFieldError, match="3600"):
        await collect_garbage(whole.store, whole.tree, lock, now_s=2**40, grace_s=GRACE_MIN_S - 1)
    now_s = int(time.time())
    assert (await collect_garbage(whole.store, whole.tree, lock, now_s=now_s, grace_s=GRACE_MIN_S)).removed == ()
    planned = await collect_garbage(whole.store, whole.tree, lock, now_s=2**40, grace_s=GRACE_MIN_S, is_dry=True)
    assert {blob.sha256 for blob in planned.removed} == names
    assert len(list(blobs.list_blobs())) == 106
    done = await collect_garbage(whole.store, whole.tree, lock, now_s=2**40, grace_s=GRACE_MIN_S)
    assert (done.removed, done.freed_bytes) == (planned.removed, planned.freed_bytes)
    assert {blob.sha256 for blob in blobs.list_blobs()} == list_referenced_blobs(whole.tree)
    assert (await whole.check()).is_sound


async def test_an_upload_of_what_lies_there_for_long_makes_it_young(tmp_path: Path) -> None:
    """Otherwise the collection that comes between upload and publication would take it."""
    world = await asyncio.to_thread(RepositoryFixture, tmp_path / "world")
    (tmp_path / "uploads").mkdir()
    data = b"program, uploaded long ago"
    sha256 = hashlib.sha256(data).hexdigest()
    path = world.tree.folder / layout.BLOBS / sha256

    async def chunks() -> AsyncIterator[bytes]:
        yield data

    for again in (
        lambda: receive_blob(
            world.tree.blobs, tmp_path / "uploads", sender="t", sha256=sha256, size_bytes=len(data), chunks=chunks()
        ),
        lambda: asyncio.to_thread(is_stored, world.tree.blobs, sha256),
    ):
        world.tree.blobs.put(sha256, data)
        os.utime(path, (1, 1))
        await again()
        assert time.time() - path.stat().st_mtime < 600
