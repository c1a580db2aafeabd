"""Provides the messages of Privacy Pass for tokens of type 2, blind RSA with 2048 bits, and what each party does.

Source: RFC 9577, section 2 (challenge and token); RFC 9578, section 6 (issuance by RSABSSA-SHA384-PSS-Deterministic).
"""

import hashlib
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from alcove.privacy.entropy import Entropy
from alcove.privacy.errors import (
    ParameterError,
    TokenIssuanceError,
    TokenKeyError,
    TokenMessageError,
    TokenVerificationError,
)
from alcove.privacy.presentation import U8, U64, Fixed, Nested, Opaque, Reader, Structure, Unsigned
from alcove.privacy.tokens import blind_rsa
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey, RSAPublicNumbers

TOKEN_TYPE: Final = 0x0002
"""Blind RSA (2048-bit), in the registry of token types."""

KEY_BITS: Final = 2048
"""Size of an issuer's modulus, which the type of the token fixes."""

SIGNATURE_BYTES: Final = KEY_BITS // 8
"""Size of blinded messages and of signatures, as long as the modulus."""

DIGEST_BYTES: Final = 32
"""Size of nonces, digests and redemption contexts."""

_CONTEXT_LABEL: Final = b"alcove token 1"
"""Keeps digests of tasks and windows apart from all others."""

# The algorithm is id-RSASSA-PSS with SHA-384, MGF1 with SHA-384 and a salt of 48 bytes; as size and exponent are fixed,
# keys differ in the modulus alone.
_KEY_HEAD: Final = bytes.fromhex(
    "30820152303d06092a864886f70d01010a3030a00d300b0609608648016503040202a11a301806092a864886f70d010108300b06096086480165"
    "03040202a2030201300382010f003082010a0282010100"
)
_KEY_TAIL: Final = bytes.fromhex("0203010001")


class _TokenType(Unsigned):
    """The number of the type of token; another is refused."""

    def read(self, reader: Reader, field: str) -> int:
        """Return the number."""
        number = super().read(reader, field)
        if number != TOKEN_TYPE:
            raise reader.refuse(field, f"{number} is not {TOKEN_TYPE}")
        return number


class _Context(Opaque):
    """A redemption context, which is empty or has one size."""

    def write(self, value: Any, field: str) -> bytes:
        """Return length and bytes."""
        if len(value) not in (0, DIGEST_BYTES):
            raise ParameterError(name=field, bound=f"0 or {DIGEST_BYTES} bytes", value=len(value))
        return super().write(value, field)

    def read(self, reader: Reader, field: str) -> bytes:
        """Return the bytes."""
        value = super().read(reader, field)
        if len(value) not in (0, DIGEST_BYTES):
            raise reader.refuse(field, f"it has {len(value)} bytes, not 0 or {DIGEST_BYTES}")
        return value


TokenType = Annotated[int, _TokenType(2)]
Digest = Annotated[bytes, Fixed(DIGEST_BYTES)]
Signature = Annotated[bytes, Fixed(SIGNATURE_BYTES)]


class TokenStructure(Structure):
    """A structure of Privacy Pass."""

    message_error = TokenMessageError


@dataclass(frozen=True)
class TokenChallenge(TokenStructure):
    """What tokens are asked for; a token serves for the challenge that it was made for, and for no other."""

    token_type: TokenType = field(default=TOKEN_TYPE, kw_only=True)
    issuer_name: Annotated[bytes, Opaque(2, 1)]
    redemption_context: Annotated[bytes, _Context(1)]
    origin_info: Annotated[bytes, Opaque(2)]

    @property
    def digest(self) -> bytes:
        """By which tokens name the challenge."""
        return hashlib.sha256(self.to_bytes()).digest()


@dataclass(frozen=True)
class TokenRequest(TokenStructure):
    """What a device asks the issuer for."""

    token_type: TokenType = field(default=TOKEN_TYPE, kw_only=True)
    truncated_token_key_id: Annotated[int, U8]
    blinded_message: Signature


@dataclass(frozen=True)
class TokenResponse(TokenStructure):
    """What the issuer answers."""

    blind_signature: Signature


@dataclass(frozen=True)
class AuthenticatorInput(TokenStructure):
    """What is signed of a token."""

    token_type: TokenType = field(default=TOKEN_TYPE, kw_only=True)
    nonce: Digest
    challenge_digest: Digest
    token_key_id: Digest


@dataclass(frozen=True)
class Token(TokenStructure):
    """The right to be counted once."""

    input: Annotated[AuthenticatorInput, Nested(AuthenticatorInput)]
    authenticator: Signature


@dataclass(frozen=True)
class PendingToken(TokenStructure):
    """What a device keeps, and sends to nobody, between request and answer; if that is lost, it sends the same request.

    With it the issuer could recognize the token.
    """

    input: Annotated[AuthenticatorInput, Nested(AuthenticatorInput)]
    blinded_message: Signature
    inverse: Signature

    @property
    def request(self) -> TokenRequest:
        """What is sent to the issuer; of the key's id one byte, so that the id cannot mark a device."""
        return TokenRequest(self.input.token_key_id[-1], self.blinded_message)


