"""Tokens are those of the published vectors; no other is accepted, and the issuer cannot say whose one is.

Sources: `vectors/rfc9577.json`, the structures' vectors of RFC 9577, appendix A.1; `vectors/rfc9578.json`, RFC 9578,
appendix B.2.
"""

import hashlib
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from alcove.privacy import OsEntropy, ParameterError
from alcove.privacy.errors import (
    TokenError,
    TokenIssuanceError,
    TokenKeyError,
    TokenMessageError,
    TokenVerificationError,
)
from alcove.privacy.presentation import Structure
from alcove.privacy.tokens import (
    Issuer,
    PendingToken,
    Token,
    TokenChallenge,
    TokenKey,
    TokenRequest,
    TokenResponse,
    finish_token,
    make_challenge,
    request_token,
    verify_token,
)
from alcove.privacy.tokens.blind_rsa import encode_pss
from alcove.privacy.tokens.privacy_pass import TOKEN_TYPE, AuthenticatorInput
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey, RSAPublicNumbers
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_private_key
from hypothesis import given
from hypothesis import strategies as st

from tests.privacy.tokens.keys import ScriptedEntropy, Vector, make_private_key, read_vectors

ISSUANCES = read_vectors("rfc9578.json")
STRUCTURES = read_vectors("rfc9577.json")
TASK = b"\x11" * 32


def read_private_key(vector: Vector) -> RSAPrivateKey:
    """Return the issuer's key of a vector."""
    key = load_pem_private_key(bytes.fromhex(vector["skS"]), password=None)
    assert isinstance(key, RSAPrivateKey)
    return key


PRIVATE_KEY = read_private_key(ISSUANCES[0])
ISSUER = Issuer(PRIVATE_KEY, OsEntropy())
OTHER_ISSUER = Issuer(make_private_key(read_vectors("rfc9474.json")[4]), OsEntropy())
MODULUS = ISSUER.key.public_key.public_numbers().n
CHALLENGE = make_challenge(b"issuer.example", TASK, 7)
PENDING = request_token(CHALLENGE, ISSUER.key, OsEntropy())
RESPONSE = ISSUER.issue(PENDING.request)
TOKEN = finish_token(PENDING, RESPONSE, ISSUER.key)


@pytest.mark.parametrize("vector", ISSUANCES, ids=lambda vector: vector["nonce"][:4])
def test_issuance_gives_the_published_bytes(vector: Vector) -> None:
    """Key, id of the key, challenge, request, response and token; the token is verified."""
    found = {name: bytes.fromhex(value) for name, value in vector.items()}
    issuer = Issuer(read_private_key(vector), OsEntropy())
    assert issuer.key.encoded == found["pkS"]
    key = TokenKey.from_bytes(found["pkS"])
    challenge = TokenChallenge.from_bytes(found["token_challenge"])
    assert challenge.to_bytes() == found["token_challenge"]
    pending = request_token(challenge, key, ScriptedEntropy(found["nonce"], found["salt"], found["blind"]))
    assert pending.request.to_bytes() == found["token_request"]
    response = issuer.issue(TokenRequest.from_bytes(found["token_request"]))
    assert response.to_bytes() == found["token_response"]
    assert finish_token(pending, response, key).to_bytes() == found["token"]
    verify_token(Token.from_bytes(found["token"]), challenge.digest, key)


@pytest.mark.parametrize("vector", STRUCTURES[:5], ids=range(1, 6))
def test_what_is_signed_has_the_published_bytes(vector: Vector) -> None:
    """From the parts of a challenge to the input of the authenticator."""
    found = {name: bytes.fromhex(value) for name, value in vector.items()}
    challenge = TokenChallenge(found["issuer_name"], found["redemption_context"], found["origin_info"])
    signed = AuthenticatorInput(found["nonce"], challenge.digest, found["token_key_id"])
    assert signed.to_bytes() == found["token_authenticator_input"]
    assert AuthenticatorInput.from_bytes(found["token_authenticator_input"]) == signed


def test_token_of_a_reserved_type_is_refused() -> None:
    """The sixth vector is noise that others may send."""
    with pytest.raises(TokenMessageError, match=r"Token\.token_type: 0 is not 2"):
        Token.from_bytes(bytes.fromhex(STRUCTURES[5]["token_authenticator_input"]))


