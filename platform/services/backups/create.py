"""Makes a backup of a running server: rows and signed tree of one moment, and the blobs that they name.

tree locked ─▶ moment of the rows fixed, timestamp read, files listed ─▶ tree unlocked ─▶ rows, files, blobs stored
─▶ record stored = the backup exists

- B1  The lock is held for as long as listing the tree takes; servers publish again while bytes are copied.
- B2  Rows and tree are of a moment in which nobody published.  The rows may lack the version that was published last:
      a server that starts lists it, as after a crash.
- B3  Files of the tree but for the timestamp never change once devices can read them, and blobs that the tree names are
      never removed (C1 of `registry.garbage_collection`), so what is copied later is what was there.
- B4  Killed anywhere, the backups that were there stay whole; the next one uses what was stored.
"""

import asyncio
import hashlib
import shutil
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alcove import __version__
from alcove.platform.domain.errors import BackupError
from alcove.platform.services.backups.place import PIECE_BYTES, BackupPlace, copy_blob, file_pieces
from alcove.platform.services.backups.record import BackupRecord, StoredPart
from alcove.platform.services.publishing import RepositoryLock
from alcove.platform.store import Store
from alcove.platform.store.database import DATABASE_FILE
from alcove.platform.store.manifests import listed_manifests
from alcove.platform.store.note import compare_stores
from alcove.platform.store.row_copies import begin_copy, copy_rows
from alcove.registry.errors import MissingTargetError
from alcove.registry.garbage_collection import list_referenced_blobs
from alcove.registry.layout import BLOBS, metadata_file
from alcove.registry.manifest import Manifest
from alcove.registry.repository import Repository
from alcove.registry.zstd import zstd

if TYPE_CHECKING:
    from alcove.platform.services.backups.server_data import ServerData
    from alcove.runtime.clock import Clock
    from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["BackupResult", "create_backup"]

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class BackupResult:
    """A backup that was made.

    Attributes:
        record: what it holds.
        stored_bytes: what was not in the place already.
    """

    record: BackupRecord
    stored_bytes: int


async def create_backup(
    source: "ServerData",
    place: BackupPlace,
    *,
    clock: "Clock",
    sealed_keys: bytes | None = None,
    on_progress: Progress = lambda _done, _total: None,
) -> BackupResult:
    """Back up a server's data; servers may run and publish meanwhile.

    Args:
        source: where the data lies.
        place: gets the backup.
        clock: dates it.
        sealed_keys: encrypted keys (`seal_keys`) that go with it.
        on_progress: called with the bytes of blobs that are done, and of all.

    Raises:
        OtherStoreError: database or blobs are not those that the data folder's note names.
        StoreUnavailableError, StoreBusyError: the database cannot be read, or has another schema than this version's.
        BackupError: something pruned the place meanwhile, or the record of an earlier backup is damaged.
        RegistryError: the tree is damaged, a blob that it names is missing, or the place fails.
    """
    await asyncio.to_thread(compare_stores, source.data_dir, database=source.location, blobs=source.blobs)
    known = await asyncio.to_thread(place.list_known, clock.now_s())
    before = set(known)
    tree = source.open_tree()
    with tempfile.TemporaryDirectory(prefix="alcove-backup-") as name:
        folder = Path(name)
        async with _open_source(source) as store, store.read(is_long=True) as rows:
            async with RepositoryLock(store), _exclusive(tree):
                await begin_copy(rows)
                moment = await asyncio.to_thread(_Moment.of, tree, clock.now_s())
            counts, named = await _copy(rows, folder)
        packed = await asyncio.to_thread(_pack_rows, folder)
        part = await asyncio.to_thread(_put_file, place, packed, known)
    blobs = await asyncio.to_thread(_copy_blobs, tree, place, named, known, on_progress)
    files = {path: await asyncio.to_thread(place.put, data, known) for path, data in moment.files(tree.folder)}
    record = BackupRecord(
        made_at_s=moment.at_s,
        alcove=__version__,
        schema_revision=Store.schema.head,
        rows=part,
        row_counts=counts,
        files=files,
        blobs=blobs,
        published={"timestamp": moment.timestamp, "snapshot": moment.snapshot},
        keys=None if sealed_keys is None else await asyncio.to_thread(place.put, sealed_keys, known),
    )
    if (missing := await asyncio.to_thread(place.find_missing, record.digests())) is not None:
        raise BackupError(place.where, f"object {missing} was removed while the backup was made: make it again")
    await asyncio.to_thread(place.write_record, record)
    sizes = {part.sha256: part.size_bytes for part in [record.rows, *files.values()]} | blobs
    return BackupResult(record, sum(size for sha256, size in sizes.items() if sha256 not in before))


