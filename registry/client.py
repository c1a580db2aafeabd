"""How does a device learn what is published, trusting nothing but the root it was built with?

A `TreeClient` keeps three things in its folder, each written whole or not at all:

- `tuf/`: the newest metadata it accepted, so that nothing older is accepted again (python-tuf's client);
- `documents/`: the newest policy and halt of each app, so that serial numbers only rise, and so that a device without
  a network still knows its policy; beside each the ids of the keys that it was signed under, because serial numbers
  that a thief ran up count no longer when the tree names none of those keys;
- `manifests/`: manifests by digest, so that each is fetched once.

An expired timestamp stays expired: it is kept as the verdict on its version and all below, so turning the clock back
does not revive them.  The verdict falls with the keys: when root takes the timestamp's key away, a thief who ran the
version up and let it expire leaves nothing behind.  The local clock is no floor otherwise: a clock that was years ahead
and is right again bricks nothing, because a newer timestamp is judged by the clock as it is then.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote

from alcove.registry import layout, limits
from alcove.registry._tuf import Metadata, Root, Targets, Timestamp
from alcove.registry.clock import SYSTEM_CLOCK, Clock, utc
from alcove.registry.errors import (
    DocumentError,
    DocumentTooLarge,
    ExpiredMetadata,
    FetchError,
    IntegrityError,
    MetadataError,
    MissingTarget,
    RollbackError,
    SignatureError,
    StorageError,
    WrongSubjectError,
)
from alcove.registry.files import DISK, Files, read_bounded, replace_file
from alcove.registry.floors import floors, is_below
from alcove.registry.lifts import Lift, gives_back_only_lifted, lifts
from alcove.registry.manifest import Manifest, manifest_path
from alcove.registry.policy.document import Halt, Policy, halt_from_bytes, policy_from_bytes
from tuf.api import exceptions
from tuf.ngclient.config import UpdaterConfig
from tuf.ngclient.fetcher import FetcherInterface
from tuf.ngclient.updater import Updater

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from alcove.registry._tuf import Key, Role, Signed, TargetFile

_Dated = TypeVar("_Dated", Policy, Halt)

_CONFIG: Final = UpdaterConfig(
    max_root_rotations=64,
    max_delegations=8,
    root_max_length=limits.ROOT_METADATA_MAX_BYTES,
    timestamp_max_length=limits.TIMESTAMP_METADATA_MAX_BYTES,
    snapshot_max_length=limits.SNAPSHOT_METADATA_MAX_BYTES,
    targets_max_length=limits.TARGETS_METADATA_MAX_BYTES,
)
_VERDICT: Final = "expired.json"
_KEYS_MAX_BYTES: Final = 2048  # ids of 16 keys take 1 100
_DIGEST_CHARACTERS: Final = frozenset("0123456789abcdef")


class TreeClient:
    """Reads one tree for one device; one thread and one process at a time.

    Raises nothing but `RegistryError`s: `FetchError` for the network, `StorageError` for the folder, `MetadataError`
    and `DocumentError` for a tree that must not be trusted.  After any of them what was accepted before stands.
    """

    def __init__(
        self,
        metadata_dir: Path,
        fetcher: FetcherInterface,
        base_url: str,
        trusted_root: bytes,
        *,
        clock: Clock = SYSTEM_CLOCK,
        files: Files = DISK,
    ) -> None:
        """Read the tree at `base_url`; nothing is fetched yet.

        Args:
            metadata_dir: this client's own folder; made where absent.
            fetcher: opens the sockets.
            base_url: where `metadata/` and `targets/` lie, with or without a final slash.
            trusted_root: root metadata that the app carries, any version of it.
            clock: judges dates.
            files: writes.
        """
        self._folder = metadata_dir
        self._fetcher = _BoundedFetcher(fetcher)
        self._base_url = base_url.rstrip("/")
        self._trusted_root = trusted_root
        self._clock = clock
        self._files = files
        self._updater: _Updater | None = None

    def refresh(self) -> None:
        """Fetch and verify the newest timestamp, snapshot and targets.

        Raises:
            ExpiredMetadata: the tree is older than its signatures allow, or was found so before.
            RollbackError: older than what was accepted before.
            SignatureError, IntegrityError, DocumentTooLarge, MetadataError: it must not be trusted.
            FetchError: the network or the server failed.
            StorageError: the folder cannot be read or written.
        """
        self._updater = None
        with _typed_errors(None):
            (self._folder / "tuf").mkdir(parents=True, exist_ok=True)
            updater = _Updater(
                str(self._folder / "tuf"),
                f"{self._base_url}/{layout.METADATA}",
                fetcher=self._fetcher,
                config=_CONFIG,
                bootstrap=self._trusted_root,
                now_s=self._clock.now_s(),
            )
        try:
            with _typed_errors(updater):
                updater.refresh()
            updater.refuse_repeated_keys()
        except ExpiredMetadata as error:
            if error.role == "timestamp":
                self._remember_expired(updater)
            raise
        version = updater.trusted("timestamp").version
        if version <= self._expired_version(updater):
            raise ExpiredMetadata("timestamp", version=version)
        self._updater = updater

    def policy(self, app: str) -> Policy:
        """Return the published policy of `app`, and keep it.

        Raises:
            MissingTarget: the app has none.
            RollbackError: its serial number is below one seen before, or is used for two policies.
            WrongSubjectError: it speaks of another app.
            RegistryError: as `refresh`, which is called first where it was not.
        """
        path = layout.policy_path(app)
        target = self._find(path)
        if target is None:
            raise MissingTarget(path)
        file = self._document_file("policy", app)
        policy = policy_from_bytes(self._document(target, file, "policy", limits.POLICY_MAX_BYTES))
        return self._accept("policy", app, policy, self.stored_policy(app))

    def halt(self, app: str) -> Halt:
        """Return the published halt of `app`, and keep it; an empty one (serial 0) where none was ever published.

        Raises:
            RollbackError: it is older than one seen before, or gives back what that one took away and no team lifted.
            WrongSubjectError: it speaks of another app.
            RegistryError: as `refresh`, which is called first where it was not.
        """
        path = layout.halt_path(app)
        target = self._find(path)
        stored = self.stored_halt(app)
        if target is None:
            if stored is not None:
                raise RollbackError("halt", f"the halt of {app} with serial {stored.serial} is gone")
            return Halt(app=app, serial=0)
        halt = halt_from_bytes(self._document(target, self._document_file("halt", app), "halt", limits.HALT_MAX_BYTES))
        if stored is not None and not gives_back_only_lifted(stored, halt, self._lifts(stored, halt)):
            raise RollbackError("halt", f"serial {halt.serial} gives back what serial {stored.serial} took away")
        return self._accept("halt", app, halt, stored)

    def manifest(self, feature: str, version: str) -> Manifest:
        """Return the manifest of a version; it is fetched once and proved each time.

        Raises:
            MissingTarget: the team published no such version.
            RollbackError: it is below the floor that the team has set.
            WrongSubjectError: it speaks of another feature or version.
            RegistryError: as `refresh`, which is called first where it was not.
        """
        path = manifest_path(feature, version)
        target = self._find(path)
        if target is None:
            raise MissingTarget(path)
        floor = self.min_version(feature)
        if is_below(version, floor):
            raise RollbackError("", f"{feature} {version} is below the team's floor {floor}")
        file = self._folder / "manifests" / f"{_signed_digest(target)}.json"
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
            MissingTarget: nobody who may signed such a target.
            DocumentTooLarge: it is signed as larger than the limit.
            RegistryError: as `refresh`, which is called first where it was not.
        """
        target = self._find(path)
        if target is None:
            raise MissingTarget(path)
        data = self._document(target, stored, path, limit_bytes)
        self._store(stored, data)
        return data

    def min_version(self, feature: str) -> str | None:
        """Return the lowest version of `feature` that its team still lets run, or None where it has set no floor.

        Raises:
            RegistryError: as `refresh`, which is called first where it was not.
        """
        if self._updater is None:
            self.refresh()
        updater = self._updater
        if updater is None:  # refresh() either raised or set it; said for the type checker
            return None
        with _typed_errors(updater):
            return updater.floor(feature)

    def stored_policy(self, app: str) -> Policy | None:
        """Return the policy accepted last, without any request, or None.

        Raises:
            StorageError: the folder cannot be read.
        """
        return self._stored("policy", app, policy_from_bytes, limits.POLICY_MAX_BYTES)

    def stored_halt(self, app: str) -> Halt | None:
        """Return the halt accepted last, without any request, or None.

        Raises:
            StorageError: the folder cannot be read.
        """
        return self._stored("halt", app, halt_from_bytes, limits.HALT_MAX_BYTES)

    def _find(self, path: str) -> TargetFile | None:
        if self._updater is None:
            self.refresh()
        updater = self._updater
        if updater is None:  # refresh() either raised or set it; said for the type checker
            raise MissingTarget(path)
        with _typed_errors(updater):
            return updater.get_targetinfo(path)

    def _document(self, target: TargetFile, stored: Path, kind: str, limit_bytes: int) -> bytes:
        """Return the signed bytes of a target: the stored ones if they are the same, else fetched."""
        if target.length > limit_bytes:
            raise DocumentTooLarge(kind, limit_bytes=limit_bytes, size_bytes=target.length)
        sha256 = _signed_digest(target)
        data = self._read(stored, limit_bytes)
        if data is not None and hashlib.sha256(data).hexdigest() == sha256:
            return data
        with _typed_errors(None):
            place = layout.target_file(target.path, sha256)
            data = self._fetcher.download_bytes(f"{self._base_url}/{place}", target.length)
        try:
            target.verify_length_and_hashes(data)
        except exceptions.LengthOrHashMismatchError as error:
            raise IntegrityError(target.path, expected=sha256, seen=str(error)) from None
        return data

    def _accept(self, kind: str, app: str, document: _Dated, stored: _Dated | None) -> _Dated:
        if document.app != app:
            raise WrongSubjectError(kind, field="app", expected=app, seen=document.app)
        keys = self._keys_of(kind)
        if stored is not None and self._is_by_one_of(kind, app, keys):
            if document.serial < stored.serial:
                raise RollbackError(kind, f"serial {document.serial} of {app} is below {stored.serial}, seen before")
            if document.serial == stored.serial and document != stored:
                raise RollbackError(kind, f"serial {document.serial} of {app} names two documents")
        self._store(self._document_file(kind, app), document.to_bytes())
        # Second: a kill in between leaves a document whose serial binds too little for once, never one that binds all.
        self._store(self._keys_file(kind, app), json.dumps(keys).encode())
        return document

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

    def _lifts(self, earlier: Halt, later: Halt) -> dict[str, tuple[Lift, ...]]:
        """Return the lifts of the teams whose features the later halt gives back."""
        if later.includes(earlier):
            return {}
        features = {item.feature for item in set(earlier.halted) - set(later.halted)}
        features |= set(earlier.frozen) - set(later.frozen)
        updater = self._updater
        if updater is None:
            return {}
        with _typed_errors(updater):
            return {feature: updater.lifts(feature) for feature in features}

    def _stored(self, kind: str, app: str, read: Callable[[bytes], _Dated], limit_bytes: int) -> _Dated | None:
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

    def _expired_version(self, updater: _Updater) -> int:
        """Return the highest timestamp version found expired under keys that are still the role's, 0 if none."""
        data = self._read(self._folder / _VERDICT, limits.TIMESTAMP_METADATA_MAX_BYTES)
        return 0 if data is None else updater.verified_timestamp_version(data)

    def _remember_expired(self, updater: _Updater) -> None:
        data = updater.last_timestamp
        if updater.verified_timestamp_version(data) > self._expired_version(updater):
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


