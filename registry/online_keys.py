"""Loads the server's own keys, and determines which of them the tree trusts.

::

    <folder>/ROLE.pem              the private key, in a file
    <folder>/ROLE.uri              or where else it is: the public key and a URI, as `alcove keys public` writes them
    <folder>/ROLE.next.pem, .uri   the key that the server waits to change to (`rotation.py`)
    <folder>/ceremony.json         where everybody else's keys were made, if it was by `alcove keys create`

for `policy`, `halt`, `snapshot` and `timestamp`.  A key has one place: both files of a role at once are refused.  What
a token or a key service asks for (a PIN) is in the environment, because nobody is there to be asked.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from alcove.registry.errors import KeyFileError
from alcove.registry.keys import ONLINE_ROLES, OnlineKeys, load_signer
from alcove.registry.signers import PRIVATE, load_service_signer, private_file
from alcove.runtime.files import DISK, replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alcove.registry._tuf import Signer

CEREMONY: Final = "ceremony.json"
URI: Final = ".uri"
SECRET_VARIABLE: Final = "ALCOVE_KEY_SECRET_"  # noqa: S105 - the beginning of a name, and no secret
_NEXT: Final = ".next"


def note_ceremony(folder: Path, directory: Path) -> None:
    """Note beside the server's keys where everybody else's were made, so that the server can tell if they stay there.

    Raises:
        KeyFileError: the note cannot be written.
    """
    try:
        replace_file(DISK, folder / CEREMONY, json.dumps({"keys": str(directory.resolve())}).encode())
    except OSError as error:
        raise KeyFileError(str(folder / CEREMONY), error.strerror or str(error)) from error


def ceremony_folder(folder: Path) -> Path | None:
    """Return where everybody else's keys were made, as far as it was noted and can be read."""
    try:
        return Path(json.loads((folder / CEREMONY).read_bytes())["keys"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def load_online_keys(folder: Path) -> OnlineKeys:
    """Return the server's keys from the folder `online/`; each that is no file has signed something.

    Raises:
        KeyFileError: a key is absent, malformed, open to others, in two places at once, or does not sign.
    """
    return OnlineKeys(**{role: _load(key_file(folder, role)) for role in ONLINE_ROLES})


def key_file(folder: Path, role: str) -> Path:
    """Return which file says what the key of a role is: `ROLE.uri` where it is there, else `ROLE.pem`.

    Raises:
        KeyFileError: both are there.
    """
    return _one_of(folder, role) or folder / f"{role}{PRIVATE}"


def own_private_files(folder: Path) -> frozenset[Path]:
    """Return where private keys of the server may lie: those in use, those to change to, and those that a URI names.

    Raises:
        KeyFileError: a `ROLE.uri` is malformed.
    """
    found = set()
    for role in ONLINE_ROLES:
        for stem in (role, f"{role}{_NEXT}"):
            found.add(folder / f"{stem}{PRIVATE}")
            elsewhere = folder / f"{stem}{URI}"
            named = private_file(elsewhere) if elsewhere.exists() else None
            found |= set() if named is None else {named}
    return frozenset(found)


def online_keys_trusted(folder: Path, trusted: Mapping[str, Sequence[str]]) -> OnlineKeys:
    """Return of each online role the key that is trusted: the one in use, or the next one.

    Args:
        folder: the server's keys.
        trusted: ids of the keys that may sign, by online role.

    Raises:
        KeyFileError: neither is trusted, or a file is malformed or open to others.
    """
    found = {}
    for role in ONLINE_ROLES:
        signers = [signer for _, signer in _candidates(folder, role)]
        fitting = [signer for signer in signers if signer.public_key.keyid in trusted[role]]
        if not fitting:
            raise KeyFileError(str(key_file(folder, role)), f"is not the key that the tree trusts for {role}")
        found[role] = fitting[0]
    return OnlineKeys(**found)


def settle_online_keys(folder: Path, trusted: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Put each next key that is trusted now in the place of the one in use; return the roles that changed.

    Raises:
        KeyFileError: a file cannot be read or moved; repeating is safe.
    """
    settled = []
    for role in ONLINE_ROLES:
        for path, signer in _candidates(folder, role):
            if path.stem.endswith(_NEXT) and signer.public_key.keyid in trusted[role]:
                other = folder / f"{role}{PRIVATE if path.suffix == URI else URI}"
                try:
                    other.unlink(missing_ok=True)  # first: a key is never in two places, whenever this is cut off
                    DISK.rename(path, folder / f"{role}{path.suffix}")
                    DISK.sync_folder(folder)
                except OSError as error:
                    raise KeyFileError(str(path), error.strerror or str(error)) from error
                settled.append(role)
    return tuple(settled)


def online_candidates(folder: Path) -> list[Signer]:
    """Return every key of the server that is there: those in use and those to change to.

    Raises:
        KeyFileError: a file is malformed, open to others, or names a key that does not sign.
    """
    return [signer for role in ONLINE_ROLES for _, signer in _candidates(folder, role)]


def _candidates(folder: Path, role: str) -> list[tuple[Path, Signer]]:
    """Return the keys of a role that are there; the next one first, for it is the one to move to."""
    paths = [_one_of(folder, stem) for stem in (f"{role}{_NEXT}", role)]
    return [(path, _load(path)) for path in paths if path is not None]


def _one_of(folder: Path, stem: str) -> Path | None:
    found = [path for path in (folder / f"{stem}{URI}", folder / f"{stem}{PRIVATE}") if path.exists()]
    if len(found) > 1:
        raise KeyFileError(str(found[0]), f"{found[1].name} is there too; a key has one place: remove one of them")
    return found[0] if found else None


def _load(path: Path) -> Signer:
    if path.suffix == PRIVATE:
        return load_signer(path)
    return load_service_signer(path, secrets=lambda what: _secret(path, what))


def _secret(path: Path, what: str) -> str:
    name = SECRET_VARIABLE + what.upper().replace(" ", "_")
    value = os.environ.get(name)
    if value is None:
        raise KeyFileError(str(path), f"needs its {what}: set {name}")
    return value
