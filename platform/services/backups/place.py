"""Stores backups in a folder or a bucket.

::

    objects/<sha256>     bytes that any number of backups name: blobs, files of the tree, rows
    backups/<id>.json    one record for each backup, written when everything that it names is there

What is stored already is not stored again, so the second backup costs what changed.
"""

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Protocol

from alcove.platform.domain.errors import BackupError
from alcove.platform.services.backups.record import BACKUP_ID, BackupRecord, StoredPart
from alcove.registry.blobs import BlobStore, open_blob_store
from alcove.registry.errors import IntegrityError, MissingTargetError, StorageError
from alcove.runtime.files import DISK, replace_file

if TYPE_CHECKING:
    from obstore.store import ObjectStore

__all__ = ["PRUNE_AGE_S", "BackupPlace", "copy_blob", "file_pieces", "open_place", "read_pieces"]

PIECE_BYTES: Final = 4 * 1024**2  # in memory at a time
_SPOOL_BYTES: Final = 8 * PIECE_BYTES  # of a blob that is copied in memory
PRUNE_AGE_S: Final = 86_400  # seconds for which an object that no record names is kept
YOUNG_S: Final = PRUNE_AGE_S // 2  # seconds; so that half of it is left for the backup that relies on the object
_OBJECTS: Final = "objects"
_RECORDS: Final = "backups"
_END: Final = ".json"


class BackupPlace:
    """Where backups lie.

    Attributes:
        where: folder or URL, for people.
        objects: bytes by digest.
    """

    def __init__(self, where: str, objects: BlobStore, records: "_Records") -> None:
        self.where = where
        self.objects = objects
        self._records = records

    def list_ids(self) -> list[str]:
        """Return the ids of all backups, the oldest first.

        Raises:
            StorageError: the place cannot be read.
        """
        names = (name.removesuffix(_END) for name in self._records.names() if name.endswith(_END))
        return sorted(name for name in names if BACKUP_ID.fullmatch(name))

    def read_record(self, backup_id: str | None = None) -> BackupRecord:
        """Return the record of a backup, of the newest by default.

        Raises:
            BackupError: there is none, or it is damaged.
            StorageError: the place cannot be read.
        """
        ids = self.list_ids()
        if not ids or (backup_id is not None and backup_id not in ids):
            raise BackupError(backup_id or self.where, f"no such backup in {self.where}; it holds {len(ids)}")
        chosen = backup_id or ids[-1]
        return BackupRecord.from_bytes(chosen, self._records.read(f"{chosen}{_END}"))

    def write_record(self, record: BackupRecord) -> None:
        """Store a record: from now on the backup exists.

        Raises:
            StorageError: the place refused it.
        """
        self._records.write(f"{record.backup_id}{_END}", record.to_bytes())

    def list_known(self, now_s: int) -> set[str]:
        """Return the digests of objects that a backup may rely on: a record names them, or they are young.

        What neither holds for may be pruned at any time, so it is stored again.

        Raises:
            BackupError, StorageError: a record is damaged, or the place cannot be read.
        """
        named = self._list_named(self.list_ids())
        return {
            blob.sha256
            for blob in self.objects.list_blobs()
            if blob.sha256 in named or blob.stored_at_s > now_s - YOUNG_S
        }

    def find_missing(self, digests: set[str]) -> str | None:
        """Return one of the digests that is not stored, or None.

        Raises:
            StorageError: the place cannot be read.
        """
        return min(digests - {blob.sha256 for blob in self.objects.list_blobs()}, default=None)

    def prune(self, keep: int, now_s: int) -> tuple[list[str], int]:
        """Remove all backups but the newest, and what no other names; return their ids and the bytes that went.

        No backup may be under way.

        Args:
            keep: number of backups that remain, at least 1.
            now_s: seconds since 1970; what was stored in the last day stays.

        Raises:
            BackupError: the record of a backup that remains is damaged: nothing is removed.
            StorageError: the place fails; repeating carries on.
        """
        ids = self.list_ids()
        gone, kept = ids[:-keep], ids[-keep:]
        named = self._list_named(kept)
        for backup_id in gone:
            self._records.remove(f"{backup_id}{_END}")
        freed = 0
        for blob in list(self.objects.list_blobs()):
            if blob.sha256 not in named and blob.stored_at_s <= now_s - PRUNE_AGE_S:
                self.objects.remove(blob.sha256)
                freed += blob.size_bytes
        return gone, freed

    def _list_named(self, ids: list[str]) -> set[str]:
        return {sha256 for backup_id in ids for sha256 in self.read_record(backup_id).digests()}

    def put(self, data: bytes, known: set[str]) -> StoredPart:
        """Store bytes unless they are there.

        Args:
            data: the bytes.
            known: digests that are there; the new one is added.

        Raises:
            StorageError: the place refused them.
        """
        sha256 = hashlib.sha256(data).hexdigest()
        if sha256 not in known:
            self.objects.put(sha256, data)
            known.add(sha256)
        return StoredPart(sha256=sha256, size_bytes=len(data))

    def get(self, part: StoredPart) -> bytes:
        """Return stored bytes, verified.

        Raises:
            BackupError: they are gone or are others.
            StorageError: the place cannot be read.
        """
        try:
            return self.objects.get(part.sha256)
        except (MissingTargetError, IntegrityError) as error:
            raise BackupError(self.where, f"{_OBJECTS}/{part.sha256} is damaged: {error}") from error


