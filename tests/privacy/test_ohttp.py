"""Oblivious HTTP has the bytes of RFC 9458's example, and nothing but what was sealed to the gateway is opened."""

import pytest
from alcove.privacy import ohttp
from alcove.privacy.binary_http import (
    MAX_FIELDS,
    HttpRequest,
    HttpResponse,
    read_request,
    read_response,
    write_request,
    write_response,
)
from alcove.privacy.errors import ObliviousKeyError, ObliviousMessageError, ParameterError
from alcove.privacy.ohttp import KeyConfig, open_request, read_key_configs, seal_request, write_key_configs
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

# RFC 9458, appendix A: a request and its response.
PRIVATE_KEY = bytes.fromhex("3c168975674b2fa8e465970b79c8dcf09f1c741626480bd4c6162fc5b6a98e1a")
CONFIG = bytes.fromhex("01002031e1f05a740102115220e9af918f738674aec95f54db6e04eb705aae8e79815500080001000100010003")
REQUEST = bytes.fromhex("00034745540568747470730b6578616d706c652e636f6d012f")
EPHEMERAL = bytes.fromhex("bc51d5e930bda26589890ac7032f70ad12e4ecb37abb1b65b1256c9c48999c73")
SEALED_REQUEST = bytes.fromhex(
    "010020000100014b28f881333e7c164ffc499ad9796f877f4e1051ee6d31bad19dec96c208b4726374e469135906992e"
    "1268c594d2a10c695d858c40a026e7965e7d86b83dd440b2c0185204b4d63525"
)
RESPONSE = bytes.fromhex("0140c8")
NONCE = bytes.fromhex("c789e7151fcba46158ca84b04464910d")
SEALED_RESPONSE = bytes.fromhex("c789e7151fcba46158ca84b04464910d86f9013e404feea014e7be4a441f234f857fbd")
KEYS = {1: PRIVATE_KEY}


class FixedEntropy:
    """Gives the example's nonce."""

    def random_bytes(self, size_bytes: int) -> bytes:
        """Return it."""
        assert size_bytes == len(NONCE)
        return NONCE


def test_example_of_the_rfc_has_its_bytes_in_both_directions() -> None:
    """Appendix A: the key configuration, the request with its ephemeral key, the response with its nonce."""
    config = KeyConfig.from_bytes(CONFIG)
    assert config == KeyConfig(1, X25519PrivateKey.from_private_bytes(PRIVATE_KEY).public_key().public_bytes_raw())
    sealed, opener = seal_request(config, REQUEST, X25519PrivateKey.from_private_bytes(EPHEMERAL))
    assert sealed == SEALED_REQUEST
    opened, sealer = open_request(KEYS, sealed)
    assert opened == REQUEST
    assert sealer.seal(RESPONSE, FixedEntropy()) == SEALED_RESPONSE
    assert opener.open(SEALED_RESPONSE) == RESPONSE
    assert read_request(REQUEST) == HttpRequest("GET", "https", "example.com", "/")
    assert read_response(RESPONSE) == HttpResponse(200)
    assert write_request(read_request(REQUEST)) == REQUEST
    assert write_response(read_response(RESPONSE)) == RESPONSE


def test_any_changed_byte_of_request_or_response_is_refused() -> None:
    """Each bit flipped, each cut: a typed error, never another message."""
    for place in range(len(SEALED_REQUEST)):
        changed = bytearray(SEALED_REQUEST)
        changed[place] ^= 1
        with pytest.raises(ObliviousKeyError if place < 7 else ObliviousMessageError):
            open_request(KEYS, bytes(changed))
        with pytest.raises(ObliviousMessageError):
            open_request(KEYS, SEALED_REQUEST[:place])
    _, opener = seal_request(KeyConfig.from_bytes(CONFIG), REQUEST, X25519PrivateKey.from_private_bytes(EPHEMERAL))
    for place in range(len(SEALED_RESPONSE)):
        changed = bytearray(SEALED_RESPONSE)
        changed[place] ^= 1
        for wrong in (bytes(changed), SEALED_RESPONSE[:place]):
            with pytest.raises(ObliviousMessageError):
                opener.open(wrong)


