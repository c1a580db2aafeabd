"""Restores a backup into an empty place.

checks ─▶ note that a restore is under way ─▶ rows ─▶ blobs ─▶ keys ─▶ files of the tree ─▶ timestamp ─▶ note removed

- R1  Nothing is written where other data is: the data folder, the database and the folder of keys must be empty, or
      hold what an interrupted restore of the same backup has left.
- R2  No server starts on half a restore: without the tree's timestamp there is no tree, and it is written last.
- R3  Killed anywhere, the same command completes it.
- R4  Nothing goes backwards unasked: where the note beside the server's keys says that more was published than the
      backup has, the restore is refused, and with `is_older_accepted` the server still refuses to publish on top of it
      (`registry.rollback_guard`).
"""

import asyncio
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from alcove.platform.domain.errors import BackupError, RestoreRefusedError, StoreOccupiedError
from alcove.platform.services.backups.place import PIECE_BYTES, BackupPlace, copy_blob, read_pieces
from alcove.platform.services.backups.record import BackupRecord
from alcove.platform.store import Store
from alcove.platform.store.database import DATABASE_FILE
from alcove.platform.store.row_copies import begin_copy, compare_rows, copy_rows, refuse_occupied
from alcove.platform.store.schema_changes import list_revisions
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.registry.errors import IntegrityError, MissingTargetError, StorageError
from alcove.registry.keys import write_private_file
from alcove.registry.layout import metadata_file
from alcove.registry.rollback_guard import FILE as PUBLISHED_NOTE
from alcove.registry.rollback_guard import read_published
from alcove.registry.zstd import zstd
from alcove.runtime.files import DISK, replace_file

if TYPE_CHECKING:
    from alcove.platform.services.backups.server_data import ServerData
    from alcove.registry.repository import Repository
    from alcove.runtime.clock import Clock

__all__ = ["MARKER", "RestoreResult", "restore_backup"]

MARKER: Final = "restoring.json"  # in the data folder while a restore is under way
_NO_DATA: Final = frozenset({PUBLISHED_NOTE, f".{MARKER}.partial", "lost+found"})  # may be in an empty folder
_PRINCIPAL: Final = "local"  # the owner of the data folder, in the audit log
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class RestoreResult:
    """A backup that was restored.

    Attributes:
        record: what was restored.
        noted: the highest versions of timestamp and snapshot that were published from here, by the note beside the
            keys; empty where nothing says so.
    """

    record: BackupRecord
    noted: dict[str, int]


async def restore_backup(
    place: BackupPlace,
    record: BackupRecord,
    target: "ServerData",
    *,
    clock: "Clock",
    keys: dict[str, bytes] | None = None,
    is_older_accepted: bool = False,
    on_progress: Progress = lambda _done, _total: None,
) -> RestoreResult:
    """Restore a backup into an empty place; the same call completes what a kill has left.

    Args:
        place: holds the backup.
        record: of the backup.
        target: where the data is to lie.
        clock: dates the entry in the audit log.
        keys: files for the folder of keys, by name.
        is_older_accepted: whether less may be restored than was published from here.
        on_progress: called with the bytes of blobs that are done, and of all.

    Raises:
        RestoreRefusedError, StoreOccupiedError: there is other data, or more was published from here.
        BackupError: a newer version of alcove made it, or a part of it is gone or damaged.
        RegistryError: a store fails, or the restored tree is not sound.
        StoreUnavailableError, StoreFullError: the database.
    """
    if record.schema_revision not in list_revisions(Store.schema):
        problem = f"alcove {record.alcove} made it, with schema {record.schema_revision}: install that version or newer"
        raise BackupError(record.backup_id, problem)
    noted = _check_note(record, target, is_older_accepted=is_older_accepted)
    with _hold(record, target) as state:
        if not state.get("are_rows_there"):
            await _restore_rows(place, record, target)
            state["are_rows_there"] = True
            _write_marker(target, state)
        if not state.get("is_audited"):  # killed between the two, there are two lines, and never none
            await _audit(record, target, clock)
            state["is_audited"] = True
            _write_marker(target, state)
        tree = target.open_tree()
        await asyncio.to_thread(_restore_blobs, place, record, tree, on_progress)
        await asyncio.to_thread(_restore_keys, target.keys, keys or {})
        await asyncio.to_thread(_restore_files, place, record, tree.folder)
        tree.state()  # proves it from its root
        try:
            (target.data_dir / MARKER).unlink()
            DISK.sync_folder(target.data_dir)
        except OSError as error:
            raise _storage_error(target.data_dir, error) from error
    return RestoreResult(record, noted)


def _check_note(record: BackupRecord, target: "ServerData", *, is_older_accepted: bool) -> dict[str, int]:
    noted: dict[str, int] = {}
    for folder in (target.keys, target.data_dir):  # where a server notes it (`Settings.rollback_note`)
        for role, number in read_published(folder / PUBLISHED_NOTE).items():
            noted[role] = max(number, noted.get(role, 0))
    for role, published in record.published.items():
        if noted.get(role, 0) > published and not is_older_accepted:
            problem = (
                f"{noted[role]} was published from here as {role}, and backup {record.backup_id} says {published}:"
                " restore a newer one, or bring the newer files from a mirror afterwards (--accept-older)"
            )
            raise RestoreRefusedError(str(target.keys / PUBLISHED_NOTE), problem)
    return noted


