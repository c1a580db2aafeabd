"""Provides the messages by which a device enrolls at an issuer of tokens and asks it for them.

    challenge ─▶ platform evidence over `attested_digest` ─▶ EnrollmentRequest ─▶ enrolled
    TokenOrder, signed by the enrolled key ─▶ TokenResponse

The enrolled key is made for this alone. It tells the issuer which installation asks, and nobody else sees it.
"""

import hashlib
from dataclasses import dataclass
from typing import Annotated, Final

from alcove.privacy.errors import TokenVerificationError
from alcove.privacy.presentation import U64, Fixed, Nested, Opaque
from alcove.privacy.tokens.privacy_pass import DIGEST_BYTES, TokenRequest, TokenStructure
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

PUBLIC_KEY_BYTES: Final = 32
"""Size of an enrolled key, Ed25519."""

MAX_EVIDENCE_BYTES: Final = 16_384
"""What a platform may send; App Attest and Play Integrity send 2 to 6 kB."""

_ATTESTED: Final = b"alcove enrollment 1"
_ORDERED: Final = b"alcove token order 1"


@dataclass(frozen=True)
class EnrollmentRequest(TokenStructure):
    """What a device sends to be enrolled.

    Attributes:
        challenge: the issuer's.
        public_key: that the device made for its enrollment.
        evidence: of its platform, over `attested_digest`.
    """

    challenge: Annotated[bytes, Opaque(1, 1)]
    public_key: Annotated[bytes, Fixed(PUBLIC_KEY_BYTES)]
    evidence: Annotated[bytes, Opaque(2)]

    def digest(self, issuer_name: bytes) -> bytes:
        """Return what the evidence is about, at an issuer."""
        return attested_digest(issuer_name, self.challenge, self.public_key)


@dataclass(frozen=True)
class TokenOrder(TokenStructure):
    """A request for a token, by the enrolled device that it is for.

    Attributes:
        public_key: the enrolled one.
        request: blinded.
        signature: of the order by that key.
    """

    public_key: Annotated[bytes, Fixed(PUBLIC_KEY_BYTES)]
    request: Annotated[TokenRequest, Nested(TokenRequest)]
    signature: Annotated[bytes, Fixed(64)]


def attested_digest(issuer_name: bytes, challenge: bytes, public_key: bytes) -> bytes:
    """Return the 32 bytes that a platform's evidence is about: the issuer, its challenge and the device's key."""
    scope = Opaque(2).write(issuer_name, "issuer_name") + Opaque(1).write(challenge, "challenge")
    return hashlib.sha256(_ATTESTED + scope + public_key).digest()


def sign_order(
    private_key: Ed25519PrivateKey, issuer_name: bytes, task_id: bytes, time: int, request: TokenRequest
) -> TokenOrder:
    """Return the order of an enrolled device for a token of a task and time."""
    message = _encode_order(issuer_name, task_id, time, request)
    return TokenOrder(private_key.public_key().public_bytes_raw(), request, private_key.sign(message))


def verify_order(order: TokenOrder, issuer_name: bytes, task_id: bytes, time: int) -> None:
    """Return if the order is signed by its key, for this issuer, task and time.

    Raises:
        TokenVerificationError: it is not.
    """
    message = _encode_order(issuer_name, task_id, time, order.request)
    try:
        Ed25519PublicKey.from_public_bytes(order.public_key).verify(order.signature, message)
    except (InvalidSignature, ValueError):
        raise TokenVerificationError(check="order", reason="it is not signed by its key") from None


def _encode_order(issuer_name: bytes, task_id: bytes, time: int, request: TokenRequest) -> bytes:
    task = Fixed(DIGEST_BYTES).write(task_id, "task_id") + U64.write(time, "time")
    return _ORDERED + Opaque(2).write(issuer_name, "issuer_name") + task + request.to_bytes()
