"""Blind RSA signatures are those of the published vectors, and no wrong one is released, unblinded or verified.

Source of `vectors/rfc9474.json`: appendix A of RFC 9474, and one more of the draft's repository with 2048 bits,
cfrg/draft-irtf-cfrg-blind-signatures.
"""

import math
from collections.abc import Iterable

import pytest
from alcove.privacy import OsEntropy
from alcove.privacy.errors import TokenIssuanceError, TokenKeyError, TokenVerificationError
from alcove.privacy.tokens import blind_rsa
from alcove.privacy.tokens.blind_rsa import BlindSigner, blind, encode_pss, finalize, prepare_randomized, verify
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

from tests.privacy.tokens.keys import ScriptedEntropy, Vector, make_private_key, read_vectors

VECTORS = read_vectors("rfc9474.json")


KEY = make_private_key(VECTORS[4])
PUBLIC_KEY = KEY.public_key()
MODULUS = PUBLIC_KEY.public_numbers().n
MESSAGE = b"what the signer does not see"


def flip_every_bit(value: bytes) -> Iterable[bytes]:
    """Give the value with each of its bits changed."""
    number = int.from_bytes(value, "big")
    return ((number ^ 1 << bit).to_bytes(len(value), "big") for bit in range(8 * len(value)))


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['name']}-{4 * len(vector['n'])}")
def test_every_step_gives_the_published_bytes(vector: Vector) -> None:
    """Prepare, encode, blind, sign and finalize, each by what the vector has before it."""
    found = {name: bytes.fromhex(value) for name, value in vector.items() if name != "name"}
    private_key = make_private_key(vector)
    public_key, size, salt = private_key.public_key(), len(found["n"]), found["salt"]
    message = found["prepared_msg"]
    if found["msg_prefix"]:
        assert prepare_randomized(found["msg"], ScriptedEntropy(found["msg_prefix"])) == message
    assert encode_pss(message, salt, size) == found["encoded_msg"]
    inverse = int.from_bytes(found["inv"], "big")
    factor = pow(inverse, -1, int.from_bytes(found["n"], "big")).to_bytes(size, "big")
    blinding = blind(public_key, message, ScriptedEntropy(salt, factor), len(salt))
    assert blinding == blind_rsa.Blinding(found["blinded_msg"], inverse)
    assert BlindSigner(private_key, OsEntropy()).sign(found["blinded_msg"]) == found["blind_sig"]
    assert finalize(public_key, message, found["blind_sig"], inverse, len(salt)) == found["sig"]
    verify(public_key, message, found["sig"], len(salt))
    with pytest.raises(TokenVerificationError):
        verify(public_key, message, found["sig"], blind_rsa.SALT_BYTES - len(salt))


def test_signature_is_that_of_the_message_and_key_alone() -> None:
    """Signed blindly and verified; each bit of signature and message counts, and so does the key."""
    blinding = blind(PUBLIC_KEY, MESSAGE, OsEntropy())
    signature = finalize(
        PUBLIC_KEY, MESSAGE, BlindSigner(KEY, OsEntropy()).sign(blinding.blinded_message), blinding.inverse
    )
    verify(PUBLIC_KEY, MESSAGE, signature)
    wrong = [(MESSAGE, changed) for changed in flip_every_bit(signature)]
    wrong += [(changed, signature) for changed in flip_every_bit(MESSAGE)]
    wrong += [(MESSAGE, signature[:-1]), (MESSAGE, b"\x00" + signature), (MESSAGE, b""), (MESSAGE, bytes(256))]
    for message, changed in wrong:
        with pytest.raises(TokenVerificationError, match="signature"):
            verify(PUBLIC_KEY, message, changed)
    with pytest.raises(TokenVerificationError):
        verify(make_private_key(VECTORS[0]).public_key(), MESSAGE, signature)


def test_answer_that_is_no_signature_is_not_finalized() -> None:
    """Each changed bit, another size, an answer to another message, another inverse."""
    signer = BlindSigner(KEY, OsEntropy())
    blinding = blind(PUBLIC_KEY, MESSAGE, OsEntropy())
    answer = signer.sign(blinding.blinded_message)
    other = blind(PUBLIC_KEY, MESSAGE, OsEntropy())
    wrong = [*flip_every_bit(answer), signer.sign(other.blinded_message), blinding.blinded_message, b"", answer[1:]]
    for changed in wrong:
        with pytest.raises(TokenIssuanceError, match="finalize"):
            finalize(PUBLIC_KEY, MESSAGE, changed, blinding.inverse)
    with pytest.raises(TokenIssuanceError, match="no signature"):
        finalize(PUBLIC_KEY, MESSAGE, answer, other.inverse)


