"""Makes RSA signatures of messages that the signer does not see: RSABSSA with SHA-384 and PSS.

    blinding = blind(public_key, message, entropy)                                        # client
    blind_signature = BlindSigner(private_key, entropy).sign(blinding.blinded_message)    # signer
    signature = finalize(public_key, message, blind_signature, blinding.inverse)          # client
    verify(public_key, message, signature)                                                # anyone

The four named variants: a salt of 48 bytes (PSS) or of none (PSSZERO); the message as it is (Deterministic), if the
signer cannot guess it, or with a random prefix by `prepare_randomized` (Randomized).

Arithmetic is Python's unless another is given (`Arithmetic`). Python's is not constant in time. The signer therefore
raises to its private exponent only numbers that it multiplied by a random one of its own, so that the time of an answer
says nothing about the number, which the client chose. Who can observe the signer's processor from the same machine may
still learn of the exponent: a signer with this arithmetic does not share its machine. A client's arithmetic uses its
secrets once, at a moment that the signer does not choose.

Source: RFC 9474; EMSA-PSS-ENCODE and MGF1: RFC 8017, sections 9.1.1 and B.2.1; blinding of the private operation:
Kocher, "Timing Attacks on Implementations of Diffie-Hellman, RSA, DSS, and Other Systems", section 10.
"""

import hashlib
import math
from dataclasses import dataclass
from typing import Final, Protocol

from alcove.privacy.entropy import Entropy
from alcove.privacy.errors import TokenIssuanceError, TokenKeyError, TokenVerificationError
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA384

SALT_BYTES: Final = 48
"""Size of the salt of PSS: that of the hash; 0 in the variants PSSZERO."""

PREFIX_BYTES: Final = 32
"""Size of the random prefix of a randomized message."""

EXPONENT: Final = 65537
"""The one public exponent; a large one would make every verification slow, a small one is weaker."""

KEY_BITS: Final = (2048, 3072, 4096)
"""Sizes of a key's modulus: smaller ones are weak, larger ones slow."""

_HASH_BYTES: Final = 48


class Arithmetic(Protocol):
    """Modular arithmetic of large numbers."""

    def power(self, base: int, exponent: int, modulus: int) -> int:
        """Return a power of public numbers."""
        ...

    def secret_power(self, base: int, exponent: int, modulus: int) -> int:
        """Return a power with a secret exponent, modulo a secret odd number."""
        ...

    def invert(self, number: int, modulus: int) -> int:
        """Return the inverse of a number that has one."""
        ...


class PythonArithmetic:
    """Python's own arithmetic, slow and not constant in time."""

    def power(self, base: int, exponent: int, modulus: int) -> int:
        """Return a power."""
        return pow(base, exponent, modulus)

    secret_power = power

    def invert(self, number: int, modulus: int) -> int:
        """Return the inverse of a number that has one."""
        return pow(number, -1, modulus)


PYTHON: Final[Arithmetic] = PythonArithmetic()


@dataclass(frozen=True)
class Blinding:
    """A blinded message.

    Attributes:
        blinded_message: what the signer signs; as long as the modulus.
        inverse: undoes the blinding; with it the signer could recognize the signature, so it stays with the client.
    """

    blinded_message: bytes
    inverse: int


def prepare_randomized(message: bytes, entropy: Entropy) -> bytes:
    """Return the message behind random bytes, which the signer cannot guess; this is what is signed."""
    return entropy.random_bytes(PREFIX_BYTES) + message


def blind(
    public_key: RSAPublicKey,
    message: bytes,
    entropy: Entropy,
    salt_bytes: int = SALT_BYTES,
    arithmetic: Arithmetic = PYTHON,
) -> Blinding:
    """Return a message, encoded and multiplied by a random number, so that each blinded message is equally likely.

    Args:
        public_key: the signer's.
        message: what is to be signed, prepared; the signer must not be able to guess it.
        entropy: source of the salt and of the blinding factor.
        salt_bytes: 48 or 0, as the variant has it.
        arithmetic: computes.

    Raises:
        TokenKeyError: the key is out of the bounds of this module, or its modulus has a factor that was met by chance.
    """
    modulus = _check_key(public_key)
    encoded = int.from_bytes(encode_pss(message, entropy.random_bytes(salt_bytes), _size_bytes(modulus)), "big")
    if math.gcd(encoded, modulus) != 1:
        raise TokenKeyError(reason="its modulus has a common factor with a message")
    factor, inverse = _draw_unit(modulus, entropy, arithmetic)
    blinded = encoded * arithmetic.power(factor, EXPONENT, modulus) % modulus
    return Blinding(blinded.to_bytes(_size_bytes(modulus), "big"), inverse)


