"""Writes a new state of the tree to the disk in an order in which a client always finds a whole one.

Targets, then roles, then the snapshot that names the roles, then the timestamp that names the snapshot.  Until the last
rename every client follows the old timestamp to the old files, none of which is touched.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from alcove.registry import layout, limits
from alcove.registry._tuf import Metadata, MetaFile, Snapshot, TargetFile, Targets, Timestamp
from alcove.registry.errors import DocumentTooLargeError, StorageError
from alcove.registry.signed_time import utc
from alcove.registry.signers import sign_metadata
from alcove.registry.trust import SignedRole
from alcove.runtime.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from alcove.registry._tuf import Signer
    from alcove.registry.keys import OnlineKeys
    from alcove.runtime.files import Disk


@dataclass(frozen=True, slots=True)
class MetadataWriter:
    """Writes new states of one tree.

    Attributes:
        folder: where the tree lies.
        keys: sign snapshot and timestamp.
        files: writes.
        now_s: dates the signatures.
        cosigners: the keys of snapshot and timestamp that sign besides, while the tree moves from one key to another.
    """

    folder: Path
    keys: OnlineKeys
    files: Disk
    now_s: int
    cosigners: Mapping[str, tuple[Signer, ...]] = field(default_factory=dict)

    def publish(
        self,
        *,
        targets: Mapping[str, bytes],
        roles: Mapping[str, SignedRole],
        snapshot: Snapshot | None,
        timestamp: Timestamp | None,
    ) -> None:
        """Write new targets and roles, and the snapshot and timestamp that make them current.

        Args:
            targets: bytes of the new documents, by target path.
            roles: the new metadata of each role that changes.
            snapshot: the current one, None for a new tree.
            timestamp: the current one, None for a new tree.

        Raises:
            StorageError: a step failed; the old state stands, and publishing again is safe.
            DocumentTooLargeError: the tree has more roles than devices read; the old state stands.
        """
        try:
            for path, data in targets.items():
                self._write(layout.target_file(path, hashlib.sha256(data).hexdigest()), data)
            for role, signed in roles.items():
                self._write(layout.metadata_file(role, signed.version), signed.data)
            version, data = self._write_snapshot(roles, snapshot)
            self._write_timestamp(timestamp, MetaFile.from_data(version, data, ["sha256"]))
        except OSError as error:
            raise StorageError(str(error.filename or self.folder), error.strerror or str(error)) from error

    def restamp(self, timestamp: Timestamp) -> None:
        """Sign the timestamp again; nothing else changes.

        Raises:
            StorageError: a step failed; the old timestamp stands.
        """
        try:
            self._write_timestamp(timestamp, timestamp.snapshot_meta)
        except OSError as error:
            raise StorageError(str(error.filename or self.folder), error.strerror or str(error)) from error

    def next_role(self, role: str, current: SignedRole, targets: Mapping[str, TargetFile]) -> SignedRole:
        """Return the next metadata of "policy" or "halt", signed; nothing is written."""
        signer = {"policy": self.keys.policy, "halt": self.keys.halt}[role]
        expires = utc(self.now_s + layout.LIFETIMES_S[role])
        metadata = Metadata(Targets(version=current.version + 1, expires=expires, targets=dict(targets)))
        sign_metadata(role, metadata, signer)
        return SignedRole(metadata, metadata.to_bytes())

    def _write_snapshot(self, roles: Mapping[str, SignedRole], current: Snapshot | None) -> tuple[int, bytes]:
        meta = {} if current is None else dict(current.meta)
        for role, signed in roles.items():
            # Digests as well as versions: a file of another state never fits, no matter who holds the role's key.
            meta[f"{role}.json"] = MetaFile.from_data(signed.version, signed.data, ["sha256"])
        version = 1 if current is None else current.version + 1
        metadata = Metadata(
            Snapshot(version=version, expires=utc(self.now_s + layout.LIFETIMES_S["snapshot"]), meta=meta)
        )
        data = self._sign("snapshot", metadata, self.keys.snapshot)
        if len(data) > limits.SNAPSHOT_METADATA_MAX_BYTES:
            # Published, it would be refused by every device: better refuse the publication.
            raise DocumentTooLargeError(
                "snapshot", limit_bytes=limits.SNAPSHOT_METADATA_MAX_BYTES, size_bytes=len(data)
            )
        self._write(layout.metadata_file("snapshot", version), data)
        return version, data

    def _write_timestamp(self, current: Timestamp | None, snapshot_meta: MetaFile) -> None:
        version = 1 if current is None else current.version + 1
        expires = utc(self.now_s + layout.LIFETIMES_S["timestamp"])
        metadata = Metadata(Timestamp(version=version, expires=expires, snapshot_meta=snapshot_meta))
        self._write(layout.metadata_file("timestamp"), self._sign("timestamp", metadata, self.keys.timestamp))

    def _sign(self, role: str, metadata: Metadata[Snapshot] | Metadata[Timestamp], signer: Signer) -> bytes:
        for one in (signer, *self.cosigners.get(role, ())):
            sign_metadata(role, metadata, one, append=True)
        return metadata.to_bytes()

    def _write(self, place: str, data: bytes) -> None:
        replace_file(self.files, self.folder / place, data)
