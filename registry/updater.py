"""Holds python-tuf's client to our bounds, our clock, our errors and the rules of our tree.

`client.py` says what a device reads and keeps; here is how python-tuf is asked: never for more bytes than a document
may have, judged by the clock that is given, and never with an error that is not a `RegistryError`.

python-tuf keeps delegated metadata by the role's name alone, no matter who delegated to it (docs/decisions/0024): what
was proved for one delegator is overwritten by what another one says under the same name.  So `RepositoryUpdater` holds
each role to one delegator and to `rules.py` before it is stored or read, and answers nothing while python-tuf trusts an
object that was not held to them.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from alcove.registry import layout, limits, rules
from alcove.registry._tuf import Metadata, Root, Snapshot, Targets, Timestamp
from alcove.registry.errors import (
    DocumentTooLargeError,
    ExpiredMetadataError,
    FetchError,
    IntegrityError,
    MetadataError,
    RollbackError,
    SignatureError,
    StorageError,
)
from alcove.registry.manifest import manifest_path
from alcove.registry.min_versions import parse_min_versions
from alcove.registry.reinstatements import Reinstatement, parse_reinstatements
from alcove.registry.signed_time import SignedTime, utc
from tuf.api import exceptions
from tuf.ngclient.config import UpdaterConfig
from tuf.ngclient.fetcher import FetcherInterface
from tuf.ngclient.updater import Updater

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alcove.registry._tuf import Signed, TargetFile
    from alcove.registry.signed_time import Floor

_CONFIG: Final = UpdaterConfig(
    max_root_rotations=64,
    max_delegations=8,
    root_max_length=limits.ROOT_METADATA_MAX_BYTES,
    timestamp_max_length=limits.TIMESTAMP_METADATA_MAX_BYTES,
    snapshot_max_length=limits.SNAPSHOT_METADATA_MAX_BYTES,
    targets_max_length=limits.TARGETS_METADATA_MAX_BYTES,
)
_DIGEST_CHARACTERS: Final = frozenset("0123456789abcdef")
_DIGEST_LENGTHS: Final = {"sha256": 64, "sha512": 128}


class BoundedUpdater(Updater):
    """python-tuf's client for any repository, with an injected time and access to what it trusts."""

    def __init__(
        self,
        metadata_dir: str,
        metadata_base_url: str,
        *,
        fetcher: FetcherInterface,
        bootstrap: bytes,
        now_s: int,
        floor: Floor | None = None,
    ) -> None:
        super().__init__(metadata_dir, metadata_base_url, fetcher=fetcher, config=_CONFIG, bootstrap=bootstrap)
        self._trusted_set.reference_time = utc(now_s)
        self._now_s = now_s
        self._floor = floor
        self.last_timestamp = b""

    def _load_root(self) -> None:
        super()._load_root()
        # Only now is it known whose timestamps count; no date was judged before.
        if self._floor is not None:
            floor_s = self._floor(self._timestamp_keys())
            self._trusted_set.reference_time = utc(max(self._now_s, floor_s))

    def signed_time(self) -> SignedTime:
        """Return what the trusted timestamp and snapshot say of time; after a whole refresh."""
        timestamp, snapshot = self.get_trusted(Timestamp.type), self.get_trusted(Snapshot.type)
        expires_s = int(timestamp.expires.timestamp())
        return SignedTime(
            version=timestamp.version,
            signed_s=expires_s - layout.LIFETIMES_S["timestamp"],
            expires_s=min(expires_s, int(snapshot.expires.timestamp())),
            keys=self._timestamp_keys(),
        )

    def _timestamp_keys(self) -> tuple[str, ...]:
        return tuple(self._trusted_set.root.roles[Timestamp.type].keyids)

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
        targets = self._trusted_set.targets
        rules.check_root(self._trusted_set.root)
        if targets.delegations is not None:
            rules.check_keys(Targets.type, rules.delegations(targets), targets.delegations.keys)

    def get_trusted(self, role: str) -> Signed:
        """Return what is trusted of `role`; KeyError before it was loaded."""
        return self._trusted_set[role]

    def min_version(self, feature: str) -> str | None:
        """Return the minimum version that the role which owns `feature` has set; only that role is loaded."""
        owner = self._owner(feature)
        return None if owner is None else parse_min_versions(*owner).get(feature)

    def reinstatements(self, feature: str) -> tuple[Reinstatement, ...]:
        """Return what the role which owns `feature` has reinstated; only that role is loaded."""
        owner = self._owner(feature)
        return () if owner is None else parse_reinstatements(*owner)

    def keys_of(self, role: str) -> list[str]:
        """Return the ids of the keys that may sign for a delegated role."""
        return list(self._trusted_set.targets.get_delegated_role(role).keyids)

    def _owner(self, feature: str) -> tuple[str, Targets] | None:
        targets = self._trusted_set.targets
        if targets.delegations is not None:
            for role, _ in targets.delegations.get_roles_for_target(manifest_path(feature, "0.0.0")):
                owner = self._load_targets(role, Targets.type)
                self._require_checked()
                return role, owner
        return None

    def _require_checked(self) -> None:
        """Raise where something is trusted that was not checked; a tree of any kind has nothing to check."""

    def expired_error(self, role: str) -> ExpiredMetadataError:
        """Return the error that says which version of `role` expired when, as far as it was loaded."""
        if role not in self._trusted_set:
            return ExpiredMetadataError(role)
        signed = self.get_trusted(role)
        return ExpiredMetadataError(role, version=signed.version, expired_at_s=int(signed.expires.timestamp()))


