"""Encrypts the server's keys for a backup, under a passphrase, and decrypts them.

The key of the encryption is scrypt's of the passphrase (RFC 7914; N = 2^17, r = 8, p = 1, as OWASP asks for passwords
at rest: 128 MiB and about half a second for each guess), the cipher AES-256-GCM.  What is encrypted is the JSON of the
files' bytes in base64, by name.  The note of how far the server has published is never in it: restored, it would say
less than the one that is there.
"""

import base64
import binascii
import json
import os
from pathlib import Path
from typing import Final

from alcove.platform.domain.errors import BackupError, InvalidFieldError
from alcove.registry.keys import check_private_file
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

__all__ = ["PASSPHRASE_CHARACTERS", "open_keys", "seal_keys"]

PASSPHRASE_CHARACTERS: Final = 16  # at least; whoever has the backup may guess for as long as they like
_MAGIC: Final = b"alcove keys 1\n"
_SALT_BYTES: Final = 16
_NONCE_BYTES: Final = 12
_SUFFIXES: Final = frozenset({".pem", ".pub", ".uri"})
_FILE_BYTES: Final = 65_536  # of a key; a folder with anything larger is no folder of keys


def seal_keys(folder: Path, passphrase: str) -> bytes:
    """Return the keys of a folder, encrypted.

    Raises:
        InvalidFieldError: the passphrase is too short, or the folder holds no keys.
        KeyFileError: a private key is open to others.
        OSError: a file cannot be read.
    """
    _check_passphrase(passphrase)
    files = {}
    for path in sorted(folder.iterdir()):
        if path.suffix in _SUFFIXES and path.stat().st_size <= _FILE_BYTES:
            if path.suffix == ".pem":
                check_private_file(path)
            files[path.name] = base64.b64encode(path.read_bytes()).decode()
    if not files:
        raise InvalidFieldError("keys", "a folder with the server's keys", str(folder))
    salt, nonce = os.urandom(_SALT_BYTES), os.urandom(_NONCE_BYTES)
    sealed = AESGCM(_derive(passphrase, salt)).encrypt(nonce, json.dumps(files).encode(), _MAGIC)
    return _MAGIC + salt + nonce + sealed


def open_keys(data: bytes, passphrase: str) -> dict[str, bytes]:
    """Return the files that were encrypted, by name.

    Raises:
        BackupError: another passphrase, or other bytes than were written.
    """
    start = len(_MAGIC)
    salt, nonce = data[start : start + _SALT_BYTES], data[start + _SALT_BYTES : start + _SALT_BYTES + _NONCE_BYTES]
    if not data.startswith(_MAGIC) or len(nonce) != _NONCE_BYTES:
        raise BackupError("keys", "no keys that this version of alcove encrypted")
    try:
        text = AESGCM(_derive(passphrase, salt)).decrypt(nonce, data[start + _SALT_BYTES + _NONCE_BYTES :], _MAGIC)
        files = {str(name): base64.b64decode(value) for name, value in json.loads(text).items()}
    except InvalidTag:
        raise BackupError("keys", "the passphrase is another one") from None
    except (ValueError, AttributeError, binascii.Error):
        raise BackupError("keys", "no keys that this version of alcove encrypted") from None
    for name in files:
        if Path(name).name != name or Path(name).suffix not in _SUFFIXES:
            raise BackupError("keys", f"a file of keys cannot be called {name!r}")
    return files


def _check_passphrase(passphrase: str) -> None:
    if len(passphrase) < PASSPHRASE_CHARACTERS:
        bound = f"a passphrase of at least {PASSPHRASE_CHARACTERS} characters"
        raise InvalidFieldError("passphrase", bound, f"{len(passphrase)} characters")


def _derive(passphrase: str, salt: bytes) -> bytes:
    return Scrypt(salt=salt, length=32, n=2**17, r=8, p=1).derive(passphrase.encode())