class BlindSigner:
    """A private key that signs blinded messages; it must serve for nothing else.

    Args:
        private_key: the key.
        entropy: source of the numbers that hide what is raised to the private exponent.
        arithmetic: computes.

    Raises:
        TokenKeyError: the key is out of the bounds of this module.
    """

    def __init__(self, private_key: RSAPrivateKey, entropy: Entropy, arithmetic: Arithmetic = PYTHON) -> None:
        self._arithmetic = arithmetic
        self._modulus = _check_key(private_key.public_key())
        self._numbers = private_key.private_numbers()
        self._entropy = entropy

    def sign(self, blinded_message: bytes) -> bytes:
        """Return the blind signature, as long as the modulus; the same for the same message.

        It is verified before it is released: a wrong one, made by a fault of the machine, would give the key away.

        Raises:
            TokenIssuanceError: the message is not a number below the modulus, of its size; or the signature is wrong.
        """
        message = self.check(blinded_message)
        factor, inverse = _draw_unit(self._modulus, self._entropy, self._arithmetic)
        hidden = message * self._arithmetic.power(factor, EXPONENT, self._modulus) % self._modulus
        signature = self._raise_to_private_exponent(hidden) * inverse % self._modulus
        if self._arithmetic.power(signature, EXPONENT, self._modulus) != message:
            raise TokenIssuanceError(step="sign", reason="the private operation failed; its result is not released")
        return signature.to_bytes(_size_bytes(self._modulus), "big")

    def check(self, blinded_message: bytes) -> int:
        """Return the number that would be signed.

        Raises:
            TokenIssuanceError: the message is not a number below the modulus, of its size.
        """
        size = _size_bytes(self._modulus)
        message = int.from_bytes(blinded_message, "big")
        if len(blinded_message) != size or message >= self._modulus:
            raise TokenIssuanceError(
                step="sign", reason=f"a blinded message is {size} bytes of a number below the modulus"
            )
        return message

    def _raise_to_private_exponent(self, number: int) -> int:
        """Return the number to the private exponent, by the primes apart (Chinese remainder theorem)."""
        key, power = self._numbers, self._arithmetic.secret_power
        by_p, by_q = power(number, key.dmp1, key.p), power(number, key.dmq1, key.q)
        return by_q + key.q * ((by_p - by_q) * key.iqmp % key.p)


def finalize(
    public_key: RSAPublicKey, message: bytes, blind_signature: bytes, inverse: int, salt_bytes: int = SALT_BYTES
) -> bytes:
    """Return the signature of the message, verified.

    Args:
        public_key: as given to `blind`.
        message: as given to `blind`.
        blind_signature: the signer's answer.
        inverse: of the blinding.
        salt_bytes: as given to `blind`.

    Raises:
        TokenKeyError: the key is out of the bounds of this module.
        TokenIssuanceError: the answer is no signature of what was blinded.
    """
    modulus = _check_key(public_key)
    size = _size_bytes(modulus)
    if len(blind_signature) != size:
        raise TokenIssuanceError(
            step="finalize", reason=f"a blind signature is {size} bytes, not {len(blind_signature)}"
        )
    signature = (int.from_bytes(blind_signature, "big") * inverse % modulus).to_bytes(size, "big")
    try:
        verify(public_key, message, signature, salt_bytes)
    except TokenVerificationError:
        raise TokenIssuanceError(step="finalize", reason="the answer is no signature of the message") from None
    return signature


def verify(public_key: RSAPublicKey, message: bytes, signature: bytes, salt_bytes: int = SALT_BYTES) -> None:
    """Return if this is a signature of the prepared message.

    Raises:
        TokenKeyError: the key is out of the bounds of this module.
        TokenVerificationError: it is none.
    """
    _check_key(public_key)
    try:
        public_key.verify(signature, message, PSS(MGF1(SHA384()), salt_bytes), SHA384())
    except InvalidSignature:
        raise TokenVerificationError(check="signature", reason="it is none by this key of this message") from None


def encode_pss(message: bytes, salt: bytes, size_bytes: int) -> bytes:
    """Return EMSA-PSS-ENCODE of a message, one bit shorter than a modulus of `size_bytes` whole bytes."""
    digest = hashlib.sha384(bytes(8) + hashlib.sha384(message).digest() + salt).digest()
    block = (b"\x01" + salt).rjust(size_bytes - _HASH_BYTES - 1, b"\x00")
    rounds = range(-(-len(block) // _HASH_BYTES))
    mask = b"".join(hashlib.sha384(digest + number.to_bytes(4, "big")).digest() for number in rounds)
    masked = bytes(one ^ other for one, other in zip(block, mask, strict=False))
    return bytes([masked[0] & 0x7F]) + masked[1:] + digest + b"\xbc"


def _check_key(public_key: RSAPublicKey) -> int:
    """Return the modulus of a key within the bounds."""
    numbers = public_key.public_numbers()
    if public_key.key_size not in KEY_BITS or numbers.e != EXPONENT:
        found = f"not {public_key.key_size} bits with exponent {numbers.e}"
        raise TokenKeyError(reason=f"a key has {KEY_BITS} bits and the exponent {EXPONENT}, {found}")
    return numbers.n


def _size_bytes(modulus: int) -> int:
    return modulus.bit_length() // 8


def _draw_unit(modulus: int, entropy: Entropy, arithmetic: Arithmetic) -> tuple[int, int]:
    """Return a uniform number that has an inverse modulo the modulus, and the inverse."""
    while True:
        number = int.from_bytes(entropy.random_bytes(_size_bytes(modulus)), "big")
        if number < modulus and math.gcd(number, modulus) == 1:
            return number, arithmetic.invert(number, modulus)
