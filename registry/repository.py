"""Verifies publications and writes them to the signed tree in one folder, which devices read.

States of a publication; a kill between any two leaves the tree as it was for every client, and repeating completes it::

    verified ─▶ targets written ─▶ role metadata written ─▶ snapshot written ─▶ timestamp replaced = published

Invariants:

- I1  Nothing is written before everything about the publication has been verified.
- I2  Every file but `timestamp.json` has its version or digest in its name; the ones a client can reach never change.
- I3  A team's targets only grow: what was published never changes or goes.
- I4  Serial numbers of policies and halts only rise; a halt takes away at least what the one before it did.
- I5  The server's keys cannot add a version: manifests lie under the teams' delegations alone.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from alcove.registry import layout, limits, request_verification
from alcove.registry._tuf import Metadata
from alcove.registry.audit import AuditReport, audit_repository
from alcove.registry.canonical import version_key
from alcove.registry.ceremony import initialize_repository
from alcove.registry.errors import MissingTargetError, ReadOnlyRepositoryError, StorageError
from alcove.registry.hash_bins import TeamMetadata, team_bytes
from alcove.registry.manifest import Manifest, manifest_path
from alcove.registry.metadata_writer import MetadataWriter
from alcove.registry.online import (
    RefreshResult,
    check_app,
    check_halted,
    check_online,
    check_serial,
    check_trusted,
    list_expiring,
    publish_document,
    renew,
)
from alcove.registry.policy.document import Halt, Policy, VersionRef, halt_from_bytes, policy_from_bytes
from alcove.registry.rollback_guard import check_rollback, record_published
from alcove.registry.team_verification import (
    TEAM_ADVICE,
    check_manifests,
    check_policy_versions,
    check_team_metadata,
)
from alcove.registry.trust import TrustedState, VerifiedCache, read_state, read_target
from alcove.runtime.clock import SYSTEM_CLOCK, Clock
from alcove.runtime.files import DISK, Disk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from alcove.registry._tuf import Signer
    from alcove.registry.blobs import BlobStore
    from alcove.registry.keys import OnlineKeys
    from alcove.registry.signing_request import SigningRequest

__all__ = ["RefreshResult", "Repository", "TeamPublication", "initialize_repository"]


@dataclass(frozen=True, slots=True)
class TeamPublication:
    """What a publication of a team changed.

    Attributes:
        team: the team whose key signed.
        metadata_version: version of the team's metadata that is now current.
        added: the new versions; empty when these very bytes were published before.
    """

    team: str
    metadata_version: int
    added: tuple[Manifest, ...]


class Repository:
    """The static tree of one folder: proved reads for everyone, publishing for who holds the online keys."""

    def __init__(
        self,
        folder: Path,
        *,
        keys: OnlineKeys | None = None,
        blobs: BlobStore | None = None,
        clock: Clock = SYSTEM_CLOCK,
        files: Disk = DISK,
        rollback_note: Path | None = None,
    ) -> None:
        """Open the tree in `folder`; nothing is read or written yet.

        Args:
            folder: where the tree lies.
            keys: needed to publish.
            blobs: where programs lie; `folder/blobs` by default.
            clock: dates signatures and judges theirs.
            files: writes.
            rollback_note: where it is noted how far this server has published, outside of `folder`; a tree that says
                less is published nothing on top of (`rollback_guard.py`).
        """
        self.folder = folder
        self._note = rollback_note
        self._keys = keys
        self._blobs = blobs
        self._clock = clock
        self._files = files
        self._cache = VerifiedCache()

    @property
    def blobs(self) -> BlobStore:
        """The programs and cards of the tree."""
        if self._blobs is None:
            from alcove.registry.blobs import open_blob_store  # noqa: PLC0415 - obstore is in the platform extra

            self._blobs = open_blob_store(self.folder / layout.BLOBS)
        return self._blobs

    def state(self) -> TrustedState:
        """Return what the tree says now, proved from the root; dates are not judged.

        Raises:
            MetadataError, StorageError: as `trust.read_state`.
        """
        return read_state(self.folder, cache=self._cache)

    def read_state_before(self, change: SigningRequest) -> TrustedState:
        """Return what the tree said before a change, also where accepting it was interrupted.

        Raises:
            MetadataError, StorageError: as `trust.read_state`.
        """
        return request_verification.read_state_before(self.folder, change)

    def root_bytes(self) -> bytes:
        """Return the newest root metadata: what an app carries as its `trusted_root`.

        Raises:
            MetadataError, StorageError: as `trust.read_state`.
        """
        return self.state().root_bytes

    def team_metadata(self, team: str) -> bytes:
        """Return a team's current metadata, which the team signs its next version on.

        Raises:
            MissingTargetError: no such team.
            MetadataError, StorageError: as `trust.read_state`.
        """
        role = layout.team_role(team)
        roles = self.state().roles
        if role not in roles:
            raise MissingTargetError(role, TEAM_ADVICE)
        return team_bytes(role, roles)

    def targets_bytes(self) -> bytes:
        """Return who may sign for which team, without signatures: for people who sign, the tree judges by its own.

        Raises:
            MetadataError, StorageError: as `trust.read_state`.
        """
        return Metadata(self.state().targets).to_bytes()

    def holds_team_metadata(self, team: str, signed: bytes) -> bool:
        """Tell whether what a team signed is current already: a push that lost its answer may be repeated.

        Raises:
            MissingTargetError: no such team.
            DocumentError, MetadataError, StorageError: `signed` is no metadata of one team, or the tree is damaged.
        """
        role = layout.team_role(team)
        roles = self.state().roles
        if role not in roles:
            raise MissingTargetError(role)
        parts = TeamMetadata.parse(signed, role).by_role(role)
        return all(name in roles and part.signed == roles[name].metadata.signed for name, part in parts.items())

    def versions(self, feature: str) -> tuple[VersionRef, ...]:
        """Return every published version of a feature, the lowest number first.

        Raises:
            MetadataError, StorageError: as `trust.read_state`.
        """
        state = self.state()
        role = state.role_for(manifest_path(feature, "0.0.0"))
        targets = {} if role is None else dict(state.targets_of(role))
        found = [
            VersionRef(
                version=path.removeprefix(f"{feature}/").removesuffix(".json"), manifest_sha256=target.hashes["sha256"]
            )
            for path, target in targets.items()
            if path.startswith(f"{feature}/")
        ]
        return tuple(sorted(found, key=lambda ref: version_key(ref.version)))

    def manifest(self, feature: str, version: str) -> Manifest:
        """Return the manifest of a published version.

        Raises:
            MissingTargetError: there is no such version.
            MetadataError, DocumentError, StorageError: the tree is damaged.
        """
        path = manifest_path(feature, version)
        target = self.state().find(path)
        if target is None:
            raise MissingTargetError(path)
        return Manifest.from_bytes(read_target(self.folder, path, target, limits.MANIFEST_MAX_BYTES))

    def manifests(self) -> Iterator[Manifest]:
        """Give the manifest of every published version; the tree is proved once, when the first is asked for.

        Raises:
            MetadataError, DocumentError, StorageError: the tree is damaged.
        """
        state = self.state()
        for role in state.roles:
            if layout.is_team(role):
                for path, target in state.targets_of(role):
                    yield Manifest.from_bytes(read_target(self.folder, path, target, limits.MANIFEST_MAX_BYTES))

    def policy(self, app: str) -> Policy | None:
        """Return the published policy of an app, or None.

        Raises:
            MetadataError, DocumentError, StorageError: the tree is damaged.
        """
        return self._policy(self.state(), app)

    def halt(self, app: str) -> Halt | None:
        """Return the published halt of an app, or None.

        Raises:
            MetadataError, DocumentError, StorageError: the tree is damaged.
        """
        return self._halt(self.state(), app)

    def accept_team_metadata(
        self, signed: bytes, manifests: Mapping[str, bytes], *, team: str | None = None
    ) -> TeamPublication:
        """Publish what a team signed: new metadata and the manifests of its new versions.

        Args:
            signed: the team's next metadata, signed on top of the current one.
            manifests: canonical bytes of every new manifest, by path; known ones may be given again.
            team: the team that must have signed; any team of the tree by default.

        Raises:
            SignatureError: not signed by the team's key.
            ExpiredMetadataError: it expires before it is published.
            StaleMetadataError: not signed on top of the current metadata.
            VersionExistsError: it changes a published version.
            MissingBlobError: a program or card was not uploaded.
            PublishError: it drops a version, lowers a minimum version, leaves the team's features, or a manifest is
                absent.
            WrongSubjectError, IntegrityError, DocumentError, MetadataError: a manifest or the metadata is malformed.
            ReadOnlyRepositoryError: opened without keys.
            StorageError: a file could not be read or written; repeating is safe.
        """
        writer = self._writer("snapshot")
        with self._exclusive():
            state = self.state()
            check_online(state, writer)
            role, changed = check_team_metadata(state, signed, now_s=writer.now_s, team=team)
            name = role.removeprefix(layout.TEAM_PREFIX)
            if not changed:
                return TeamPublication(name, state.roles[role].version, ())
            added = check_manifests(state, role, changed, manifests, self.blobs)
            writer.publish(
                targets={manifest.path: manifest.to_bytes() for manifest in added},
                roles=changed,
                snapshot=state.snapshot,
                timestamp=state.timestamp,
            )
        return TeamPublication(name, changed.get(role, state.roles[role]).version, added)

    def verify_team_metadata(
        self, signed: bytes, manifests: Mapping[str, bytes], *, team: str | None = None
    ) -> tuple[Manifest, ...]:
        """Return the new versions that a team's key has signed; nothing is written, and no program is opened.

        The same bytes may be refused later, where the tree has moved on.  Arguments and errors are those of
        `accept_team_metadata`.
        """
        state = self.state()
        role, changed = check_team_metadata(state, signed, now_s=self._clock.now_s(), team=team)
        return check_manifests(state, role, changed, manifests, self.blobs) if changed else ()

    def accept_request(
        self, change: SigningRequest, keys: OnlineKeys, *, old_keys: Sequence[Signer] = ()
    ) -> tuple[str, ...]:
        """Apply a signed change of keys, teams, minimum versions or reinstatements; return the changed roles.

        Args:
            change: with the signatures of everybody who has to sign (`signing_request.py`).
            keys: the online keys that count after it.
            old_keys: those that counted before, so that no device sees a moment of neither.

        Raises:
            RegistryError: as `verify_request` and `publish` of `request_verification`; repeating completes it.
        """
        now_s = self._clock.now_s()
        with self._exclusive():
            verified = request_verification.verify_request(self.folder, change, now_s=now_s)
            check_trusted(keys, verified.online_trust())
            return request_verification.publish(
                self.folder, verified, keys, old_keys=old_keys, files=self._files, now_s=now_s
            )

    def publish_policy(self, app: str, policy_bytes: bytes) -> bool:
        """Publish an app's policy; return False if it is the current one already.

        Raises:
            DocumentError: not the canonical encoding of an acceptable policy.
            StaleMetadataError: the serial number does not rise.
            PublishError: it is another app's, or it names a version that no team has signed or that is below its
                minimum version.
            ReadOnlyRepositoryError: opened without keys.
            MetadataError, StorageError: the tree is damaged or not writable; repeating is safe.
        """
        writer = self._writer("policy")
        policy = policy_from_bytes(policy_bytes)
        check_app("policy", app, policy.app)
        with self._exclusive():
            state = self.state()
            current = self._policy(state, app)
            if current == policy:
                return False
            check_serial(layout.policy_path(app), current, policy)
            check_online(state, writer)
            check_policy_versions(state, policy)
            publish_document(writer, state, "policy", layout.policy_path(app), policy_bytes)
        return True

    def publish_halt(self, app: str, halt_bytes: bytes) -> bool:
        """Publish an app's halt; return False if it is the current one already.

        Raises:
            DocumentError: not the canonical encoding of an acceptable halt.
            StaleMetadataError: the serial number does not rise.
            PublishError: it is another app's, or it gives back what the current one took away.
            ReadOnlyRepositoryError: opened without keys.
            MetadataError, StorageError: the tree is damaged or not writable; repeating is safe.
        """
        writer = self._writer("halt")
        halt = halt_from_bytes(halt_bytes)
        check_app("halt", app, halt.app)
        with self._exclusive():
            state = self.state()
            current = self._halt(state, app)
            if current == halt:
                return False
            check_serial(layout.halt_path(app), current, halt)
            check_online(state, writer)
            check_halted(current, halt, state)
            publish_document(writer, state, "halt", layout.halt_path(app), halt_bytes)
        return True

    def refresh(self) -> RefreshResult:
        """Sign again what the online keys sign and what has less than half of its life left.

        Call it at least every six hours: the timestamp lives for a day.

        Raises:
            ReadOnlyRepositoryError: opened without keys.
            MetadataError, StorageError: the tree is damaged or not writable; repeating is safe.
        """
        writer = self._writer("timestamp")
        with self._exclusive():
            state = self.state()
            check_online(state, writer)
            renewed = renew(state, writer)
        return RefreshResult(renewed, list_expiring(state, writer.now_s))

    def check(self) -> AuditReport:
        """Prove every file of the tree: signatures, dates, digests, documents and blobs.

        Raises nothing for what it finds: the report names it.
        """
        return audit_repository(self.folder, self.blobs, now_s=self._clock.now_s())

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep every publication of this machine out while the block runs: what the tree names stays the same.

        Raises:
            StorageError: the lock's file cannot be made.
        """
        with self._exclusive():
            yield

    def _writer(self, role: str) -> MetadataWriter:
        if self._keys is None:
            raise ReadOnlyRepositoryError(role)
        return MetadataWriter(self.folder, self._keys, self._files, self._clock.now_s())

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Let one publication at a time read, judge and write; other processes and threads wait."""
        path = self.folder / ".lock"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StorageError(str(path), error.strerror or str(error)) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if self._note is not None:
                check_rollback(self._note, self.state())
            yield
            if self._note is not None:
                record_published(self._note, self.state(), self._files)
        finally:
            os.close(descriptor)

    def _policy(self, state: TrustedState, app: str) -> Policy | None:
        path = layout.policy_path(app)
        target = state.roles["policy"].targets.get(path)
        if target is None:
            return None
        return policy_from_bytes(read_target(self.folder, path, target, limits.POLICY_MAX_BYTES))

    def _halt(self, state: TrustedState, app: str) -> Halt | None:
        path = layout.halt_path(app)
        target = state.roles["halt"].targets.get(path)
        if target is None:
            return None
        return halt_from_bytes(read_target(self.folder, path, target, limits.HALT_MAX_BYTES))