def copy_blob(source: BlobStore, target: BlobStore, sha256: str, size_bytes: int) -> None:
    """Copy a blob, verified, through a file where it is large: one object store cannot be read while another is fed.

    Raises:
        MissingTargetError: it is not there.
        IntegrityError: its bytes have another digest.
        StorageError: a store fails.
        OSError: there is no room for the file.
    """
    with tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES) as file:
        for piece in read_pieces(source, sha256, size_bytes):
            file.write(piece)
        file.seek(0)
        target.put(sha256, file_pieces(file))


def read_pieces(store: BlobStore, sha256: str, size_bytes: int) -> Iterator[bytes]:
    """Give a blob piece by piece; only the digest of the whole tells whether they hold.

    Raises:
        MissingTargetError: it is not there.
        StorageError: it cannot be read, or is shorter.
    """
    for start in range(0, size_bytes, PIECE_BYTES):
        yield store.read(sha256, start, min(PIECE_BYTES, size_bytes - start))


def file_pieces(file: IO[bytes]) -> Iterator[bytes]:
    """Give the rest of a file piece by piece."""
    while piece := file.read(PIECE_BYTES):
        yield piece


def open_place(location: str) -> BackupPlace:
    """Return the place at a folder, made for its owner alone where absent, or at a URL such as s3://bucket/prefix.

    Raises:
        StorageError: the folder cannot be made, or the URL names no store.
    """
    location = location.removeprefix("file://")
    if "://" in location:
        from obstore.store import from_url  # noqa: PLC0415 - only a server's machine has it

        base = location.rstrip("/")
        objects = open_blob_store(f"{base}/{_OBJECTS}")  # raises for what is no URL of a store
        return BackupPlace(base, objects, _BucketRecords(from_url(f"{base}/{_RECORDS}")))
    folder = Path(location)
    try:
        DISK.make_folder(folder)
        folder.chmod(0o700)  # rows name people, and say what nobody has published yet
        DISK.make_folder(folder / _RECORDS)
    except OSError as error:
        raise StorageError(str(error.filename or folder), error.strerror or str(error)) from error
    return BackupPlace(str(folder), open_blob_store(folder / _OBJECTS), _FolderRecords(folder / _RECORDS))


class _Records(Protocol):
    def names(self) -> list[str]: ...

    def read(self, name: str) -> bytes: ...

    def write(self, name: str, data: bytes) -> None: ...

    def remove(self, name: str) -> None: ...


class _FolderRecords:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self) -> list[str]:
        try:
            return [path.name for path in self._folder.iterdir()]
        except OSError as error:
            raise _storage_error(self._folder, error) from error

    def read(self, name: str) -> bytes:
        try:
            return (self._folder / name).read_bytes()
        except OSError as error:
            raise _storage_error(self._folder / name, error) from error

    def write(self, name: str, data: bytes) -> None:
        try:
            replace_file(DISK, self._folder / name, data)
        except OSError as error:
            raise _storage_error(self._folder / name, error) from error

    def remove(self, name: str) -> None:
        try:
            (self._folder / name).unlink(missing_ok=True)
            DISK.sync_folder(self._folder)
        except OSError as error:
            raise _storage_error(self._folder / name, error) from error


class _BucketRecords:
    def __init__(self, store: "ObjectStore") -> None:
        from obstore.exceptions import BaseError  # noqa: PLC0415

        self._store = store
        self._errors = (OSError, BaseError)

    def names(self) -> list[str]:
        try:
            return [item["path"] for items in self._store.list() for item in items]
        except self._errors as error:
            raise StorageError(_RECORDS, str(error)) from error

    def read(self, name: str) -> bytes:
        try:
            return bytes(self._store.get(name).bytes())
        except self._errors as error:
            raise StorageError(name, str(error)) from error

    def write(self, name: str, data: bytes) -> None:
        try:
            self._store.put(name, data)
        except self._errors as error:
            raise StorageError(name, str(error)) from error

    def remove(self, name: str) -> None:
        try:
            self._store.delete(name)
        except FileNotFoundError:
            return
        except self._errors as error:
            raise StorageError(name, str(error)) from error


def _storage_error(path: Path, error: OSError) -> StorageError:
    return StorageError(str(error.filename or path), error.strerror or str(error))