@contextmanager
def _hold(record: BackupRecord, target: "ServerData") -> Iterator[dict[str, Any]]:
    """Note that this restore is under way, in a folder that holds nothing else; keep another one out."""
    folder, marker = target.data_dir, target.data_dir / MARKER
    try:
        DISK.make_folder(folder)
        names = {path.name for path in folder.iterdir()} - _NO_DATA
        state: dict[str, Any] = json.loads(marker.read_bytes()) if MARKER in names else {}
    except ValueError:
        raise RestoreRefusedError(str(marker), "is no note of a restore: empty the folder") from None
    except OSError as error:
        raise _storage_error(folder, error) from error
    if names and not state:
        problem = f"holds {min(names)}: a backup is restored into an empty folder"
        raise RestoreRefusedError(str(folder), problem)
    if state and state.get("backup") != record.backup_id:
        problem = f"a restore of {state.get('backup')} was not completed: complete it (--backup), or empty the folder"
        raise RestoreRefusedError(str(folder), problem)
    if not state:
        state = {"backup": record.backup_id, "are_rows_there": False}
        _write_marker(target, state)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield state
    except BlockingIOError:
        raise RestoreRefusedError(str(folder), "another restore is under way") from None
    finally:
        os.close(descriptor)


def _write_marker(target: "ServerData", state: dict[str, Any]) -> None:
    try:
        replace_file(DISK, target.data_dir / MARKER, json.dumps(state).encode())
    except OSError as error:
        raise _storage_error(target.data_dir / MARKER, error) from error


async def _restore_rows(place: BackupPlace, record: BackupRecord, target: "ServerData") -> None:
    """Fill the database in one transaction; what an interrupted restore has committed is compared instead."""
    with tempfile.TemporaryDirectory(prefix="alcove-restore-") as name:
        path = Path(name) / DATABASE_FILE
        await asyncio.to_thread(_unpack_rows, place, record, path)
        source = await Store.open(path)  # migrates what an older version has backed up
        store = await Store.open(target.location)
        try:
            async with source.read(is_long=True) as rows, store.write() as session:
                await begin_copy(rows)
                try:
                    await refuse_occupied(session, store.where)
                except StoreOccupiedError:
                    if await compare_rows(rows, session) is not None:
                        raise
                else:
                    await copy_rows(rows, session)
        finally:
            await store.close()
            await source.close()


def _unpack_rows(place: BackupPlace, record: BackupRecord, path: Path) -> None:
    packed = path.with_name("rows.zst")
    try:
        with packed.open("wb") as file:
            for piece in read_pieces(place.objects, record.rows.sha256, record.rows.size_bytes):
                file.write(piece)
        _check_digest(packed, record)
        with zstd.open(packed, "rb") as source, path.open("wb") as unpacked:
            shutil.copyfileobj(source, unpacked, PIECE_BYTES)
    except (MissingTargetError, zstd.ZstdError, EOFError) as error:
        raise BackupError(record.backup_id, f"its rows cannot be read: {error}") from error
    except OSError as error:
        raise _storage_error(path, error) from error
    packed.unlink()


def _check_digest(packed: Path, record: BackupRecord) -> None:
    with packed.open("rb") as file:
        seen = hashlib.file_digest(file, "sha256").hexdigest()
    if seen != record.rows.sha256:
        raise BackupError(record.backup_id, f"its rows are damaged: {seen} was read, {record.rows.sha256} was written")


async def _audit(record: BackupRecord, target: "ServerData", clock: "Clock") -> None:
    """Say in the audit log that what is there was restored."""
    store = await Store.open(target.location)
    try:
        async with store.write() as session:
            uow = UnitOfWork(session, _PRINCIPAL, clock.now_s())
            await uow.audit("restore backup", record.backup_id, made_at_s=record.made_at_s, **record.published)
    finally:
        await store.close()


def _restore_blobs(place: BackupPlace, record: BackupRecord, tree: "Repository", on_progress: Progress) -> None:
    total, done = sum(record.blobs.values()), 0
    for sha256, size in sorted(record.blobs.items()):
        if tree.blobs.size_bytes(sha256) != size:
            try:
                copy_blob(place.objects, tree.blobs, sha256, size)
            except (MissingTargetError, IntegrityError) as error:
                raise BackupError(record.backup_id, f"blob {sha256} is damaged: {error}") from error
        done += size
        on_progress(done, total)


def _restore_keys(folder: Path, files: dict[str, bytes]) -> None:
    """Write keys where there are none; those of an interrupted restore are the same."""
    for name, data in files.items():
        path = folder / name
        try:
            DISK.make_folder(folder)
            if path.exists():
                if path.read_bytes() != data:
                    raise RestoreRefusedError(str(path), "another key is there: name an empty folder (--keys)")
                continue
            partial = folder / f".{name}.partial"
            partial.unlink(missing_ok=True)
            write_private_file(partial, data)
            DISK.rename(partial, path)
            DISK.sync_folder(folder)
        except OSError as error:
            raise _storage_error(path, error) from error


def _restore_files(place: BackupPlace, record: BackupRecord, folder: Path) -> None:
    """Write the tree, the timestamp last: with it there is a tree."""
    last = metadata_file("timestamp")
    for path, part in sorted(record.files.items(), key=lambda item: (item[0] == last, item[0])):
        data = place.get(part)
        try:
            replace_file(DISK, folder / path, data)
        except OSError as error:
            raise _storage_error(folder / path, error) from error


def _storage_error(path: Path, error: OSError) -> StorageError:
    return StorageError(str(error.filename or path), error.strerror or str(error))