def test_response_to_another_request_is_refused() -> None:
    """Two requests of one key have nothing in common."""
    config = KeyConfig.from_bytes(CONFIG)
    first, opener = seal_request(config, REQUEST)
    second, _ = seal_request(config, REQUEST)
    assert first != second
    with pytest.raises(ObliviousMessageError, match="not of this request"):
        opener.open(open_request(KEYS, second)[1].seal(RESPONSE))


def test_first_key_of_algorithms_that_are_known_is_chosen() -> None:
    """Others are passed over; a document that is cut, or has none, is refused."""
    other = bytes.fromhex("02" + "0010" + "00" * 32 + "0004" + "00010001")
    config = KeyConfig.from_bytes(CONFIG)
    document = len(other).to_bytes(2, "big") + other + write_key_configs([config])
    assert read_key_configs(document) == config
    assert KeyConfig.from_bytes(config.to_bytes()) == config
    for wrong in (b"", document[:-1], len(other).to_bytes(2, "big") + other, b"\x00"):
        with pytest.raises(ObliviousMessageError):
            read_key_configs(wrong)
    for wrong in (b"", CONFIG[:-1], CONFIG + b"\x00", CONFIG[:37]):
        with pytest.raises(ObliviousMessageError, match="X25519"):
            KeyConfig.from_bytes(wrong)


TEXT = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=70)
FIELDS = st.lists(st.tuples(TEXT.filter(bool).map(str.lower), TEXT), max_size=4).map(tuple)


@given(TEXT, TEXT, FIELDS, st.binary(max_size=20_000), st.sampled_from((1, 256, 1024)))
def test_messages_are_read_as_they_were_written(
    path: str, authority: str, fields: tuple[tuple[str, str], ...], content: bytes, multiple: int
) -> None:
    """Lengths of one, two and four bytes, with and without padding."""
    request = HttpRequest("POST", "https", authority, path, fields, content)
    encoded = write_request(request, multiple)
    assert read_request(encoded) == request
    assert len(encoded) % multiple == 0
    response = HttpResponse(503, fields, content)
    assert read_response(write_response(response, multiple)) == response


@pytest.mark.parametrize(
    ("encoded", "reason"),
    [
        ("", "ends before it"),
        ("01" + "40c8", "known length"),
        ("02" + "03474554", "known length"),
        ("00" + "03474554" + "05687474", "5 bytes are announced, 3 are left"),
        ("00" + "01e9" + "0000" + "00", "ASCII"),
        ("00" + "010a" + "0000" + "00", "ASCII"),
        ("00" + "0141" + "00" + "00" + "012f" + "05", "5 bytes are announced, 0 are left"),
        ("00" + "0141" + "00" + "00" + "012f" + "02" + "0161" + "00", "the last one ends behind"),
        ("00" + "0141" + "00" + "00" + "012f" + "03" + "0141" + "00", "lower case"),
        ("00" + "0141" + "00" + "00" + "012f" + "00" + "00" + "00" + "0001", "zeros alone"),
        ("00" + "0141" + "00" + "00" + "012f" + "4063" + "016100" * 33, "at most 32"),
    ],
)
def test_request_that_is_none_is_refused_by_field(encoded: str, reason: str) -> None:
    """The error says which part, and no length is believed beyond the bytes."""
    assert MAX_FIELDS == 32
    with pytest.raises(ObliviousMessageError, match=reason):
        read_request(bytes.fromhex(encoded))


def test_informational_responses_are_passed_over_and_others_refused() -> None:
    """A 103 with a field before the final one; a status that is none."""
    assert read_response(bytes.fromhex("01" + "4067" + "03" + "0161" + "00" + "40c8")) == HttpResponse(200)
    for wrong in ("01" + "4258", "01" + "00", "01" + "4067" + "00"):
        with pytest.raises(ObliviousMessageError, match="status"):
            read_response(bytes.fromhex(wrong))


def test_text_that_is_not_ascii_is_not_written() -> None:
    """A field's value has no other characters."""
    with pytest.raises(ParameterError):
        write_response(HttpResponse(200, (("x", "\u00e9"),)))
    assert HttpResponse(200, (("retry-after", "3"),)).field("retry-after") == "3"
    assert not HttpResponse(200).field("retry-after")
    assert ohttp.KEYS_TYPE == "application/ohttp-keys"