def test_signature_of_a_faulty_machine_is_not_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault modulo one prime would give the other away; with the check nothing leaves."""
    signer = BlindSigner(KEY, OsEntropy())
    blinded = blind(PUBLIC_KEY, MESSAGE, OsEntropy()).blinded_message
    key = KEY.private_numbers()
    raised: list[int] = []
    correct = signer._raise_to_private_exponent

    def fail_modulo_p(number: int) -> int:
        wrong = (correct(number) + key.q) % MODULUS
        raised.append(math.gcd(pow(wrong, 65537, MODULUS) - number, MODULUS))
        return wrong

    monkeypatch.setattr(signer, "_raise_to_private_exponent", fail_modulo_p)
    with pytest.raises(TokenIssuanceError, match="not released"):
        signer.sign(blinded)
    assert raised == [key.q]


def test_private_exponent_never_meets_a_number_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is raised is another number each time, for one message too; the answer is the same."""
    signer = BlindSigner(KEY, OsEntropy())
    raised: list[int] = []
    correct = signer._raise_to_private_exponent

    def watch(number: int) -> int:
        raised.append(number)
        return correct(number)

    monkeypatch.setattr(signer, "_raise_to_private_exponent", watch)
    blinded = blind(PUBLIC_KEY, MESSAGE, OsEntropy()).blinded_message
    answers = {signer.sign(blinded) for _ in range(4)}
    assert len(answers) == 1
    assert len({*raised, int.from_bytes(blinded, "big")}) == 5


@pytest.mark.parametrize("blinded", [b"", bytes(255), bytes(257), b"\xff" * 256, MODULUS.to_bytes(256, "big")])
def test_blinded_message_out_of_bounds_is_not_signed(blinded: bytes) -> None:
    """Another size, the modulus and above."""
    with pytest.raises(TokenIssuanceError, match="256 bytes of a number below the modulus"):
        BlindSigner(KEY, OsEntropy()).sign(blinded)


def test_blinding_factor_is_drawn_until_it_is_a_unit() -> None:
    """Numbers above the modulus, zero and a multiple of a prime are drawn again, so that units are equally likely."""
    prime = KEY.private_numbers().p
    numbers = [MODULUS, (1 << 2048) - 1, 0, prime, 7]
    entropy = ScriptedEntropy(bytes(48), *(number.to_bytes(256, "big") for number in numbers))
    blinding = blind(PUBLIC_KEY, MESSAGE, entropy)
    assert entropy.parts == []
    assert blinding.inverse * 7 % MODULUS == 1


@pytest.mark.parametrize("numbers", [RSAPublicNumbers(3, MODULUS), RSAPublicNumbers(65537, MODULUS >> 1 | 1)])
def test_key_out_of_bounds_is_refused_by_every_step(numbers: RSAPublicNumbers) -> None:
    """Another exponent, or a size that is not in the list."""
    key = numbers.public_key()
    with pytest.raises(TokenKeyError, match="65537"):
        blind(key, MESSAGE, OsEntropy())
    with pytest.raises(TokenKeyError, match="65537"):
        finalize(key, MESSAGE, bytes(256), 1)
    with pytest.raises(TokenKeyError, match="65537"):
        verify(key, MESSAGE, bytes(256))


def test_modulus_that_shares_a_factor_with_the_message_is_refused() -> None:
    """Then the key is none: who met the factor could sign."""
    encoded = int.from_bytes(encode_pss(MESSAGE, bytes(48), 256), "big")
    factor = next(number for number in range(3, 10**6, 2) if encoded % number == 0)
    modulus = next(number for number in range(1 << 2047, 1 << 2048) if number % factor == 0 and number & 1)
    key = RSAPublicNumbers(65537, modulus).public_key()
    with pytest.raises(TokenKeyError, match="common factor"):
        blind(key, MESSAGE, ScriptedEntropy(bytes(48)))
