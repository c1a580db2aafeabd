"""Encrypts to a public key: HPKE in base mode with X25519, HKDF-SHA256 and AES-128-GCM, one message at a time.

A secret can be exported beside the message, from which the receiver's answer is keyed (`ohttp.py`).

The suite is the one that DAP makes mandatory. The `cryptography` package's own HPKE takes no associated data, which DAP
needs to bind a share to its report, so the few steps above its primitives are here.

Source: RFC 9180, sections 4, 5.1, 5.3 and 6.1; the numbers of the suite are in sections 7.1 to 7.3.
"""

import hashlib
import hmac
from functools import lru_cache
from typing import Final

from alcove.privacy.errors import HpkeError
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEM_ID: Final = 0x0020
"""DHKEM(X25519, HKDF-SHA256)."""

KDF_ID: Final = 0x0001
"""HKDF-SHA256."""

AEAD_ID: Final = 0x0001
"""AES-128-GCM."""

KEY_BYTES: Final = 32
"""Size of a private key, of a public key and of an encapsulated key."""

TAG_BYTES: Final = 16
"""What a ciphertext is longer than its plaintext."""

AEAD_KEY_BYTES: Final = 16
"""Size of the AEAD's key, and of an exported secret."""

NONCE_BYTES: Final = 12
"""Size of the AEAD's nonce."""

_HASH_BYTES: Final = 32
_KEM_SUITE: Final = b"KEM" + KEM_ID.to_bytes(2, "big")
_SUITE: Final = b"HPKE" + b"".join(number.to_bytes(2, "big") for number in (KEM_ID, KDF_ID, AEAD_ID))


def generate_private_key() -> bytes:
    """Return a new private key."""
    return X25519PrivateKey.generate().private_bytes_raw()


def derive_public_key(private_key: bytes) -> bytes:
    """Return the public key of a private one.

    Raises:
        HpkeError: it is no key.
    """
    return _read_pair(private_key)[1]


def seal(public_key: bytes, info: bytes, aad: bytes, plaintext: bytes) -> tuple[bytes, bytes]:
    """Return the encapsulated key and the ciphertext, which only the private key opens.

    Args:
        public_key: the receiver's, `KEY_BYTES` bytes.
        info: what the key is used for; the receiver must give the same.
        aad: associated data, authenticated and not sent; the receiver must give the same.
        plaintext: what is encrypted.

    Raises:
        HpkeError: the public key is none, or one that would make the secret known.
    """
    return seal_with(X25519PrivateKey.generate(), public_key, info, aad, plaintext)


def seal_with(
    ephemeral: X25519PrivateKey, public_key: bytes, info: bytes, aad: bytes, plaintext: bytes
) -> tuple[bytes, bytes]:
    """Return what `seal` does with a given ephemeral key, which must not be used again; for test vectors."""
    encapsulated, shared_secret = _encapsulate(ephemeral, public_key)
    key, nonce = derive_key_and_nonce(shared_secret, info)
    return encapsulated, AESGCM(key).encrypt(nonce, plaintext, aad)


def seal_and_export(
    ephemeral: X25519PrivateKey, public_key: bytes, info: bytes, plaintext: bytes, context: bytes
) -> tuple[bytes, bytes, bytes]:
    """Return what `seal_with` does without associated data, and a secret of the size of the AEAD's key.

    Args:
        ephemeral: as for `seal_with`.
        public_key: the receiver's.
        info: as for `seal`.
        plaintext: what is encrypted.
        context: what the exported secret is used for.

    Raises:
        HpkeError: as `seal`.
    """
    encapsulated, shared_secret = _encapsulate(ephemeral, public_key)
    key, nonce = derive_key_and_nonce(shared_secret, info)
    return encapsulated, AESGCM(key).encrypt(nonce, plaintext, b""), _export(shared_secret, info, context)


def open_sealed(private_key: bytes, encapsulated: bytes, info: bytes, aad: bytes, ciphertext: bytes) -> bytes:
    """Return the plaintext.

    Args:
        private_key: the receiver's.
        encapsulated: the encapsulated key that came with the ciphertext.
        info: as the sender's.
        aad: as the sender's.
        ciphertext: what was sent.

    Raises:
        HpkeError: it was not sealed to this key with this `info` and `aad`, or it was changed.
    """
    return _open(_decapsulate(private_key, encapsulated), info, aad, ciphertext)


