"""The runtime's SHA-256 is that of hashlib, with the processor's instructions and without."""

import hashlib

from alcove.runtime import _native
from hypothesis import given
from hypothesis import strategies as st


def test_every_length_around_the_block_size() -> None:
    """0 to 260 bytes: each way that padding can fall."""
    for length in range(261):
        data = bytes(i * 7 % 256 for i in range(length))
        for portable in (False, True):
            assert _native.sha256(data, portable) == hashlib.sha256(data).digest(), (length, portable)


@given(st.binary(max_size=5000))
def test_any_bytes(data: bytes) -> None:
    """Both ways agree with hashlib."""
    expected = hashlib.sha256(data).digest()
    assert _native.sha256(data) == _native.sha256(data, portable=True) == expected


def test_megabytes() -> None:
    """Many blocks in one call."""
    data = bytes(range(256)) * 12_345
    assert _native.sha256(data) == _native.sha256(data, portable=True) == hashlib.sha256(data).digest()


def test_the_test_vector_of_the_standard() -> None:
    """FIPS 180-4, example "abc"."""
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert _native.sha256(b"abc").hex() == _native.sha256(b"abc", portable=True).hex() == expected