class _Updater(Updater):
    """python-tuf's client, told the time and asked what it trusts."""

    def __init__(
        self,
        metadata_dir: str,
        metadata_base_url: str,
        *,
        fetcher: FetcherInterface,
        config: UpdaterConfig,
        bootstrap: bytes,
        now_s: int,
    ) -> None:
        super().__init__(metadata_dir, metadata_base_url, fetcher=fetcher, config=config, bootstrap=bootstrap)
        self._trusted_set.reference_time = utc(now_s)
        self.last_timestamp = b""

    def _download_metadata(self, rolename: str, length: int, version: int | None = None) -> bytes:
        data = super()._download_metadata(rolename, length, version)
        if rolename == Timestamp.type:
            self.last_timestamp = data
        return data

    def verified_timestamp_version(self, data: bytes) -> int:
        """Return the version of a timestamp that the trusted root's keys signed, whatever its date; else 0."""
        try:
            metadata: Metadata[Any] = Metadata.from_bytes(data)
            root = self._trusted_set.root
            root.verify_delegate(Timestamp.type, metadata.signed_bytes, metadata.signatures)
        except exceptions.RepositoryError:
            return 0
        return metadata.signed.version if isinstance(metadata.signed, Timestamp) else 0

    def refuse_repeated_keys(self) -> None:
        """Raise `MetadataError` where one key stands under two names in a role: a threshold would count it twice."""
        root, delegations = self._trusted_set.root, self._trusted_set.targets.delegations
        named: list[tuple[str, Mapping[str, Role], Mapping[str, Key]]] = [(Root.type, root.roles, root.keys)]
        if delegations is not None:
            named.append((Targets.type, delegations.roles or {}, delegations.keys))
        for delegator, roles, keys in named:
            for name, role in roles.items():
                values = [json.dumps(keys[keyid].keyval, sort_keys=True) for keyid in role.keyids if keyid in keys]
                if len(set(values)) < len(values):
                    raise MetadataError(delegator, f"{name} has the same key under two names")

    def trusted(self, role: str) -> Signed:
        """Return what is trusted of `role`; KeyError before it was loaded."""
        return self._trusted_set[role]

    def floor(self, feature: str) -> str | None:
        """Return the floor that the role which owns `feature` has set; only that role is loaded, none beneath it."""
        owner = self._owner(feature)
        return None if owner is None else floors(*owner).get(feature)

    def lifts(self, feature: str) -> tuple[Lift, ...]:
        """Return what the role which owns `feature` has lifted; only that role is loaded."""
        owner = self._owner(feature)
        return () if owner is None else lifts(*owner)

    def keys_of(self, role: str) -> list[str]:
        """Return the ids of the keys that may sign for a delegated role."""
        return list(self._trusted_set.targets.get_delegated_role(role).keyids)

    def _owner(self, feature: str) -> tuple[str, Targets] | None:
        targets = self._trusted_set.targets
        if targets.delegations is not None:
            for role, _ in targets.delegations.get_roles_for_target(manifest_path(feature, "0.0.0")):
                return role, self._load_targets(role, Targets.type)
        return None

    def expired(self, role: str) -> ExpiredMetadata:
        """Return the error that says which version of `role` expired when, as far as it was loaded."""
        if role not in self._trusted_set:
            return ExpiredMetadata(role)
        signed = self.trusted(role)
        return ExpiredMetadata(role, version=signed.version, expired_at_s=int(signed.expires.timestamp()))


