"""Encapsulates a request so that a relay passes it on without reading it, and the gateway without knowing the sender.

    client ── sealed to the gateway's key ──▶ relay ── the same bytes ──▶ gateway ── binary HTTP ──▶ resource
           ◀── sealed to a secret of both ───       ◀──────────────────          ◀──────────────

The relay sees the client's address and sizes, the gateway the request and the relay's address. Whoever runs both sees
all. The HTTP message inside is `binary_http.py`.

Source: RFC 9458, sections 3, 4 and 5; test vector of its appendix A.
"""

import contextlib
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from alcove.privacy import hpke
from alcove.privacy.entropy import Entropy, OsEntropy
from alcove.privacy.errors import HpkeError, ObliviousKeyError, ObliviousMessageError
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = [
    "KEYS_TYPE",
    "REQUEST_TYPE",
    "RESPONSE_TYPE",
    "KeyConfig",
    "ResponseOpener",
    "ResponseSealer",
    "open_request",
    "read_key_configs",
    "seal_request",
    "write_key_configs",
]

KEYS_TYPE: Final = "application/ohttp-keys"
REQUEST_TYPE: Final = "message/ohttp-req"
RESPONSE_TYPE: Final = "message/ohttp-res"

_SUITE: Final = b"".join(number.to_bytes(2, "big") for number in (hpke.KDF_ID, hpke.AEAD_ID))
_KEM: Final = hpke.KEM_ID.to_bytes(2, "big")
_HEADER_BYTES: Final = 7
_RESPONSE_NONCE_BYTES: Final = max(hpke.AEAD_KEY_BYTES, hpke.NONCE_BYTES)
_EXPORT: Final = b"message/bhttp response"


@dataclass(frozen=True)
class KeyConfig:
    """A gateway's public key, of the one suite that is known here.

    Attributes:
        key_id: in [0, 255].
        public_key: of X25519, 32 bytes.
    """

    key_id: int
    public_key: bytes

    def to_bytes(self) -> bytes:
        """Return the key configuration (section 3.1)."""
        return bytes([self.key_id]) + _KEM + self.public_key + len(_SUITE).to_bytes(2, "big") + _SUITE

    @classmethod
    def from_bytes(cls, encoded: bytes) -> "KeyConfig":
        """Return the key of a configuration.

        Raises:
            ObliviousMessageError: it is none, or of other algorithms.
        """
        suites_at = 3 + hpke.KEY_BYTES + 2
        size = int.from_bytes(encoded[suites_at - 2 : suites_at], "big")
        suites = encoded[suites_at:]
        is_sized = len(encoded) > suites_at and size == len(suites) and size % len(_SUITE) == 0
        each = [suites[at : at + len(_SUITE)] for at in range(0, len(suites), len(_SUITE))]
        if not is_sized or encoded[1:3] != _KEM or _SUITE not in each:
            reason = "none of X25519, HKDF-SHA256 and AES-128-GCM"
            raise ObliviousMessageError("KeyConfig", "algorithms", reason)
        return cls(encoded[0], encoded[3 : 3 + hpke.KEY_BYTES])


def write_key_configs(configs: list[KeyConfig]) -> bytes:
    """Return a document of type application/ohttp-keys, the preferred key first."""
    return b"".join(len(each).to_bytes(2, "big") + each for each in (config.to_bytes() for config in configs))


def read_key_configs(encoded: bytes) -> KeyConfig:
    """Return the first key of a document that is of the algorithms known here.

    Raises:
        ObliviousMessageError: it is no such document, or has no such key.
    """
    at, found = 0, None
    while at < len(encoded):
        end = at + 2 + int.from_bytes(encoded[at : at + 2], "big")
        if end > len(encoded):
            raise ObliviousMessageError("KeyConfigs", "length", f"{end} bytes are announced, there are {len(encoded)}")
        with contextlib.suppress(ObliviousMessageError):  # of other algorithms: the next may not be
            found = found or KeyConfig.from_bytes(encoded[at + 2 : end])
        at = end
    if found is None:
        raise ObliviousMessageError("KeyConfigs", "algorithms", "none of X25519, HKDF-SHA256 and AES-128-GCM")
    return found