@dataclass(frozen=True)
class _Moment:
    """What the tree said while nobody published."""

    at_s: int
    timestamp: int
    snapshot: int
    timestamp_bytes: bytes
    paths: tuple[str, ...]

    @classmethod
    def of(cls, tree: Repository, at_s: int) -> "_Moment":
        state = tree.state()
        found = (path.relative_to(tree.folder) for path in tree.folder.rglob("*") if path.is_file())
        # What begins with a dot is the lock, or what a killed writer left.
        paths = [path for path in found if path.parts[0] != BLOBS and not any(p.startswith(".") for p in path.parts)]
        return cls(
            at_s,
            state.timestamp.version,
            state.snapshot.version,
            (tree.folder / metadata_file("timestamp")).read_bytes(),
            tuple(sorted(path.as_posix() for path in paths)),
        )

    def files(self, folder: Path) -> Iterator[tuple[str, bytes]]:
        """Give the tree's files as they were: of those that devices can read, only the timestamp changes."""
        for path in self.paths:
            yield path, self.timestamp_bytes if path == metadata_file("timestamp") else (folder / path).read_bytes()


@asynccontextmanager
async def _open_source(source: "ServerData") -> AsyncIterator[Store]:
    """Open the database as it is: one of another version is refused, never migrated by its backup."""
    await (await Store.join(source.location)).close()
    store = await Store.open(source.location)  # waits for locks as a server does
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def _exclusive(tree: Repository) -> AsyncIterator[None]:
    """Keep publications of this machine's processes out; waiting for them holds up nothing else."""
    held = tree.exclusive()
    await asyncio.to_thread(held.__enter__)
    try:
        yield
    finally:
        held.__exit__(None, None, None)


async def _copy(rows: "AsyncSession", folder: Path) -> tuple[dict[str, int], set[str]]:
    """Copy rows to a file; return their numbers, and the digests of the blobs that they name."""
    copy = await Store.open(folder / DATABASE_FILE)
    try:
        async with copy.write() as target:
            counts = await copy_rows(rows, target)
        named: set[str] = set()
        async for item in listed_manifests(copy):
            named.update(Manifest.from_bytes(item.manifest).blobs())
    finally:
        await copy.close()
    return counts, named


def _pack_rows(folder: Path) -> Path:
    """Make one compressed file of the database's."""
    path, packed = folder / DATABASE_FILE, folder / "rows.zst"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")  # all in one file
    with path.open("rb") as source, zstd.open(packed, "wb", level=3) as target:
        shutil.copyfileobj(source, target, PIECE_BYTES)
    path.unlink()
    return packed


def _put_file(place: BackupPlace, path: Path, known: set[str]) -> StoredPart:
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        if sha256 not in known:
            place.objects.put(sha256, file_pieces(file))
            known.add(sha256)
    return StoredPart(sha256=sha256, size_bytes=path.stat().st_size)


def _copy_blobs(
    tree: Repository, place: BackupPlace, named_by_rows: set[str], known: set[str], on_progress: Progress
) -> dict[str, int]:
    """Store the blobs that tree and rows name; return their sizes.

    The tree may name more by now than it did: that is stored too, and harms nothing.

    Raises:
        MissingTargetError: one that the tree names is missing.
    """
    by_tree = list_referenced_blobs(tree)
    sizes = {sha256: tree.blobs.size_bytes(sha256) for sha256 in sorted(by_tree | named_by_rows)}
    missing = [sha256 for sha256, size in sizes.items() if size is None and sha256 in by_tree]
    if missing:
        raise MissingTargetError(f"{BLOBS}/{missing[0]}")
    found: Mapping[str, int] = {sha256: size for sha256, size in sizes.items() if size is not None}
    total, done = sum(found.values()), 0
    for sha256, size in found.items():
        if sha256 not in known:
            copy_blob(tree.blobs, place.objects, sha256, size)
            known.add(sha256)
        done += size
        on_progress(done, total)
    return dict(found)
