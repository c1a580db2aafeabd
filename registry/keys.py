"""Creates and loads private keys, in files that only their owner can read.

::

    <directory>/offline/root.pem, offline/targets.pem       a safe; needed to change who signs what
    <directory>/online/{policy,halt,snapshot,timestamp}.pem  the server, and only these
                                                            or <role>.uri, a key elsewhere: `online_keys.py`
    <directory>/teams/<team>.pem                            the team; never the server

Ed25519, PKCS #8.  A file is 0600 and a folder 0700 from the moment it exists.
"""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from alcove.registry._tuf import CryptoSigner, Signer
from alcove.registry.errors import KeyFileError
from alcove.registry.rules import check_teams
from alcove.runtime.files import DISK, read_bounded, sync
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

OFFLINE_ROLES: Final = ("root", "targets")
ONLINE_ROLES: Final = ("policy", "halt", "snapshot", "timestamp")
KEY_FILE_MAX_BYTES: Final = 4096  # an Ed25519 key in PEM takes 119


@dataclass(frozen=True, slots=True)
class OnlineKeys:
    """The keys that the server holds.  They choose, stop and date; they cannot add a version."""

    policy: Signer
    halt: Signer
    snapshot: Signer
    timestamp: Signer


@dataclass(frozen=True, slots=True)
class KeyRing:
    """All keys, together only at the ceremony.

    Attributes:
        root, targets: the offline keys.
        online: what the server gets.
        teams: each team's own key.
    """

    root: CryptoSigner
    targets: CryptoSigner
    online: OnlineKeys
    teams: Mapping[str, CryptoSigner]


def create_keys(directory: Path, *, teams: Mapping[str, Sequence[str]]) -> KeyRing:
    """Make all keys of a new tree and write them; the directory appears whole or not at all.

    Args:
        directory: absent or empty; it becomes 0700.
        teams: the features of each team.

    Raises:
        KeyFileError: the directory holds something, or cannot be written.
        ValueError: a team or feature has no acceptable name, or a feature two owners.
    """
    check_teams(teams)
    if directory.exists() and any(directory.iterdir()):
        raise KeyFileError(str(directory), "is not empty; keys are never overwritten")
    signers = {name: _generate() for name in (*OFFLINE_ROLES, *ONLINE_ROLES)}
    team_signers = {team: _generate() for team in teams}
    places = {f"offline/{role}.pem": signers[role] for role in OFFLINE_ROLES}
    places |= {f"online/{role}.pem": signers[role] for role in ONLINE_ROLES}
    places |= {f"teams/{team}.pem": signer for team, signer in team_signers.items()}
    partial = directory.with_name(f".{directory.name}.partial")
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        if partial.exists():
            shutil.rmtree(partial)  # left by a killed ceremony: nobody has used these keys
        for folder in (partial, partial / "offline", partial / "online", partial / "teams"):
            folder.mkdir(mode=0o700)
        for place, signer in places.items():
            write_private_file(partial / place, signer.private_bytes)
        for folder in (partial / "offline", partial / "online", partial / "teams", partial):
            DISK.sync_folder(folder)
        partial.replace(directory)
        DISK.sync_folder(directory.parent)
    except OSError as error:
        raise KeyFileError(str(error.filename or directory), error.strerror or str(error)) from error
    return KeyRing(
        root=signers["root"],
        targets=signers["targets"],
        online=OnlineKeys(**{role: signers[role] for role in ONLINE_ROLES}),
        teams=team_signers,
    )


def check_private_file(path: Path) -> None:
    """Check that a file of secrets is for its owner alone.

    Raises:
        KeyFileError: absent, or readable by anyone but its owner.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise KeyFileError(str(path), error.strerror or str(error)) from error
    if mode & 0o077:
        raise KeyFileError(str(path), f"is open to others (mode {mode:04o}); a key is 0600")


def write_private_file(path: Path, data: bytes) -> None:
    """Write a new file of secrets, synced, which only its owner reads.

    Raises:
        FileExistsError: there is one.
        OSError: it cannot be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        sync(file)


def load_signer(path: Path) -> CryptoSigner:
    """Return the signer of a private key file.

    Raises:
        KeyFileError: absent, not an Ed25519 key in PKCS #8 PEM, or readable by anyone but its owner.
    """
    check_private_file(path)
    try:
        data = read_bounded(path, KEY_FILE_MAX_BYTES)
    except OSError as error:
        raise KeyFileError(str(path), error.strerror or str(error)) from error
    if data is None:
        raise KeyFileError(str(path), f"has more than {KEY_FILE_MAX_BYTES} bytes")
    try:
        key = load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # The parser's words may quote the key: say nothing of them.
        raise KeyFileError(str(path), "is not a private key in PEM without a password") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(str(path), "is not an Ed25519 key")
    return CryptoSigner(key)


def new_key(path: Path) -> CryptoSigner:
    """Make a private key file and return its signer.

    Raises:
        KeyFileError: the file exists, or cannot be written.
    """
    signer = _generate()
    try:
        write_private_file(path, signer.private_bytes)
        DISK.sync_folder(path.parent)
    except FileExistsError as error:
        raise KeyFileError(str(path), "exists; keys are never overwritten") from error
    except OSError as error:
        raise KeyFileError(str(path), error.strerror or str(error)) from error
    return signer


def load_keys(directory: Path, *, online: Path | None = None) -> KeyRing:
    """Return the keys that `create_keys` wrote into `directory`, of which the online ones may lie elsewhere since.

    Raises:
        KeyFileError: a key is absent, malformed or open to others.
    """
    server = online or directory / "online"
    return KeyRing(
        root=load_signer(directory / "offline" / "root.pem"),
        targets=load_signer(directory / "offline" / "targets.pem"),
        online=OnlineKeys(**{role: load_signer(server / f"{role}.pem") for role in ONLINE_ROLES}),
        teams={path.stem: load_signer(path) for path in sorted((directory / "teams").glob("*.pem"))},
    )


def _generate() -> CryptoSigner:
    return CryptoSigner(Ed25519PrivateKey.generate())