def test_key_is_read_by_others_and_has_one_form() -> None:
    """The library reads it; each changed byte of its head or tail, another size and an even modulus are refused."""
    encoded = ISSUER.key.encoded
    public_key = load_der_public_key(encoded)
    assert isinstance(public_key, RSAPublicKey)
    assert public_key.public_numbers() == ISSUER.key.public_key.public_numbers()
    assert TokenKey.from_bytes(encoded).key_id == ISSUER.key.key_id
    start = encoded.index(MODULUS.to_bytes(256, "big"))
    for place in [*range(start), *range(start + 256, len(encoded))]:
        changed = bytearray(encoded)
        changed[place] ^= 1
        with pytest.raises(TokenKeyError):
            TokenKey.from_bytes(bytes(changed))
    even = encoded[: start + 255] + b"\x02" + encoded[start + 256 :]
    short = encoded[:start] + b"\x7f" + encoded[start + 1 :]
    tiny = encoded[:start] + (1).to_bytes(256, "big") + encoded[start + 256 :]
    for wrong in (b"", encoded[:-1], encoded + b"\x00", encoded[:start] + encoded[-5:], even, short, tiny):
        with pytest.raises(TokenKeyError):
            TokenKey.from_bytes(wrong)


@pytest.mark.parametrize("numbers", [RSAPublicNumbers(3, MODULUS), RSAPublicNumbers(65537, MODULUS << 1024 | 1)])
def test_key_of_another_size_or_exponent_is_refused(numbers: RSAPublicNumbers) -> None:
    """The token's type says 2048 bits; of the exponents one is taken."""
    with pytest.raises(TokenKeyError, match="2048 bits and the exponent 65537"):
        TokenKey(numbers.public_key())


def test_no_token_with_a_changed_bit_is_accepted() -> None:
    """Each of the 2832 bits: it is no token, or none for this challenge and key, or not signed."""
    encoded = TOKEN.to_bytes()
    verify_token(Token.from_bytes(encoded), CHALLENGE.digest, ISSUER.key)
    for bit in range(8 * len(encoded)):
        changed = bytearray(encoded)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises((TokenMessageError, TokenVerificationError)):
            verify_token(Token.from_bytes(bytes(changed)), CHALLENGE.digest, ISSUER.key)


@pytest.mark.parametrize(
    "other",
    [
        make_challenge(b"issuer.example", TASK, 8),
        make_challenge(b"issuer.example", b"\x12" * 32, 7),
        make_challenge(b"other.example", TASK, 7),
    ],
    ids=["window", "task", "issuer"],
)
def test_token_serves_for_its_challenge_alone(other: TokenChallenge) -> None:
    """Another window, task or issuer; writing the other challenge into the token does not help."""
    with pytest.raises(TokenVerificationError, match="challenge"):
        verify_token(TOKEN, other.digest, ISSUER.key)
    renamed = replace(TOKEN, input=replace(TOKEN.input, challenge_digest=other.digest))
    with pytest.raises(TokenVerificationError, match="signature"):
        verify_token(renamed, other.digest, ISSUER.key)


def test_token_of_another_issuer_is_refused() -> None:
    """By the id of its key, and by its signature if it lies about that."""
    with pytest.raises(TokenVerificationError, match="another key"):
        verify_token(TOKEN, CHALLENGE.digest, OTHER_ISSUER.key)
    lying = AuthenticatorInput(bytes(32), CHALLENGE.digest, ISSUER.key.key_id)
    pending = request_token(CHALLENGE, OTHER_ISSUER.key, OsEntropy())
    forged = Token(lying, finish_token(pending, OTHER_ISSUER.issue(pending.request), OTHER_ISSUER.key).authenticator)
    with pytest.raises(TokenVerificationError, match="signature"):
        verify_token(forged, CHALLENGE.digest, ISSUER.key)


def request_of_both_issuers() -> PendingToken:
    """Return a token asked for of `ISSUER` whose blinded message is below the modulus of both."""
    modulus = OTHER_ISSUER.key.public_key.public_numbers().n
    while True:
        pending = request_token(CHALLENGE, ISSUER.key, OsEntropy())
        if int.from_bytes(pending.request.blinded_message, "big") < modulus:
            return pending


