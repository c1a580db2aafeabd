"""Reads the tree on this disk, and proves it from its root to its last role.

Reading never trusts a file: each is checked against the keys of its delegator and the digests in the snapshot.  Dates
are not judged here, for the server must be able to renew what has expired; `audit.py` judges them.

A role that was proved once need not be read again while snapshot and delegator name the same digest and keys: that is
what `VerifiedCache` remembers, so that publishing one of 10 000 versions costs what that version costs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from alcove.registry import layout, limits
from alcove.registry._tuf import Metadata, Root, Snapshot, Targets, Timestamp
from alcove.registry.errors import (
    DocumentTooLargeError,
    IntegrityError,
    MetadataError,
    RollbackError,
    SignatureError,
    StorageError,
)
from alcove.registry.rules import check_role, check_snapshot, check_targets, check_timestamp, delegations, succinct_of
from alcove.runtime.files import read_bounded
from tuf.api.exceptions import LengthOrHashMismatchError, RepositoryError, UnsignedMetadataError
from tuf.api.serialization import DeserializationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from alcove.registry._tuf import MetaFile, TargetFile

_Signed = TypeVar("_Signed", Root, Timestamp, Snapshot, Targets)

_ROOTS_MAX: Final = 1024  # rotations of the root keys in the life of one tree


@dataclass(frozen=True, slots=True)
class SignedRole:
    """One delegated role: what it says and the bytes that were signed."""

    metadata: Metadata[Targets]
    data: bytes

    @property
    def version(self) -> int:
        """Version of the role's metadata."""
        return self.metadata.signed.version

    @property
    def targets(self) -> dict[str, TargetFile]:
        """Targets by path."""
        return self.metadata.signed.targets


@dataclass(frozen=True, slots=True)
class TrustedState:
    """One consistent, proved state of a tree.

    Attributes:
        root_bytes: the newest root metadata, as signed.
        roles: every delegated role by name: "policy", "halt", teams, and the bins beneath them.
        signers: ids of the trusted keys that have signed each of root, targets, snapshot and timestamp.
    """

    root: Root
    root_bytes: bytes
    timestamp: Timestamp
    snapshot: Snapshot
    targets: Targets
    roles: Mapping[str, SignedRole]
    signers: Mapping[str, tuple[str, ...]]

    def find(self, path: str) -> TargetFile | None:
        """Return the target that the role responsible for `path` names, or None."""
        role = self.role_for(path)
        if role is None:
            return None
        owner = self.roles[role]
        succinct = succinct_of(owner.metadata.signed)
        holder = owner if succinct is None else self.roles[succinct.get_role_for_target(path)]
        return holder.targets.get(path)

    def targets_of(self, role: str) -> Iterator[tuple[str, TargetFile]]:
        """Give every target that a role or one of its bins holds, with its path."""
        owner = self.roles[role]
        for name in (role, *bins_of(owner.metadata.signed)):
            yield from self.roles[name].targets.items()

    def role_for(self, path: str) -> str | None:
        """Return the name of the top role's delegate that may speak about `path` (a team, never a bin), or None."""
        # Delegations are terminating: the first that matches is the only one a client asks.
        for name, role in delegations(self.targets).items():
            if role.is_delegated_path(path):
                return name
        return None


@dataclass(slots=True)
class VerifiedCache:
    """Delegated roles that were proved before, by what proves them again; for one tree, and safe from any thread.

    Attributes:
        roles: by name: the proof (digest that the snapshot names, keys that the delegator names) and the role.
    """

    roles: dict[str, tuple[tuple[object, ...], SignedRole]] = field(default_factory=dict)


def online_trust(root: Root, targets: Targets) -> dict[str, list[str]]:
    """Return the ids of the keys that may sign for each role of the server."""
    trusted = {role: list(root.roles[role].keyids) for role in ("snapshot", "timestamp")}
    return trusted | {role: list(delegations(targets)[role].keyids) for role in ("policy", "halt")}


def bins_of(team: Targets) -> tuple[str, ...]:
    """Return the names of the bins beneath a team; none where its versions stand in its own list."""
    succinct = succinct_of(team)
    return () if succinct is None else tuple(succinct.get_roles())