class ResponseOpener:
    """Opens the one response to a request.

    Args:
        encapsulated: the request's encapsulated key.
        secret: exported from the request's context.
    """

    def __init__(self, encapsulated: bytes, secret: bytes) -> None:
        self._encapsulated = encapsulated
        self._secret = secret

    def open(self, response: bytes) -> bytes:
        """Return the HTTP message of an encapsulated response.

        Raises:
            ObliviousMessageError: it is no response to this request, or was changed.
        """
        nonce, ciphertext = response[:_RESPONSE_NONCE_BYTES], response[_RESPONSE_NONCE_BYTES:]
        key, aead_nonce = _derive_response_key(self._secret, self._encapsulated, nonce)
        try:
            return AESGCM(key).decrypt(aead_nonce, ciphertext, b"")
        except (InvalidTag, ValueError):
            raise ObliviousMessageError("EncapsulatedResponse", "ciphertext", "it is not of this request") from None


class ResponseSealer(ResponseOpener):
    """Seals the one response to a request, at the gateway."""

    def seal(self, response: bytes, entropy: Entropy | None = None) -> bytes:
        """Return the encapsulated response of an HTTP message."""
        nonce = (entropy or OsEntropy()).random_bytes(_RESPONSE_NONCE_BYTES)
        key, aead_nonce = _derive_response_key(self._secret, self._encapsulated, nonce)
        return nonce + AESGCM(key).encrypt(aead_nonce, response, b"")


def seal_request(
    config: KeyConfig, request: bytes, ephemeral: X25519PrivateKey | None = None
) -> tuple[bytes, ResponseOpener]:
    """Return the encapsulated request of an HTTP message, and what opens its response.

    Args:
        config: of the gateway.
        request: binary HTTP.
        ephemeral: for test vectors; never used again.

    Raises:
        HpkeError: the key is none.
    """
    header = bytes([config.key_id]) + _KEM + _SUITE
    encapsulated, ciphertext, secret = hpke.seal_and_export(
        ephemeral or X25519PrivateKey.generate(), config.public_key, _make_info(header), request, _EXPORT
    )
    return header + encapsulated + ciphertext, ResponseOpener(encapsulated, secret)


def open_request(keys: Mapping[int, bytes], request: bytes) -> tuple[bytes, ResponseSealer]:
    """Return the HTTP message of an encapsulated request, and what seals its response.

    Args:
        keys: the gateway's private keys by id.
        request: as the relay passed it on.

    Raises:
        ObliviousKeyError: it is for no such key, or of other algorithms.
        ObliviousMessageError: it is none, or was changed.
    """
    header, rest = request[:_HEADER_BYTES], request[_HEADER_BYTES:]
    encapsulated, ciphertext = rest[: hpke.KEY_BYTES], rest[hpke.KEY_BYTES :]
    if len(ciphertext) < hpke.TAG_BYTES:
        least = _HEADER_BYTES + hpke.KEY_BYTES + hpke.TAG_BYTES
        raise ObliviousMessageError("EncapsulatedRequest", "size", f"at least {least} bytes, not {len(request)}")
    private_key = keys.get(header[0])
    if private_key is None or header[1:] != _KEM + _SUITE:
        raise ObliviousKeyError("EncapsulatedRequest", "key_id", f"no key has the id {header[0]} and these algorithms")
    try:
        message, secret = hpke.open_and_export(private_key, encapsulated, _make_info(header), ciphertext, _EXPORT)
    except HpkeError as error:
        raise ObliviousMessageError("EncapsulatedRequest", "ciphertext", error.reason) from None
    return message, ResponseSealer(encapsulated, secret)


def _make_info(header: bytes) -> bytes:
    return b"message/bhttp request\x00" + header


def _derive_response_key(secret: bytes, encapsulated: bytes, nonce: bytes) -> tuple[bytes, bytes]:
    """Return the AEAD's key and nonce of a response (section 4.4): HKDF of RFC 5869, one block each."""
    extracted = hmac.digest(encapsulated + nonce, secret, hashlib.sha256)
    key, aead_nonce = (hmac.digest(extracted, label + b"\x01", hashlib.sha256) for label in (b"key", b"nonce"))
    return key[: hpke.AEAD_KEY_BYTES], aead_nonce[: hpke.NONCE_BYTES]