def test_answer_of_another_issuer_or_to_another_request_gives_no_token() -> None:
    """The device verifies before it has a token."""
    other = request_token(CHALLENGE, ISSUER.key, OsEntropy())
    with pytest.raises(TokenIssuanceError, match="another key"):
        OTHER_ISSUER.issue(PENDING.request)
    pending = request_of_both_issuers()
    request = replace(pending.request, truncated_token_key_id=OTHER_ISSUER.key.key_id[-1])
    for response in (ISSUER.issue(other.request), OTHER_ISSUER.issue(request), TokenResponse(bytes(256))):
        with pytest.raises(TokenIssuanceError, match="no signature"):
            finish_token(pending, response, ISSUER.key)
    with pytest.raises(TokenIssuanceError, match="no signature"):
        finish_token(PENDING, RESPONSE, OTHER_ISSUER.key)


def test_lost_answer_is_asked_for_again_and_gives_the_same_token() -> None:
    """What the device keeps survives as bytes; one request is one token, however often it is answered."""
    kept = PendingToken.from_bytes(PENDING.to_bytes())
    assert finish_token(kept, ISSUER.issue(kept.request), ISSUER.key) == TOKEN


# What an issuer could learn: transcripts of issuance, and tokens that are shown later.


def find_factor(request: TokenRequest, response: TokenResponse, token: Token) -> int:
    """Return the one blinding factor by which the token could come from the transcript.

    The blinded message is encoded * factor ** e, the answer is that to the d, and the authenticator is encoded ** d: so
    the factor is their quotient. As x ** e is a bijection of the units, no other gives this blinded message.
    """
    answer = int.from_bytes(response.blind_signature, "big")
    factor = answer * pow(int.from_bytes(token.authenticator, "big"), -1, MODULUS) % MODULUS
    encoded = pow(int.from_bytes(token.authenticator, "big"), 65537, MODULUS)
    assert encoded * pow(factor, 65537, MODULUS) % MODULUS == int.from_bytes(request.blinded_message, "big")
    return factor


def recover_salt(token: Token) -> bytes:
    """Return the salt that anyone finds in a token's signature, by undoing the mask of PSS."""
    encoded = pow(int.from_bytes(token.authenticator, "big"), 65537, MODULUS).to_bytes(256, "big")
    masked, digest = encoded[:-49], encoded[-49:-1]
    mask = mask_from(digest, len(masked))
    salt = bytes(one ^ other for one, other in zip(masked, mask, strict=True))[-48:]
    assert encode_pss(token.input.to_bytes(), salt, 256) == encoded
    return salt