def parse(kind: type[_Signed], role: str, data: bytes, limit_bytes: int) -> Metadata[_Signed]:
    """Return metadata of one kind; its signatures are not judged yet.

    Raises:
        DocumentTooLargeError: more than `limit_bytes`; nothing was parsed.
        MetadataError: not metadata, or of another kind.
    """
    if len(data) > limit_bytes:
        raise DocumentTooLargeError(f"metadata of {role}", limit_bytes=limit_bytes, size_bytes=len(data))
    try:
        metadata = Metadata[_Signed].from_bytes(data)
    except DeserializationError:
        raise MetadataError(role, "these bytes are not TUF metadata") from None
    if not isinstance(metadata.signed, kind):
        raise MetadataError(role, f"expected {kind.type} metadata, got {metadata.signed.type}")
    return metadata


def verify(delegator: Root | Targets, role: str, metadata: Metadata[_Signed]) -> None:
    """Check that enough of the keys that `delegator` names have signed.

    Raises:
        SignatureError: too few did.
        MetadataError: `delegator` knows no such role.
    """
    try:
        delegator.verify_delegate(role, metadata.signed_bytes, metadata.signatures)
    except UnsignedMetadataError as error:
        raise SignatureError(role, str(error)) from None
    except (RepositoryError, ValueError) as error:
        raise MetadataError(role, str(error)) from None


def find_signers(delegator: Root | Targets, role: str, metadata: Metadata[_Signed]) -> tuple[str, ...]:
    """Return the ids of those of the keys that `delegator` names which have signed; in its order."""
    return tuple(delegator.get_verification_result(role, metadata.signed_bytes, metadata.signatures).signed)


def read_state(folder: Path, *, cache: VerifiedCache | None = None, root_version: int | None = None) -> TrustedState:
    """Return the state that `timestamp.json` leads to.

    Args:
        folder: where the tree lies.
        cache: what was proved before; what is proved now is added.
        root_version: read the roots up to this one alone, though there may be newer ones (`request_verification.py`).

    Raises:
        StorageError: a file is absent or unreadable.
        SignatureError: a role is not signed by the keys of its delegator.
        IntegrityError: a file differs from the digest in the snapshot or timestamp.
        RollbackError: a file has another version than the snapshot or timestamp says.
        MetadataError: a file is not acceptable otherwise.
    """
    newest, root_bytes = _read_roots(folder, _ROOTS_MAX if root_version is None else root_version)
    root = newest.signed
    timestamp = _read(folder, Timestamp, "timestamp", None, limits.TIMESTAMP_METADATA_MAX_BYTES)[0]
    verify(root, "timestamp", timestamp)
    link = timestamp.signed.snapshot_meta
    snapshot, data = _read(folder, Snapshot, "snapshot", link.version, limits.SNAPSHOT_METADATA_MAX_BYTES)
    _match("snapshot", link, data, snapshot.signed.version)
    verify(root, "snapshot", snapshot)
    check_timestamp(timestamp.signed)
    check_snapshot(snapshot.signed)
    top = _read_role(folder, root, "targets", snapshot.signed).metadata
    targets = top.signed
    check_targets(targets)
    roles = {}
    for name in delegations(targets):
        roles[name] = _read_verified(folder, targets, name, snapshot.signed, cache)
        team = roles[name].metadata.signed
        for bin_name in bins_of(team):
            roles[bin_name] = _read_verified(folder, targets, bin_name, snapshot.signed, cache, team=team)
    signers = {
        "root": find_signers(root, "root", newest),
        "targets": find_signers(root, "targets", top),
        "snapshot": find_signers(root, "snapshot", snapshot),
        "timestamp": find_signers(root, "timestamp", timestamp),
    }
    return TrustedState(root, root_bytes, timestamp.signed, snapshot.signed, targets, roles, signers)


def read_target(folder: Path, path: str, target: TargetFile, limit_bytes: int) -> bytes:
    """Return the bytes of a target, proved.

    Raises:
        StorageError: the file is absent or unreadable.
        IntegrityError: it is not the signed one.
    """
    expected = target.hashes["sha256"]
    file = folder / layout.target_file(path, expected)
    data = _read_file(file, min(limit_bytes, target.length))
    if data is None:
        raise IntegrityError(path, expected=f"{target.length} bytes", seen="more")
    try:
        target.verify_length_and_hashes(data)
    except LengthOrHashMismatchError as error:
        raise IntegrityError(path, expected=expected, seen=str(error)) from None
    return data


