"""Describes one backup: what it holds, by digest, and the numbers that a restored tree will say.

A record is written last, so a backup that has one is whole.  Its name carries the beginning of the digest of its bytes:
a record that was changed or cut is known by its name.
"""

import hashlib
import re
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Annotated, Final, Literal, Self

from alcove.platform.domain.errors import BackupError
from alcove.registry.layout import BLOBS
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

__all__ = ["BACKUP_ID", "BackupRecord", "StoredPart"]

BACKUP_ID: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{16}")
_DIGEST_DIGITS: Final = 16
_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Size = Annotated[int, Field(ge=0)]


class StoredPart(BaseModel):
    """Bytes of the backup, stored once under their digest."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: _Digest
    size_bytes: _Size


class BackupRecord(BaseModel):
    """One backup.

    Attributes:
        made_at_s: seconds since 1970 of the moment that it shows.
        alcove: the version that made it.
        schema_revision: of the rows.
        rows: a SQLite file with the rows, compressed by Zstandard, whatever the server's database is.
        row_counts: by table.
        files: of the signed tree but for blobs, by path.
        blobs: sizes in bytes, by digest.
        published: versions of the tree's timestamp and snapshot.
        keys: the server's keys, encrypted; None: they are not in it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    made_at_s: _Size
    alcove: str
    schema_revision: str
    rows: StoredPart
    row_counts: dict[str, int]
    files: dict[str, StoredPart]
    blobs: dict[_Digest, _Size]
    published: dict[Literal["timestamp", "snapshot"], int]
    keys: StoredPart | None = None

    @field_validator("files")
    @classmethod
    def _check_paths(cls, files: dict[str, StoredPart]) -> dict[str, StoredPart]:
        for path in files:
            parts = PurePosixPath(path).parts
            if path.startswith("/") or ".." in parts or "\\" in path or not parts or parts[0] == BLOBS:
                msg = f"a path within the tree, got {path!r}"
                raise ValueError(msg)
        return files

    @property
    def backup_id(self) -> str:
        """Its name: the moment in UTC and the beginning of the digest of its bytes."""
        digest = hashlib.sha256(self.to_bytes()).hexdigest()[:_DIGEST_DIGITS]
        return f"{datetime.fromtimestamp(self.made_at_s, UTC):%Y%m%dT%H%M%SZ}-{digest}"

    @property
    def size_bytes(self) -> int:
        """All that it holds, compressed as it is stored."""
        parts = [self.rows, *self.files.values(), *([] if self.keys is None else [self.keys])]
        return sum(part.size_bytes for part in parts) + sum(self.blobs.values())

    def digests(self) -> set[str]:
        """Return the digests of all that it names."""
        parts = [self.rows, *self.files.values(), *([] if self.keys is None else [self.keys])]
        return {part.sha256 for part in parts} | self.blobs.keys()

    def to_bytes(self) -> bytes:
        """Return the record's JSON."""
        return self.model_dump_json(indent=1).encode()

    @classmethod
    def from_bytes(cls, backup_id: str, data: bytes) -> Self:
        """Read a record.

        Raises:
            BackupError: it is not what was written under this name, or another version of alcove wrote it.
        """
        digest = hashlib.sha256(data).hexdigest()[:_DIGEST_DIGITS]
        if not BACKUP_ID.fullmatch(backup_id) or backup_id.rpartition("-")[2] != digest:
            raise BackupError(backup_id, "its record is not the one that was written: take another backup")
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            where = ".".join(map(str, fault["loc"]))
            raise BackupError(backup_id, f"a newer alcove may have made it: {where}: {fault['msg']}") from None