def open_and_export(
    private_key: bytes, encapsulated: bytes, info: bytes, ciphertext: bytes, context: bytes
) -> tuple[bytes, bytes]:
    """Return the plaintext and the secret that `seal_and_export` gave the sender.

    Raises:
        HpkeError: as `open_sealed`.
    """
    shared_secret = _decapsulate(private_key, encapsulated)
    return _open(shared_secret, info, b"", ciphertext), _export(shared_secret, info, context)


def _encapsulate(ephemeral: X25519PrivateKey, public_key: bytes) -> tuple[bytes, bytes]:
    encapsulated = ephemeral.public_key().public_bytes_raw()
    return encapsulated, _exchange(ephemeral, public_key, encapsulated + public_key)


def _decapsulate(private_key: bytes, encapsulated: bytes) -> bytes:
    own, public_key = _read_pair(private_key)
    return _exchange(own, encapsulated, encapsulated + public_key)


def _open(shared_secret: bytes, info: bytes, aad: bytes, ciphertext: bytes) -> bytes:
    key, nonce = derive_key_and_nonce(shared_secret, info)
    try:
        return AESGCM(key).decrypt(nonce, ciphertext, aad)
    except InvalidTag:
        raise HpkeError(reason="the ciphertext is not for this key, info and associated data") from None


def _export(shared_secret: bytes, info: bytes, context: bytes) -> bytes:
    """Return a secret of the size of the AEAD's key (section 5.3)."""
    secret = _extract(_SUITE, shared_secret, b"secret", b"")
    exporter = _expand(_SUITE, secret, b"exp", _make_context(info), _HASH_BYTES)
    return _expand(_SUITE, exporter, b"sec", context, AEAD_KEY_BYTES)


def derive_key_and_nonce(shared_secret: bytes, info: bytes) -> tuple[bytes, bytes]:
    """Return the AEAD's key and first nonce (RFC 9180, section 5.1: KeySchedule in base mode)."""
    context = _make_context(info)
    secret = _extract(_SUITE, shared_secret, b"secret", b"")
    return (
        _expand(_SUITE, secret, b"key", context, AEAD_KEY_BYTES),
        _expand(_SUITE, secret, b"base_nonce", context, NONCE_BYTES),
    )


@lru_cache(maxsize=64)
def _make_context(info: bytes) -> bytes:
    return b"\x00" + _extract(_SUITE, b"", b"psk_id_hash", b"") + _extract(_SUITE, b"", b"info_hash", info)


def _exchange(own: X25519PrivateKey, other: bytes, context: bytes) -> bytes:
    """Return the KEM's shared secret (section 4.1); X25519 of a point of small order, which is zero, is refused."""
    try:
        exchanged = own.exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError:
        raise HpkeError(reason=f"the key must be {KEY_BYTES} bytes of a point that is not of small order") from None
    return _expand(_KEM_SUITE, _extract(_KEM_SUITE, b"", b"eae_prk", exchanged), b"shared_secret", context, _HASH_BYTES)


def _extract(suite: bytes, salt: bytes, label: bytes, material: bytes) -> bytes:
    """Return LabeledExtract: HKDF-Extract of RFC 5869."""
    return hmac.digest(salt or bytes(_HASH_BYTES), b"HPKE-v1" + suite + label + material, hashlib.sha256)


def _expand(suite: bytes, key: bytes, label: bytes, context: bytes, size_bytes: int) -> bytes:
    """Return LabeledExpand of at most one hash: HKDF-Expand of RFC 5869."""
    info = size_bytes.to_bytes(2, "big") + b"HPKE-v1" + suite + label + context
    return hmac.digest(key, info + b"\x01", hashlib.sha256)[:size_bytes]


@lru_cache(maxsize=8)
def _read_pair(private_key: bytes) -> tuple[X25519PrivateKey, bytes]:
    """Return a private key and its public one, kept for the next message: deriving it is a third of opening one."""
    try:
        own = X25519PrivateKey.from_private_bytes(private_key)
    except ValueError:
        raise HpkeError(reason=f"a private key must be {KEY_BYTES} bytes, not {len(private_key)}") from None
    return own, own.public_key().public_bytes_raw()