def _read_roots(folder: Path, last: int) -> tuple[Metadata[Root], bytes]:
    metadata, data = _read(folder, Root, "root", 1, limits.ROOT_METADATA_MAX_BYTES)
    verify(metadata.signed, "root", metadata)
    for version in range(2, last + 1):
        if not (folder / layout.metadata_file("root", version)).exists():
            break
        trusted = metadata.signed
        metadata, data = _read(folder, Root, "root", version, limits.ROOT_METADATA_MAX_BYTES)
        verify(trusted, "root", metadata)
        verify(metadata.signed, "root", metadata)
        if metadata.signed.version != version:
            raise RollbackError("root", f"expected version {version}, got {metadata.signed.version}")
    return metadata, data


def _read_role(folder: Path, delegator: Root | Targets, role: str, snapshot: Snapshot) -> SignedRole:
    link = snapshot.meta.get(f"{role}.json")
    if link is None:
        raise MetadataError(role, "the snapshot does not name it")
    metadata, data = _read(folder, Targets, role, link.version, limits.TARGETS_METADATA_MAX_BYTES)
    _match(role, link, data, metadata.signed.version)
    verify(delegator, role, metadata)
    return SignedRole(metadata, data)


def _read_verified(
    folder: Path,
    top: Targets,
    role: str,
    snapshot: Snapshot,
    cache: VerifiedCache | None,
    *,
    team: Targets | None = None,
) -> SignedRole:
    """Return a delegated role that keeps every rule; `team` is what stands above a bin."""
    delegator = top if team is None else team
    proof = _proof(top, delegator, role, snapshot)
    known = None if cache is None else cache.roles.get(role)
    if known is not None and proof is not None and known[0] == proof:
        return known[1]
    signed = _read_role(folder, delegator, role, snapshot)
    check_role(role, signed.metadata.signed, top, team=team)
    if cache is not None and proof is not None:
        cache.roles[role] = (proof, signed)
    return signed


def _proof(top: Targets, delegator: Targets, role: str, snapshot: Snapshot) -> tuple[object, ...] | None:
    """Return everything above a role that its signatures and its rules are judged by."""
    link = snapshot.meta.get(f"{role}.json")
    if link is None or not link.hashes or delegator.delegations is None:
        return None
    delegated = delegator.get_delegated_role(role)
    keys = [delegator.delegations.keys.get(keyid) for keyid in delegated.keyids]
    public = [None if key is None else (key.keyid, *sorted(key.keyval.items())) for key in keys]
    owned = delegations(top).get(layout.bin_owner(role) or role)
    paths = () if owned is None else tuple(owned.paths or ())
    succinct = succinct_of(delegator)
    spread = None if succinct is None else (succinct.name_prefix, succinct.bit_length)
    return (link.version, link.hashes.get("sha256"), delegated.threshold, paths, spread, *public)


def _match(role: str, link: MetaFile, data: bytes, version: int) -> None:
    try:
        link.verify_length_and_hashes(data)
    except LengthOrHashMismatchError as error:
        expected = (link.hashes or {}).get("sha256", "")
        raise IntegrityError(f"metadata of {role}", expected=expected, seen=str(error)) from None
    if version != link.version:
        raise RollbackError(role, f"expected version {link.version}, got {version}")


def _read(
    folder: Path, kind: type[_Signed], role: str, version: int | None, limit_bytes: int
) -> tuple[Metadata[_Signed], bytes]:
    path = folder / layout.metadata_file(role, version)
    data = _read_file(path, limit_bytes)
    if data is None:
        raise DocumentTooLargeError(f"metadata of {role}", limit_bytes=limit_bytes, size_bytes=path.stat().st_size)
    return parse(kind, role, data, limit_bytes), data


def _read_file(path: Path, limit_bytes: int) -> bytes | None:
    try:
        return read_bounded(path, limit_bytes)
    except OSError as error:
        raise StorageError(str(path), error.strerror or str(error)) from error
