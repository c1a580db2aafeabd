"""Finds private keys in files: by reading them as keys, not by their names or their first line.

Found are PEM blocks anywhere in a file (PKCS #8, PKCS #1, SEC 1, OpenSSH, under a password too), DER files, and, of the
keys that the tree trusts, the bare 32 or 64 bytes of an Ed25519 key: as they are, in hexadecimal, in base64, or in
a JSON document.  What is packed, encrypted otherwise or in a device of its own is not found; `docs/deploy/keys.md`
says so.
"""

import base64
import binascii
import contextlib
import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_der_private_key

__all__ = ["holds_private_key"]

_CHUNK_BYTES = 1 << 20
_OVERLAP_BYTES = 1 << 14  # a PEM block that two chunks share is in one of them whole: keys take up to 12 kB
_SMALL_BYTES = 1 << 16  # a DER key, a bare key or a JSON document of one is smaller
_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]*)PRIVATE KEY-----(.*?)-----END ", re.DOTALL)
_HEADER = re.compile(rb"^[A-Za-z-]+:.*$", re.MULTILINE)  # "Proc-Type: 4,ENCRYPTED"
_SEED_BYTES = 32
_PAIR_BYTES = 64  # seed and public key, as libsodium has it


def holds_private_key(path: Path, trusted: Collection[bytes]) -> bool:
    """Tell whether a file that can be read holds a private key.

    Args:
        path: of any file.
        trusted: bare Ed25519 public keys; a bare private key is known by its public one.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_CHUNK_BYTES)
            if len(head) <= _SMALL_BYTES and (_is_der(head) or _is_bare(head, trusted)):
                return True
            while head:
                if _has_block(head):
                    return True
                more = file.read(_CHUNK_BYTES)
                head = head[-_OVERLAP_BYTES:] + more if more else b""
    except OSError:
        return False  # what cannot be read is out of reach
    return False


def _has_block(data: bytes) -> bool:
    for match in _BLOCK.finditer(data):
        body = _HEADER.sub(b"", match[2].replace(rb"\n", b"\n"))  # also as it stands in a JSON text
        if _decode(b"".join(body.split())):
            return True
    return False


def _decode(text: bytes) -> bytes:
    padded = text.translate(bytes.maketrans(b"-_", b"+/")) + b"=" * (-len(text) % 4)
    try:
        return base64.b64decode(padded, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _is_der(data: bytes) -> bool:
    if not data.startswith(b"0"):  # a sequence
        return False
    try:
        load_der_private_key(data, None)
    except TypeError:
        return True  # under a password
    except (ValueError, UnsupportedAlgorithm):
        return False
    return True


def _is_bare(data: bytes, trusted: Collection[bytes]) -> bool:
    for found in _bare(data):
        if len(found) in (_SEED_BYTES, _PAIR_BYTES):
            public = Ed25519PrivateKey.from_private_bytes(found[:_SEED_BYTES]).public_key().public_bytes_raw()
            if public in trusted:
                return True
    return False


def _bare(data: bytes) -> Iterator[bytes]:
    yield data
    text = data.strip()
    yield from _list_spellings(text)
    if text[:1] in b'{["':
        try:
            yield from (found for value in _strings(json.loads(text)) for found in _list_spellings(value.encode()))
        except (ValueError, RecursionError):
            return


def _list_spellings(text: bytes) -> Iterator[bytes]:
    if len(text) in (2 * _SEED_BYTES, 2 * _PAIR_BYTES):
        with contextlib.suppress(ValueError):
            yield bytes.fromhex(text.decode("ascii"))
    if len(text) < 2 * _PAIR_BYTES:
        yield _decode(text)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