class _BoundedFetcher(FetcherInterface):
    """Holds another fetcher to its bounds, and turns whatever it raises into `FetchError`."""

    def __init__(self, fetcher: FetcherInterface) -> None:
        self._inner = fetcher

    def _fetch(self, url: str) -> Iterator[bytes]:
        return self._inner.fetch(url)

    def download_bytes(self, url: str, max_length: int) -> bytes:
        """Return what `url` holds; reading stops at the first piece beyond `max_length`."""
        received = bytearray()
        try:
            for piece in self.fetch(url):
                received += piece
                if len(received) > max_length:
                    break
        except exceptions.DownloadError:
            raise  # python-tuf reads an HTTP status from it: 404 ends its search for newer roots
        except Exception as error:
            # A fetcher may be anybody's; whatever it raises in the middle of a transfer is bad weather.
            msg = f"{url}: {error}"
            raise FetchError(msg) from error
        if len(received) > max_length:
            raise DocumentTooLarge(url, limit_bytes=max_length, size_bytes=len(received))
        return bytes(received)


def _signed_digest(target: TargetFile) -> str:
    """Return the target's SHA-256; it becomes part of a path, so it is looked at first."""
    sha256 = target.hashes.get("sha256", "")
    if len(sha256) != 64 or not _DIGEST_CHARACTERS.issuperset(sha256):
        raise MetadataError("", f"{target.path} is not signed by a SHA-256: {sha256!r}")
    return sha256