class TokenKey:
    """An issuer's public key.

    Attributes:
        public_key: for `blind_rsa`.
        encoded: the key as others have it: SubjectPublicKeyInfo of id-RSASSA-PSS.
        key_id: the digest of that.

    Raises:
        TokenKeyError: it has another size or another exponent.
    """

    def __init__(self, public_key: RSAPublicKey) -> None:
        numbers = public_key.public_numbers()
        if public_key.key_size != KEY_BITS or numbers.e != blind_rsa.EXPONENT:
            found = f"not {public_key.key_size} with {numbers.e}"
            raise TokenKeyError(reason=f"it has {KEY_BITS} bits and the exponent {blind_rsa.EXPONENT}, {found}")
        self.public_key = public_key
        self.encoded = _KEY_HEAD + numbers.n.to_bytes(SIGNATURE_BYTES, "big") + _KEY_TAIL
        self.key_id = hashlib.sha256(self.encoded).digest()

    @classmethod
    def from_bytes(cls, encoded: bytes) -> "TokenKey":
        """Return the key of which these are all bytes.

        Raises:
            TokenKeyError: they are none of the one form that such keys have.
        """
        modulus = encoded[len(_KEY_HEAD) : -len(_KEY_TAIL)]
        is_framed = encoded == _KEY_HEAD + modulus + _KEY_TAIL and len(modulus) == SIGNATURE_BYTES
        if not is_framed or not modulus[0] & 0x80 or not modulus[-1] & 1:
            raise TokenKeyError(reason=f"{len(encoded)} bytes are no RSASSA-PSS key of {KEY_BITS} bits with SHA-384")
        return cls(RSAPublicNumbers(blind_rsa.EXPONENT, int.from_bytes(modulus, "big")).public_key())


class Issuer:
    """A private key that makes tokens; it must serve for nothing else.

    Args:
        private_key: the key.
        entropy: source of what hides the numbers that are signed.
        arithmetic: computes.

    Attributes:
        key: the public key, which devices and aggregators need.

    Raises:
        TokenKeyError: the key has another size or another exponent.
    """

    def __init__(
        self, private_key: RSAPrivateKey, entropy: Entropy, arithmetic: blind_rsa.Arithmetic = blind_rsa.PYTHON
    ) -> None:
        self.key = TokenKey(private_key.public_key())
        self._signer = blind_rsa.BlindSigner(private_key, entropy, arithmetic)

    def issue(self, request: TokenRequest) -> TokenResponse:
        """Return the answer to the request of a device that may have a token; the same for the same request.

        Raises:
            TokenIssuanceError: the request is for another key, or nothing that can be signed; or signing failed.
        """
        self.check(request)
        return TokenResponse(self._signer.sign(request.blinded_message))

    def check(self, request: TokenRequest) -> None:
        """Return if the request can be answered.

        Raises:
            TokenIssuanceError: it is for another key, or nothing that can be signed.
        """
        if request.truncated_token_key_id != self.key.key_id[-1]:
            raise TokenIssuanceError(step="issue", reason="the request is for another key")
        self._signer.check(request.blinded_message)


def make_challenge(issuer_name: bytes, task_id: bytes, window: int) -> TokenChallenge:
    """Return the challenge for a report's token: a token serves for one task and one window.

    Device and aggregators make it each for itself; nobody sends it.

    Args:
        issuer_name: of the issuer that the task names.
        task_id: of the task, `DIGEST_BYTES` bytes.
        window: number of the window.

    Raises:
        ParameterError: an argument has another size.
    """
    scope = Fixed(DIGEST_BYTES).write(task_id, "task_id") + U64.write(window, "window")
    context = hashlib.sha256(_CONTEXT_LABEL + scope).digest()
    return TokenChallenge(issuer_name, context, b"")


def request_token(
    challenge: TokenChallenge,
    key: TokenKey,
    entropy: Entropy,
    nonce: bytes | None = None,
    arithmetic: blind_rsa.Arithmetic = blind_rsa.PYTHON,
) -> PendingToken:
    """Return what a device keeps of a new token; its `request` is for the issuer.

    Args:
        challenge: what the token is for.
        key: the issuer's for that.
        entropy: source of the blinding and of the nonce.
        nonce: digest of a random secret, `DIGEST_BYTES` bytes; None: random.
        arithmetic: computes.

    Raises:
        ParameterError: a field of the challenge is out of its bound.
        TokenKeyError: the key's modulus has a factor that was met by chance.
    """
    if nonce is None:
        nonce = entropy.random_bytes(DIGEST_BYTES)
    signed = AuthenticatorInput(nonce, challenge.digest, key.key_id)
    blinding = blind_rsa.blind(key.public_key, signed.to_bytes(), entropy, arithmetic=arithmetic)
    return PendingToken(signed, blinding.blinded_message, blinding.inverse.to_bytes(SIGNATURE_BYTES, "big"))


def finish_token(pending: PendingToken, response: TokenResponse, key: TokenKey) -> Token:
    """Return the token, verified.

    Raises:
        TokenIssuanceError: the answer is none to this request by this key.
    """
    signature = blind_rsa.finalize(
        key.public_key, pending.input.to_bytes(), response.blind_signature, int.from_bytes(pending.inverse, "big")
    )
    return Token(pending.input, signature)


def verify_token(token: Token, challenge_digest: bytes, key: TokenKey) -> None:
    """Return if the issuer made this token for this challenge; whether it was spent before is the caller's to know.

    Raises:
        TokenVerificationError: it did not.
    """
    if token.input.challenge_digest != challenge_digest:
        raise TokenVerificationError(check="challenge", reason="it was made for another challenge")
    if token.input.token_key_id != key.key_id:
        raise TokenVerificationError(check="key", reason="it was made with another key")
    blind_rsa.verify(key.public_key, token.input.to_bytes(), token.authenticator)
