"""May this process start here?  Not beside a key that it must not see, not without the keys it needs, not twice.

The server can date, choose and stop; it can never add a version, because the keys for that are out of its reach.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alcove.platform.core.errors import DataFolderBusyError, KeyWithinReachError, OnlineKeyError, TreeMissingError
from alcove.platform.server.settings import Settings
from alcove.registry.errors import KeyFileError
from alcove.registry.keys import OnlineKeys
from alcove.registry.layout import BLOBS, metadata_file
from alcove.registry.online_keys import key_file, load_online_keys, own_private_files
from alcove.registry.trust import TreeState, online_trust

__all__ = ["check_keys", "hold_data_folder", "load_keys", "refuse_foreign_keys"]

_HEAD_BYTES = 4096  # a PEM file's first line is in its first block
_MARK = b"PRIVATE KEY-----"


def refuse_foreign_keys(settings: Settings) -> None:
    """Look at every file that the server may read in its folders, through links too, but for what teams uploaded.

    An upload is named by its digest and is nobody's key file, whatever it says; the server never signs with it.

    Raises:
        KeyWithinReachError: one is a private key and none of the server's own.
        OnlineKeyError: what should say where a key of the server is cannot be read.
    """
    try:
        own = set(own_private_files(settings.online_keys))
    except KeyFileError as error:
        raise _online_error(error) from None
    if settings.tls_key is not None:
        own.add(settings.tls_key)
    allowed = {path.resolve() for path in own}
    seen = {(settings.tree / BLOBS).resolve(), settings.uploads.resolve()}
    for folder in (settings.data_dir.resolve(), settings.online_keys.resolve()):
        for path in _files(folder, seen):
            if path.resolve() not in allowed and _is_private_key(path):
                raise KeyWithinReachError(path)


def _files(folder: Path, seen: set[Path]) -> Iterator[Path]:
    """Give the files below `folder`; a folder in `seen` is passed over, and each is added, so that no link loops."""
    for parent, folders, names in os.walk(folder, followlinks=True):
        place = Path(parent).resolve()
        if place in seen:
            folders.clear()
            continue
        seen.add(place)
        yield from (Path(parent, name) for name in names)


def _is_private_key(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return _MARK in file.read(_HEAD_BYTES)
    except OSError:
        return False  # what cannot be read is out of reach


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


def check_keys(settings: Settings, keys: OnlineKeys, state: TreeState) -> None:
    """Compare the online keys with those that the tree trusts for their roles.

    Raises:
        OnlineKeyError: a key is not the one that the tree trusts (another tree's, or another role's).
    """
    for role, keyids in online_trust(state.root, state.targets).items():
        if getattr(keys, role).public_key.keyid not in keyids:
            raise OnlineKeyError(role, key_file(settings.online_keys, role), "is not the key that the tree trusts")


@contextmanager
def hold_data_folder(settings: Settings) -> Iterator[None]:
    """Keep other servers out of the data folder, or those without its database; a killed server's hold ends with it.

    Raises:
        TreeMissingError: the folder holds no tree.
        DataFolderBusyError: another server holds it.
    """
    if not (settings.tree / metadata_file("timestamp")).is_file():
        raise TreeMissingError(settings.tree)
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
