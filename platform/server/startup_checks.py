"""Refuses to start the server beside a key that it must not see, without the keys it needs, or twice.

The server can date, choose and stop; it can never add a version, because the keys for that are out of its reach.
"""

import fcntl
import ipaddress
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from alcove.platform.domain.errors import (
    DataFolderBusyError,
    KeyWithinReachError,
    OnlineKeyError,
    OtherStoreError,
    RepositoryMissingError,
)
from alcove.platform.server.key_search import holds_private_key
from alcove.platform.server.settings import Settings
from alcove.platform.services.publishing.uploads import UPLOAD
from alcove.registry.blobs import BlobStore
from alcove.registry.errors import KeyFileError, RegistryError
from alcove.registry.keys import OnlineKeys, check_private_file
from alcove.registry.layout import BLOBS, is_team, metadata_file
from alcove.registry.manifest import Manifest
from alcove.registry.online_keys import ceremony_folder, key_file, load_online_keys, own_private_files
from alcove.registry.repository import Repository
from alcove.registry.rules import delegations, key_material
from alcove.registry.trust import TrustedState, online_trust

__all__ = ["hold_data_folder", "load_keys", "refuse_foreign_keys", "verify_blobs", "verify_keys"]

_OTHERS = ("offline", "teams")  # beside the online keys, as `registry/keys.py` lays a ceremony out


def refuse_foreign_keys(settings: Settings) -> tuple[Path, ...]:
    """Look for private keys wherever a ceremony may have left some in this process's reach; return those it lives with.

    Searched, through links too, are the data folder, the folder of the online keys, `offline/` and `teams/` beside it,
    and the folder that `alcove keys create` noted.  Not searched is what teams uploaded (`tree/blobs` and the parts in
    `uploads/`): it is named by its digest and nobody's key file, whatever it says; and the server's own database.

    Returns:
        Keys in the folder that the ceremony noted, where the server listens to this machine alone: somebody tries it.

    Raises:
        KeyWithinReachError: a private key that is none of the server's own, but for those.
        OnlineKeyError: what says where a key of the server is cannot be read, or the key of TLS is open to others.
    """
    try:
        own = set(own_private_files(settings.online_keys))
        if settings.tls_key is not None:
            own.add(settings.tls_key)
            check_private_file(settings.tls_key)
    except KeyFileError as error:
        raise _online_error(error) from None
    search = _Search(settings, {path.resolve() for path in own})
    places = [settings.data_dir, settings.online_keys]
    places += [settings.online_keys.resolve().parent / name for name in _OTHERS]
    for folder in places:
        for path in search.foreign_keys(folder.resolve()):
            raise KeyWithinReachError(path)
    noted = ceremony_folder(settings.online_keys)
    left = () if noted is None else tuple(search.foreign_keys(noted))
    if left and not _is_loopback(settings.host):
        raise KeyWithinReachError(left[0])
    return left


class _Search:
    """Finds private keys in folders; each folder is searched once, so that no link loops."""

    def __init__(self, settings: Settings, own: set[Path]) -> None:
        self._own = own
        self._seen = {(settings.tree / BLOBS).resolve()}
        self._uploads = settings.uploads.resolve()
        database = settings.database
        names = ("", "-wal", "-shm", "-journal")
        self._database = set() if isinstance(database, str) else {Path(f"{database.resolve()}{end}") for end in names}
        self._trusted = _offline_keys(settings.tree)

    def foreign_keys(self, folder: Path) -> Iterator[Path]:
        """Give every private key below a folder that is none of the server's own."""
        for path in self._files(folder):
            place = path.resolve()
            if place not in self._own and place not in self._database and holds_private_key(path, self._trusted):
                yield path

    def _files(self, folder: Path) -> Iterator[Path]:
        for parent, folders, names in os.walk(folder, followlinks=True):
            place = Path(parent).resolve()
            if place in self._seen:
                folders.clear()
                continue
            self._seen.add(place)
            uploads = place == self._uploads
            yield from (Path(parent, name) for name in names if not (uploads and UPLOAD.fullmatch(name)))


def _offline_keys(tree: Path) -> frozenset[bytes]:
    """Return the bare public keys of everybody but the server, as far as the tree can be read."""
    try:
        state = Repository(tree).state()
    except RegistryError:
        return frozenset()
    found = set()
    keys = [(state.root.keys, state.root.roles[role].keyids) for role in ("root", "targets")]
    if state.targets.delegations is not None:
        delegated = delegations(state.targets).items()
        keys += [(state.targets.delegations.keys, role.keyids) for name, role in delegated if is_team(name)]
    for known, keyids in keys:
        found |= {key_material(known[keyid]) for keyid in keyids if keyid in known}
    return frozenset(material for material in found if isinstance(material, bytes))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def load_keys(settings: Settings) -> OnlineKeys:
    """Return the online keys.

    Raises:
        OnlineKeyError: one is missing, malformed, open to others, or does not sign.
    """
    try:
        return load_online_keys(settings.online_keys)
    except KeyFileError as error:
        raise _online_error(error) from None


def _online_error(error: KeyFileError) -> OnlineKeyError:
    path = Path(error.path)
    return OnlineKeyError(path.stem, path, error.problem)


def verify_keys(settings: Settings, keys: OnlineKeys, state: TrustedState) -> None:
    """Compare the online keys with those that the tree trusts for their roles.

    Raises:
        OnlineKeyError: a key is not the one that the tree trusts (another tree's, or another role's).
    """
    for role, keyids in online_trust(state.root, state.targets).items():
        if getattr(keys, role).public_key.keyid not in keyids:
            raise OnlineKeyError(role, key_file(settings.online_keys, role), "is not the key that the tree trusts")


def verify_blobs(blobs: BlobStore, manifests: Sequence[bytes], settings: Settings) -> None:
    """Compare a store of blobs with some versions that the database lists.

    Raises:
        OtherStoreError: it holds the programs of none of them: it is another tree's, or a bucket that is not there.
        StorageError: it cannot be read.
    """
    named = [Manifest.from_bytes(manifest) for manifest in manifests]
    if named and not any(blobs.has(variant.sha256) for manifest in named for variant in manifest.variants):
        first = f"{named[0].feature} {named[0].version}"
        where = settings.blobs or str(settings.tree / BLOBS)
        problem = f"it holds no program of {first} or of any other newest version: see --blobs (ALCOVE_BLOBS)"
        raise OtherStoreError(where, problem)


@contextmanager
def hold_data_folder(settings: Settings) -> Iterator[None]:
    """Keep other servers out of the data folder, or those without its database; a killed server's hold ends with it.

    Raises:
        RepositoryMissingError: the folder holds no tree.
        DataFolderBusyError: another server holds it.
    """
    if not (settings.tree / metadata_file("timestamp")).is_file():
        raise RepositoryMissingError(settings.tree)
    descriptor = os.open(settings.data_dir / "server.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            kind = fcntl.LOCK_EX if settings.database_url is None else fcntl.LOCK_SH
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataFolderBusyError(settings.data_dir) from None
        yield
    finally:
        os.close(descriptor)
