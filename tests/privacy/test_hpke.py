"""HPKE gives the vectors of RFC 9180, agrees with the library's own, and opens nothing that was changed."""

import os

import pytest
from alcove.privacy import hpke
from alcove.privacy.errors import HpkeError
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from hypothesis import given
from hypothesis import strategies as st

INFO = bytes.fromhex("4f6465206f6e2061204772656369616e2055726e")
PLAINTEXT = bytes.fromhex("4265617574792069732074727574682c20747275746820626561757479")
EPHEMERAL = bytes.fromhex("52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736")
ENCAPSULATED = bytes.fromhex("37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431")
RECEIVER = bytes.fromhex("4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8")
PUBLIC = bytes.fromhex("3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d")
SECRET = bytes.fromhex("fe0e18c9f024ce43799ae393c7e8fe8fce9d218875e8227b0187c04e7d2ea1fc")
KEY = bytes.fromhex("4531685d41d65f03dc48f6b8302c05b0")
NONCE = bytes.fromhex("56d890e5accaaf011cff4b7d")
# Sequence number to ciphertext; the associated data are "Count-" and the number. Source: RFC 9180, appendix A.1.1.
CIPHERTEXTS = {
    0: "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a",
    1: "af2d7e9ac9ae7e270f46ba1f975be53c09f8d875bdc8535458c2494e8a6eab251c03d0c22a56b8ca42c2063b84",
    2: "498dfcabd92e8acedc281e85af1cb4e3e31c7dc394a1ca20e173cb72516491588d96a19ad4a683518973dcc180",
    4: "583bd32bc67a5994bb8ceaca813d369bca7b2a42408cddef5e22f880b631215a09fc0012bc69fccaa251c0246d",
    255: "7175db9717964058640a3a11fb9007941a5d1757fda1a6935c805c21af32505bf106deefec4a49ac38d71c9e0a",
}


def test_the_vector_of_the_rfc_is_sealed_and_opened() -> None:
    """Appendix A.1.1: encapsulated key, ciphertext and back."""
    ephemeral = X25519PrivateKey.from_private_bytes(EPHEMERAL)
    sealed = hpke.seal_with(ephemeral, PUBLIC, INFO, b"Count-0", PLAINTEXT)
    assert sealed == (ENCAPSULATED, bytes.fromhex(CIPHERTEXTS[0]))
    assert hpke.open_sealed(RECEIVER, *sealed[:1], INFO, b"Count-0", sealed[1]) == PLAINTEXT
    assert hpke.derive_public_key(RECEIVER) == PUBLIC


@pytest.mark.parametrize("sequence", CIPHERTEXTS)
def test_key_and_nonce_give_every_message_of_the_vector(sequence: int) -> None:
    """The key schedule; later messages turn the nonce by their number."""
    key, nonce = hpke.derive_key_and_nonce(SECRET, INFO)
    assert (key, nonce) == (KEY, NONCE)
    turned = (int.from_bytes(nonce, "big") ^ sequence).to_bytes(len(nonce), "big")
    assert AESGCM(key).encrypt(turned, PLAINTEXT, b"Count-%d" % sequence).hex() == CIPHERTEXTS[sequence]


@given(info=st.binary(max_size=64), plaintext=st.binary(max_size=200))
def test_without_associated_data_the_librarys_own_hpke_agrees(info: bytes, plaintext: bytes) -> None:
    """`cryptography` opens what ours seals, and ours what it seals."""
    suite = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
    private_key = hpke.generate_private_key()
    library_key = X25519PrivateKey.from_private_bytes(private_key)
    public_key = hpke.derive_public_key(private_key)
    assert suite.decrypt(b"".join(hpke.seal(public_key, info, b"", plaintext)), library_key, info) == plaintext
    theirs = suite.encrypt(plaintext, X25519PublicKey.from_public_bytes(public_key), info)
    encapsulated, ciphertext = theirs[: hpke.KEY_BYTES], theirs[hpke.KEY_BYTES :]
    assert hpke.open_sealed(private_key, encapsulated, info, b"", ciphertext) == plaintext


def test_no_changed_bit_is_opened() -> None:
    """Each bit of the encapsulated key and of the ciphertext; another info, other associated data, another key."""
    private_key = hpke.generate_private_key()
    encapsulated, ciphertext = hpke.seal(hpke.derive_public_key(private_key), b"info", b"aad", b"cell 7")
    message = encapsulated + ciphertext
    for bit in range(8 * len(message)):
        changed = bytearray(message)
        changed[bit // 8] ^= 1 << bit % 8
        # The top bit of an X25519 point is ignored, but it is hashed into the secret.
        with pytest.raises(HpkeError):
            hpke.open_sealed(private_key, bytes(changed[:32]), b"info", b"aad", bytes(changed[32:]))
    for key, info, aad in (
        (private_key, b"inf", b"aad"),
        (private_key, b"info", b"aa"),
        (hpke.generate_private_key(), b"info", b"aad"),
    ):
        with pytest.raises(HpkeError, match="not for this key"):
            hpke.open_sealed(key, encapsulated, info, aad, ciphertext)
    for size in range(hpke.TAG_BYTES):
        with pytest.raises(HpkeError):
            hpke.open_sealed(private_key, encapsulated, b"info", b"aad", ciphertext[:size])


# Points whose multiples by any private key are zero: the secret would be known to everyone. Sources: RFC 7748, section
# 6.1; Bernstein, "Curve25519: new Diffie-Hellman speed records".
SMALL_ORDER = [
    bytes(32),
    (1).to_bytes(32, "little"),
    (2**255 - 20).to_bytes(32, "little"),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
]


@pytest.mark.parametrize("point", SMALL_ORDER, ids=lambda point: point.hex()[:8])
def test_points_of_small_order_are_refused(point: bytes) -> None:
    """On either side."""
    with pytest.raises(HpkeError, match="small order"):
        hpke.seal(point, b"", b"", b"")
    with pytest.raises(HpkeError, match="small order"):
        hpke.open_sealed(os.urandom(32), point, b"", b"", bytes(16))


@pytest.mark.parametrize("size", [0, 31, 33])
def test_keys_of_another_size_are_refused(size: int) -> None:
    """The message names the size."""
    with pytest.raises(HpkeError, match="32 bytes"):
        hpke.derive_public_key(bytes(size))
    with pytest.raises(HpkeError, match="32 bytes"):
        hpke.seal(bytes(size), b"", b"", b"")