@contextmanager
def _typed_errors(updater: _Updater | None) -> Iterator[None]:
    """Turn python-tuf's errors into ours."""
    try:
        yield
    except exceptions.DownloadHTTPError as error:
        raise FetchError(str(error), status=error.status_code) from error
    except exceptions.DownloadError as error:
        raise FetchError(str(error)) from error
    except exceptions.UnsignedMetadataError as error:
        raise SignatureError(str(error).partition(" ")[0], str(error)) from error
    except exceptions.ExpiredMetadataError as error:
        role = _expired_role(str(error))
        raise (ExpiredMetadata(role) if updater is None else updater.expired(role)) from error
    except exceptions.BadVersionNumberError as error:
        raise RollbackError("", str(error)) from error
    except exceptions.LengthOrHashMismatchError as error:
        raise IntegrityError("metadata", expected="the signed length and digest", seen=str(error)) from error
    except exceptions.RepositoryError as error:
        if "missing info" in str(error):
            raise RollbackError("snapshot", str(error)) from error
        raise MetadataError("", str(error)) from error
    except OSError as error:
        raise StorageError(str(error.filename or ""), error.strerror or str(error)) from error


def _expired_role(message: str) -> str:
    # "timestamp.json is expired", "Final root.json is expired", "New team-x is expired"
    name = message.removesuffix(" is expired").removesuffix(".json")
    return name.removeprefix("Final ").removeprefix("New ")