class RepositoryUpdater(BoundedUpdater):
    """Reads our tree: every role is held to `rules.py`, and to one delegator, before it is stored or asked."""

    def __init__(
        self,
        metadata_dir: str,
        metadata_base_url: str,
        *,
        fetcher: FetcherInterface,
        bootstrap: bytes,
        now_s: int,
        floor: Floor | None = None,
    ) -> None:
        super().__init__(
            metadata_dir, metadata_base_url, fetcher=fetcher, bootstrap=bootstrap, now_s=now_s, floor=floor
        )
        self._delegators: dict[str, str] = {Timestamp.type: Root.type, Snapshot.type: Root.type}
        self._checked: dict[str, Signed] = {}

    def get_targetinfo(self, target_path: str) -> TargetFile | None:
        """Return what is signed at a path, or None.

        Raises:
            MetadataError: on the way is a role that keeps a rule badly.
        """
        target = super().get_targetinfo(target_path)
        self._require_checked()
        return target

    def _load_timestamp(self) -> None:
        super()._load_timestamp()
        self._check(Timestamp.type)

    def _load_snapshot(self) -> None:
        super()._load_snapshot()
        self._check(Snapshot.type)

    def _load_targets(self, role: str, parent_role: str) -> Targets:
        # Before it is read: python-tuf would put it in the place of what was proved under the other delegator.
        delegator = self._delegators.setdefault(role, parent_role)
        if delegator != parent_role:
            raise MetadataError(
                role, f"{role} is delegated by {delegator} and by {parent_role}; a role has one delegator"
            )
        targets = super()._load_targets(role, parent_role)
        self._check(role)
        return targets

    def _persist_metadata(self, rolename: str, data: bytes) -> None:
        self._check(rolename)
        super()._persist_metadata(rolename, data)

    def _check(self, role: str) -> None:
        signed = self._trusted_set[role]
        if self._checked.get(role) is signed:
            return
        if isinstance(signed, Timestamp):
            rules.check_timestamp(signed)
        elif isinstance(signed, Snapshot):
            rules.check_snapshot(signed)
        elif isinstance(signed, Targets) and role == Targets.type:
            rules.check_targets(signed)
        elif isinstance(signed, Targets):
            delegator = self._delegators[role]
            team = None if delegator == Targets.type else self._trusted_set[delegator]
            rules.check_role(role, signed, self._trusted_set.targets, team=team if isinstance(team, Targets) else None)
        self._checked[role] = signed

    def _require_checked(self) -> None:
        """Raise `MetadataError` where python-tuf trusts an object that did not come by way of `_check`.

        It cannot be, by the methods above; but they are python-tuf's own, and another release may have others.
        """
        if len(self._trusted_set) != len(self._checked) + 1:  # root is checked by `refuse_repeated_keys`
            raise MetadataError(
                "", f"{len(self._trusted_set)} roles are trusted, {len(self._checked) + 1} were checked"
            )
        for role, signed in self._checked.items():
            if self._trusted_set[role] is not signed:
                raise MetadataError(role, f"{role} was replaced after it was checked")


class BoundedFetcher(FetcherInterface):
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
            # A fetcher may be anybody's; whatever it raises in the middle of a transfer is transient failures.
            msg = f"{url}: {error}"
            raise FetchError(msg) from error
        if len(received) > max_length:
            raise DocumentTooLargeError(url, limit_bytes=max_length, size_bytes=len(received))
        return bytes(received)


def signed_sha256(target: TargetFile) -> str:
    """Return the target's SHA-256, by which this device names what it keeps.

    Raises:
        MetadataError: there is none.
    """
    algorithm, digest = signed_digest(target)
    if algorithm != "sha256":
        raise MetadataError("", f"{target.path} is not signed by a SHA-256, but by {algorithm}: {digest!r}")
    return digest


def signed_digest(target: TargetFile) -> tuple[str, str]:
    """Return an algorithm and the target's digest by it, of those that may stand before the name where it is served.

    It becomes part of a path, so it is looked at first. Every digest of a target is compared, whichever this is.

    Raises:
        MetadataError: none of SHA-256 and SHA-512, or not of their form.
    """
    for algorithm, length in _DIGEST_LENGTHS.items():
        digest = target.hashes.get(algorithm)
        if digest is not None:
            if len(digest) != length or not _DIGEST_CHARACTERS.issuperset(digest):
                raise MetadataError("", f"{target.path}: a {algorithm} has {length} hex digits, got {digest!r}")
            return algorithm, digest
    raise MetadataError("", f"{target.path} is signed by neither a SHA-256 nor a SHA-512: {sorted(target.hashes)}")


@contextmanager
def typed_errors(updater: BoundedUpdater | None) -> Iterator[None]:
    """Turn python-tuf's errors into ours."""
    try:
        yield
    except exceptions.DownloadHTTPError as error:
        raise FetchError(str(error), status=error.status_code) from error
    except exceptions.DownloadError as error:
        raise FetchError(str(error)) from error
    except exceptions.UnsignedMetadataError as error:
        role, _, problem = str(error).partition(" was ")
        raise SignatureError(role, f"{problem}{_ADVICE if role in _ROLES_OF_ROOT else ''}") from error
    except exceptions.ExpiredMetadataError as error:
        role = _expired_role(str(error))
        raise (ExpiredMetadataError(role) if updater is None else updater.expired_error(role)) from error
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


_ROLES_OF_ROOT: Final = frozenset({"root", "timestamp"})
"""What a device reads first: signed by other keys where its root is another tree's."""
_ADVICE: Final = ": is trusted_root the root.json of this server's tree?"


def _expired_role(message: str) -> str:
    # "timestamp.json is expired", "Final root.json is expired", "New team-x is expired"
    name = message.removesuffix(" is expired").removesuffix(".json")
    return name.removeprefix("Final ").removeprefix("New ")
