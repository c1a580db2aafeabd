"""Reads a published tree for one device, trusting nothing but the root it was built with.

A `RepositoryClient` keeps three things in its folder, each written whole or not at all:

- `tuf/`: the newest metadata it accepted, so that nothing older is accepted again (python-tuf's client);
- `documents/`: the newest policy and halt of each app, so that serial numbers only rise, and so that a device without
  a network still knows its policy; beside each the ids of the keys that it was signed under, because serial numbers
  that a thief ran up count no longer when the tree names none of those keys; and what stays halted because the team
  that may reinstate it has expired;
- `manifests/`: manifests by digest, so that each is fetched once.

An expired timestamp stays expired: it is kept as the verdict on its version and all below, so turning the clock back
does not revive them.  The verdict falls with the keys: when root takes the timestamp's key away, a thief who ran the
version up and let it expire leaves nothing behind.  The local clock is no floor otherwise: a clock that was years ahead
and is right again bricks nothing, because a newer timestamp is judged by the clock as it is then.  Where the device
knows a moment that has passed for certain (a signed date, and the time since by a clock that only rises), it gives that
as `floor`, and no wall clock is believed below it.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar
from urllib.parse import quote

from alcove.registry import layout, limits
from alcove.registry.errors import (
    DocumentError,
    DocumentTooLargeError,
    ExpiredMetadataError,
    IntegrityError,
    MissingTargetError,
    RollbackError,
    StorageError,
    WrongSubjectError,
)
from alcove.registry.manifest import Manifest, manifest_path
from alcove.registry.min_versions import is_below
from alcove.registry.policy.document import Halt, Policy, halt_from_bytes, policy_from_bytes
from alcove.registry.reinstatements import Reinstatement, restores_only_reinstated, without_reinstated
from alcove.registry.updater import (
    BoundedFetcher,
    BoundedUpdater,
    RepositoryUpdater,
    signed_digest,
    signed_sha256,
    typed_errors,
)
from alcove.runtime.clock import SYSTEM_CLOCK, Clock
from alcove.runtime.files import DISK, Disk, read_bounded, replace_file
from tuf.api.exceptions import LengthOrHashMismatchError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from alcove.registry._tuf import TargetFile
    from alcove.registry.signed_time import Floor, SignedTime
    from tuf.ngclient.fetcher import FetcherInterface

_Dated = TypeVar("_Dated", Policy, Halt)

_VERDICT: Final = "expired.json"
_KEYS_MAX_BYTES: Final = 2048  # ids of 16 keys take 1 100


class RepositoryClient:
    """Reads one tree for one device; one thread and one process at a time.

    Raises nothing but `RegistryError`s: `FetchError` for the network, `StorageError` for the folder, `MetadataError`
    and `DocumentError` for a tree that must not be trusted.  After any of them what was accepted before stands.
    """

    _reader: ClassVar[type[BoundedUpdater]] = RepositoryUpdater

    def __init__(
        self,
        metadata_dir: Path,
        fetcher: FetcherInterface,
        base_url: str,
        trusted_root: bytes,
        *,
        clock: Clock = SYSTEM_CLOCK,
        floor: Floor | None = None,
        files: Disk = DISK,
    ) -> None:
        """Read the tree at `base_url`; nothing is fetched yet.

        Args:
            metadata_dir: this client's own folder; made where absent.
            fetcher: opens the sockets.
            base_url: where `metadata/` and `targets/` lie, with or without a final slash.
            trusted_root: root metadata that the app carries, any version of it.
            clock: judges dates.
            floor: what the clock is not believed below; none if omitted.
            files: writes.
        """
        self._folder = metadata_dir
        self._fetcher = BoundedFetcher(fetcher)
        self._base_url = base_url.rstrip("/")
        self._trusted_root = trusted_root
        self._clock = clock
        self._floor = floor
        self._files = files
        self._updater: BoundedUpdater | None = None

    def refresh(self) -> None:
        """Fetch and verify the newest timestamp, snapshot and targets.

        Raises:
            ExpiredMetadataError: the tree is older than its signatures allow, or was found so before.
            RollbackError: older than what was accepted before.
            SignatureError, IntegrityError, DocumentTooLargeError, MetadataError: it must not be trusted.
            FetchError: the network or the server failed.
            StorageError: the folder cannot be read or written.
        """
        self._updater = None
        with typed_errors(None):
            (self._folder / "tuf").mkdir(parents=True, exist_ok=True)
            updater = self._reader(
                str(self._folder / "tuf"),
                f"{self._base_url}/{layout.METADATA}",
                fetcher=self._fetcher,
                bootstrap=self._trusted_root,
                now_s=self._clock.now_s(),
                floor=self._floor,
            )
        try:
            with typed_errors(updater):
                updater.refresh()
            updater.refuse_repeated_keys()
        except ExpiredMetadataError as error:
            if error.role == "timestamp":
                self._remember_expired(updater)
            raise
        version = updater.get_trusted("timestamp").version
        if version <= self._read_expired_version(updater):
            raise ExpiredMetadataError("timestamp", version=version)
        self._updater = updater

    def signed_time(self) -> SignedTime:
        """Return what the tree says of time.

        Raises:
            RegistryError: as `refresh`, which is called first where it was not.
        """
        if self._updater is None:
            self.refresh()
        updater = self._updater
        if updater is None:  # refresh() either raised or set it; said for the type checker
            raise MissingTargetError("timestamp.json")
        return updater.signed_time()

    def policy(self, app: str) -> Policy:
        """Return the published policy of `app`, and keep it.

        Raises:
            MissingTargetError: the app has none.
            RollbackError: its serial number is below one seen before, or is used for two policies.
            WrongSubjectError: it speaks of another app.
            RegistryError: as `refresh`, which is called first where it was not.
        """
        path = layout.policy_path(app)
        target = self._find(path)
        if target is None:
            raise MissingTargetError(path, f"the first rollout of the app {app!r} makes one; is this the app's name?")
        file = self._document_file("policy", app)
        policy = policy_from_bytes(self._document(target, file, "policy", limits.POLICY_MAX_BYTES))
        self._check_dated("policy", app, policy, self.read_stored_policy(app))
        self._store_dated("policy", app, policy)
        return policy

    def halt(self, app: str) -> Halt:
        """Return the published halt of `app`, and keep it; an empty one (serial 0) where none was ever published.

        What it gives back of a team whose role has expired stays halted, until the team has signed again: so a team
        that reinstates its versions and lets its role expire stops no halts of others.

        Raises:
            RollbackError: it is older than one seen before, or restores what that one took and no team reinstated.
            WrongSubjectError: it speaks of another app.
            RegistryError: as `refresh`, which is called first where it was not.
        """
        path = layout.halt_path(app)
        target = self._find(path)
        stored, held = self._read_halt("halt", app), self._read_halt("held", app) or Halt(app=app, serial=0)
        if target is None:
            if stored is not None:
                raise RollbackError("halt", f"the halt of {app} with serial {stored.serial} is gone")
            return Halt(app=app, serial=0)
        halt = halt_from_bytes(self._document(target, self._document_file("halt", app), "halt", limits.HALT_MAX_BYTES))
        still_held = self._hold(held, stored or halt, halt)
        self._check_dated("halt", app, halt, stored)
        if still_held != held:
            # First: a kill in between leaves what both documents take away.
            self._store(self._document_file("held", app), still_held.to_bytes())
        self._store_dated("halt", app, halt)
        return _with_halted(halt, still_held)

    def manifest(self, feature: str, version: str) -> Manifest:
        """Return the manifest of a version; it is fetched once and proved each time.

        Raises:
            MissingTargetError: the team published no such version.
            RollbackError: it is below the minimum version that the team has set.
            WrongSubjectError: it speaks of another feature or version.
            RegistryError: as `refresh`, which is called first where it was not.
        """
        path = manifest_path(feature, version)
        target = self._find(path)
        if target is None:
            raise MissingTargetError(path)
        min_version = self.min_version(feature)
        if is_below(version, min_version):
            raise RollbackError("", f"{feature} {version} is below the team's minimum version {min_version}")
        file = self._folder / "manifests" / f"{signed_sha256(target)}.json"
        manifest = Manifest.from_bytes(self._document(target, file, "manifest", limits.MANIFEST_MAX_BYTES))
        if manifest.path != path:
            raise WrongSubjectError("manifest", field="feature and version", expected=path, seen=manifest.path)
        self._store(file, manifest.to_bytes())
        return manifest

    def target(self, path: str, stored: Path, limit_bytes: int) -> bytes:
        """Return the signed bytes of any target, kept in `stored`; fetched only where that file holds others.

        Args:
            path: the target's path in the tree.
            stored: where its bytes are, or will be.
            limit_bytes: the most that may be signed for it.

        Raises:
            MissingTargetError: nobody who may signed such a target.
            DocumentTooLargeError: it is signed as larger than the limit.
            RegistryError: as `refresh`, which is called first where it was not.
        """
        target = self._find(path)
        if target is None:
            raise MissingTargetError(path)
        data = self._document(target, stored, path, limit_bytes)
        self._store(stored, data)
        return data

    def min_version(self, feature: str) -> str | None:
        """Return the lowest version of `feature` that its team still lets run, or None where it has set none.

        Raises:
            RegistryError: as `refresh`, which is called first where it was not.
        """
        if self._updater is None:
            self.refresh()
        updater = self._updater
        if updater is None:  # refresh() either raised or set it; said for the type checker
            return None
        with typed_errors(updater):
            return updater.min_version(feature)

    def read_stored_policy(self, app: str) -> Policy | None:
        """Return the policy accepted last, without any request, or None.

        Raises:
            StorageError: the folder cannot be read.
        """
        return self._read_stored("policy", app, policy_from_bytes, limits.POLICY_MAX_BYTES)

    def read_stored_halt(self, app: str) -> Halt | None:
        """Return what the halt accepted last takes away, as `halt` does, without any request; or None.

        Raises:
            StorageError: the folder cannot be read.
        """
        stored, held = self._read_halt("halt", app), self._read_halt("held", app)
        return stored if stored is None or held is None else _with_halted(stored, held)

    def _read_halt(self, kind: str, app: str) -> Halt | None:
        return self._read_stored(kind, app, halt_from_bytes, limits.HALT_MAX_BYTES)

    def _find(self, path: str) -> TargetFile | None:
        if self._updater is None:
            self.refresh()
        updater = self._updater
        if updater is None:  # refresh() either raised or set it; said for the type checker
            raise MissingTargetError(path)
        with typed_errors(updater):
            return updater.get_targetinfo(path)

    def _document(self, target: TargetFile, stored: Path, kind: str, limit_bytes: int) -> bytes:
        """Return the signed bytes of a target: the stored ones if they are the same, else fetched."""
        if target.length > limit_bytes:
            raise DocumentTooLargeError(kind, limit_bytes=limit_bytes, size_bytes=target.length)
        algorithm, digest = signed_digest(target)
        data = self._read(stored, limit_bytes)
        if data is not None and hashlib.new(algorithm, data).hexdigest() == digest:
            return data
        with typed_errors(None):
            place = layout.target_file(target.path, digest)
            data = self._fetcher.download_bytes(f"{self._base_url}/{place}", target.length)
        try:
            target.verify_length_and_hashes(data)
        except LengthOrHashMismatchError as error:
            raise IntegrityError(target.path, expected=digest, seen=str(error)) from None
        return data

    def _check_dated(self, kind: str, app: str, document: _Dated, stored: _Dated | None) -> None:
        if document.app != app:
            raise WrongSubjectError(kind, field="app", expected=app, seen=document.app)
        if stored is not None and self._is_by_one_of(kind, app, self._keys_of(kind)):
            if document.serial < stored.serial:
                raise RollbackError(kind, f"serial {document.serial} of {app} is below {stored.serial}, seen before")
            if document.serial == stored.serial and document != stored:
                raise RollbackError(kind, f"serial {document.serial} of {app} names two documents")

    def _store_dated(self, kind: str, app: str, document: Policy | Halt) -> None:
        self._store(self._document_file(kind, app), document.to_bytes())
        # Second: a kill in between leaves a document whose serial binds too little for once, never one that binds all.
        self._store(self._keys_file(kind, app), json.dumps(self._keys_of(kind)).encode())

    def _keys_of(self, kind: str) -> list[str]:
        updater = self._updater
        return [] if updater is None else updater.keys_of(kind)

    def _is_by_one_of(self, kind: str, app: str, keys: list[str]) -> bool:
        """Tell whether the stored document was signed under keys of which the role still has one."""
        data = self._read(self._keys_file(kind, app), _KEYS_MAX_BYTES)
        try:
            known = json.loads(data or b"")
            return not isinstance(known, list) or not known or not set(known).isdisjoint(keys)
        except (ValueError, TypeError):
            return True  # damaged, or stored before there was such a file: the stricter answer

    def _hold(self, held: Halt, earlier: Halt, later: Halt) -> Halt:
        """Return what stays halted beside a halt because the teams that may reinstate it have expired.

        It is a document of its own, because the halt that takes it away is not the newest: were that one not kept, the
        next could give back whatever the newest takes away of others.

        Raises:
            RollbackError: the halt gives back something else that no team reinstated, or too much is held.
        """
        reinstated, expired = self._reinstatements(earlier, later)
        kept = _with_halted(later, earlier, expired)
        if not restores_only_reinstated(earlier, kept, reinstated):
            raise RollbackError("halt", f"serial {later.serial} gives back what serial {earlier.serial} took away")
        left = without_reinstated(held, self._reinstatements(held, later)[0])
        kept = _with_halted(kept, left)
        halted, frozen = kept.halted[len(later.halted) :], kept.frozen[len(later.frozen) :]
        if len(halted) > limits.HALTED_MAX:
            # A frozen feature gets no version at all.
            frozen = tuple(dict.fromkeys((*frozen, *(item.feature for item in halted))))
            halted = ()
        if len(frozen) > limits.FEATURES_MAX:
            raise RollbackError("halt", f"{len(frozen)} features are held, at most {limits.FEATURES_MAX} can be")
        serial = max(held.serial, earlier.serial) if expired else held.serial
        return Halt(app=held.app, serial=serial, halted=halted, frozen=frozen)

    def _reinstatements(
        self, earlier: Halt, later: Halt
    ) -> tuple[dict[str, tuple[Reinstatement, ...]], frozenset[str]]:
        """Return the reinstatements of the features that the later halt gives back, and the teams that have expired."""
        if later.includes(earlier):
            return {}, frozenset()
        features = {item.feature for item in set(earlier.halted) - set(later.halted)}
        features |= set(earlier.frozen) - set(later.frozen)
        updater = self._updater
        found: dict[str, tuple[Reinstatement, ...]] = {}
        if updater is None:
            return found, frozenset()
        for feature in features:
            with suppress(ExpiredMetadataError), typed_errors(updater):
                found[feature] = updater.reinstatements(feature)
        return found, frozenset(features - found.keys())

    def _read_stored(self, kind: str, app: str, read: Callable[[bytes], _Dated], limit_bytes: int) -> _Dated | None:
        data = self._read(self._document_file(kind, app), limit_bytes)
        try:
            return None if data is None else read(data)
        except DocumentError:
            # Damaged by something else than us (we replace files whole): the tree's own versions still only rise.
            return None

    def _document_file(self, kind: str, app: str) -> Path:
        return self._folder / "documents" / f"{kind}-{quote(app, safe='')}.json"

    def _keys_file(self, kind: str, app: str) -> Path:
        return self._folder / "documents" / f"{kind}-{quote(app, safe='')}.keys"

    def _read_expired_version(self, updater: BoundedUpdater) -> int:
        """Return the highest timestamp version found expired under keys that are still the role's, 0 if none."""
        data = self._read(self._folder / _VERDICT, limits.TIMESTAMP_METADATA_MAX_BYTES)
        return 0 if data is None else updater.verified_timestamp_version(data)

    def _remember_expired(self, updater: BoundedUpdater) -> None:
        data = updater.last_timestamp
        if updater.verified_timestamp_version(data) > self._read_expired_version(updater):
            self._store(self._folder / _VERDICT, data)

    def _read(self, path: Path, limit_bytes: int) -> bytes | None:
        try:
            return read_bounded(path, limit_bytes)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(str(path), error.strerror or str(error)) from error

    def _store(self, path: Path, data: bytes) -> None:
        try:
            if self._read(path, len(data)) != data:
                replace_file(self._files, path, data)
        except OSError as error:
            raise StorageError(str(path), error.strerror or str(error)) from error


def _with_halted(halt: Halt, earlier: Halt, features: frozenset[str] | None = None) -> Halt:
    """Return a halt with what another one takes away, of some features or of all."""

    def is_meant(feature: str) -> bool:
        return features is None or feature in features

    halted = tuple(item for item in earlier.halted if is_meant(item.feature) and item not in halt.halted)
    frozen = tuple(name for name in earlier.frozen if is_meant(name) and name not in halt.frozen)
    return halt.model_copy(update={"halted": halt.halted + halted, "frozen": halt.frozen + frozen})