def mask_from(digest: bytes, size: int) -> bytes:
    """Return MGF1."""
    rounds = range(-(-size // 48))
    return b"".join(hashlib.sha384(digest + number.to_bytes(4, "big")).digest() for number in rounds)[:size]


def issue_tokens(draw_factor: Callable[[], bytes], count: int) -> list[tuple[TokenRequest, TokenResponse, Token]]:
    """Return what the issuer sees of some issuances, and their tokens."""
    found = []
    for _ in range(count):
        entropy = ScriptedEntropy(OsEntropy().random_bytes(32), OsEntropy().random_bytes(48), draw_factor())
        pending = request_token(CHALLENGE, ISSUER.key, entropy)
        response = ISSUER.issue(pending.request)
        found.append((pending.request, response, finish_token(pending, response, ISSUER.key)))
    return found


def draw_unit() -> bytes:
    """Return a uniform number below the modulus, as the product draws it."""
    while int.from_bytes(drawn := OsEntropy().random_bytes(256), "big") >= MODULUS:
        pass
    return drawn


def test_every_pairing_of_transcripts_and_tokens_is_equally_likely() -> None:
    """For each pair there is exactly one blinding factor, and with it the device would have sent just that request.

    Factors are uniform among the units, so each pairing of all transcripts with all tokens has the same likelihood.
    """
    numbers = PRIVATE_KEY.private_numbers()
    assert math.gcd(65537, (numbers.p - 1) * (numbers.q - 1)) == 1  # x ** 65537 is a bijection of the units
    seen = issue_tokens(draw_unit, 5)
    for request, response, _ in seen:
        for _, _, token in seen:
            factor = find_factor(request, response, token)
            assert 1 <= factor < MODULUS
            assert math.gcd(factor, MODULUS) == 1
            entropy = ScriptedEntropy(token.input.nonce, recover_salt(token), factor.to_bytes(256, "big"))
            pending = request_token(CHALLENGE, ISSUER.key, entropy)
            assert pending.request == request
            assert finish_token(pending, response, ISSUER.key) == token


def test_small_blinding_factors_would_be_linked() -> None:
    """The wrong client with factors of 128 bits is found out: of the pairs the true ones alone have a small factor."""
    seen = issue_tokens(lambda: OsEntropy().random_bytes(16).rjust(256, b"\x00"), 4)
    for place, (request, response, _) in enumerate(seen):
        small = [find_factor(request, response, token) < 1 << 128 for _, _, token in seen]
        assert small == [other == place for other in range(4)]


STRUCTURED: list[Structure] = [CHALLENGE, PENDING.request, RESPONSE, TOKEN, TOKEN.input, PENDING]


@pytest.mark.parametrize("message", STRUCTURED, ids=lambda message: type(message).__name__)
def test_bytes_that_are_cut_or_longer_are_no_message(message: Structure) -> None:
    """At every length."""
    encoded = message.to_bytes()
    assert type(message).from_bytes(encoded) == message
    for wrong in [*(encoded[:size] for size in range(len(encoded))), encoded + b"\x00"]:
        with pytest.raises(TokenMessageError):
            type(message).from_bytes(wrong)


@given(encoded=st.binary(max_size=700), kind=st.sampled_from(STRUCTURED))
def test_any_bytes_give_a_message_or_a_typed_error(encoded: bytes, kind: Structure) -> None:
    """And what is read is written as it was."""
    try:
        message = type(kind).from_bytes(encoded)
    except TokenError:
        return
    assert message.to_bytes() == encoded


@pytest.mark.parametrize(
    ("encoded", "reason"),
    [
        ("0001" + "0001" + "69" + "00" + "0000", "token_type: 1 is not 2"),
        ("0002" + "0000" + "00" + "0000", "issuer_name: it has 0 bytes"),
        ("0002" + "0001" + "69" + "1f" + "00" * 31 + "0000", "redemption_context: it has 31 bytes, not 0 or 32"),
        ("0002" + "0001" + "69" + "21" + "00" * 33 + "0000", "redemption_context: it has 33 bytes, not 0 or 32"),
        ("0002" + "0001" + "69" + "00" + "ffff" + "00" * 9, "origin_info: 65535 bytes are announced, 9 are left"),
    ],
)
def test_challenge_out_of_bounds_is_refused_by_field(encoded: str, reason: str) -> None:
    """When it is read; the error names the field."""
    with pytest.raises(TokenMessageError, match=f"TokenChallenge.{reason}"):
        TokenChallenge.from_bytes(bytes.fromhex(encoded))


@pytest.mark.parametrize(
    "challenge",
    [TokenChallenge(b"", b"", b""), TokenChallenge(b"i", bytes(31), b""), TokenChallenge(b"i", b"", bytes(1 << 16))],
)
def test_challenge_out_of_bounds_is_not_written(challenge: TokenChallenge) -> None:
    """When a token is to be requested for it."""
    with pytest.raises(ParameterError):
        request_token(challenge, ISSUER.key, OsEntropy())


@pytest.mark.parametrize(("task_id", "window"), [(TASK[1:], 7), (TASK + b"x", 7), (TASK, -1), (TASK, 1 << 64)])
def test_task_or_window_of_another_size_makes_no_challenge(task_id: bytes, window: int) -> None:
    """Else two of them could have the digest of one."""
    with pytest.raises(ParameterError):
        make_challenge(b"issuer.example", task_id, window)


def test_type_is_part_of_every_message_but_the_answer() -> None:
    """Two bytes in front."""
    for message in (CHALLENGE, PENDING.request, TOKEN, TOKEN.input, PENDING):
        assert message.to_bytes()[:2] == TOKEN_TYPE.to_bytes(2, "big")
