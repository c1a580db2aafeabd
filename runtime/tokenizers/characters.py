"""Makes what a table says of code points, from Python's unicodedata: the table then holds it, whatever a device has."""

import unicodedata
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
from alcove.runtime.tokenizers.table import CODE_POINTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

LETTER, NUMBER, SPACE, PUNCTUATION, IDEOGRAPH, DROPPED = 1, 2, 4, 8, 16, 32

WHITE_SPACE: Final = frozenset(
    chain(range(9, 14), (0x20, 0x85, 0xA0, 0x1680), range(0x2000, 0x200B), (0x2028, 0x2029, 0x202F, 0x205F, 0x3000))
)
"""Unicode's property White_Space."""
IDEOGRAPHS: Final = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
"""What BERT puts spaces around; the gap from 0x2B820 is that of its tokenizers."""
ASCII_PUNCTUATION: Final = frozenset(chain(range(33, 48), range(58, 65), range(91, 97), range(123, 127)))
SURROGATES: Final = range(0xD800, 0xE000)
HANGUL: Final = range(0xAC00, 0xD7A4)
REPLACEMENT_CHARACTER: Final = 0xFFFD
KEPT_CONTROLS: Final = frozenset((9, 10, 13))


def code_points() -> Iterator[int]:
    """Yield all that UTF-8 can hold."""
    return chain(range(SURROGATES.start), range(SURROGATES.stop, CODE_POINTS))


def _collect(of: Callable[[int], int]) -> "NDArray[np.uint8]":
    found = np.zeros(CODE_POINTS, np.uint8)
    for code_point in code_points():
        found[code_point] = of(code_point)
    return found


@cache
def words() -> "NDArray[np.uint8]":
    r"""Return the properties that regular expressions ask for: \p{L}, \p{N} and \s."""

    def of(code_point: int) -> int:
        kind = unicodedata.category(chr(code_point))[0]
        return LETTER * (kind == "L") + NUMBER * (kind == "N") + SPACE * (code_point in WHITE_SPACE)

    return _collect(of)


@cache
def spaces() -> "NDArray[np.uint8]":
    """Return the property of white space alone."""
    return _collect(lambda code_point: SPACE * (code_point in WHITE_SPACE))


@cache
def plain_space() -> "NDArray[np.uint8]":
    """Return the property of white space for U+0020 alone."""
    return _collect(lambda code_point: SPACE * (code_point == ord(" ")))


@cache
def bert(*, cleans: bool) -> "NDArray[np.uint8]":
    """Return the properties that BERT's tokenizers ask for; `cleans` drops controls."""

    def of(code_point: int) -> int:
        kind = unicodedata.category(chr(code_point))
        is_control = kind in {"Cc", "Cf", "Co"} and code_point not in KEPT_CONTROLS
        if cleans and (is_control or code_point in {0, REPLACEMENT_CHARACTER}):
            return DROPPED
        return (
            SPACE * (code_point in WHITE_SPACE)
            + PUNCTUATION * (kind[0] == "P" or code_point in ASCII_PUNCTUATION)
            + IDEOGRAPH * any(first <= code_point <= last for first, last in IDEOGRAPHS)
        )

    return _collect(of)


def map_characters(change: Callable[[str], str]) -> dict[bytes, bytes]:
    """Return the replacement of each character that `change` changes; syllables of Hangul are left out."""
    replacements = {}
    for code_point in code_points():
        character = chr(code_point)
        if code_point not in HANGUL and (changed := change(character)) != character:
            replacements[character.encode()] = changed.encode()
    return replacements


def strip_accents(text: str) -> str:
    """Return the text decomposed (NFD), without marks that take no space (Mn)."""
    return "".join(each for each in unicodedata.normalize("NFD", text) if unicodedata.category(each) != "Mn")


def lower(text: str) -> str:
    """Return the text in lower case, each character by itself."""
    return "".join(each.lower() for each in text)


def normal_form(form: str) -> dict[bytes, bytes]:
    """Return replacements that bring a text into a normal form with composition, NFC or NFKC; but for Hangul's.

    Each character by itself, and each that is written as several: a letter and the marks behind it, or with some of
    them composed. Marks in another order than the canonical one, and a third mark that no character has, stay.
    """
    normalize: Callable[[str, str], str] = unicodedata.normalize  # type: ignore[assignment]
    replacements = map_characters(lambda character: normalize(form, character))
    for code_point in code_points():
        composed = chr(code_point)
        if code_point in HANGUL or normalize("NFC", composed) != composed:
            continue
        decomposed = normalize("NFD", composed)
        if len(decomposed) < 2:
            continue
        written = composed if form == "NFC" else normalize(form, composed)
        for count in range(1, len(decomposed)):
            variant = normalize("NFC", decomposed[:count]) + decomposed[count:]
            replacements[variant.encode()] = written.encode()
    return replacements


def drop_syllables(replacements: Mapping[bytes, bytes]) -> tuple[dict[bytes, bytes], bool]:
    """Return replacements without those of letters by syllables of Hangul, and whether composing has to do that.

    A charsmap of SentencePiece has 200,000 of them, one for each way to write a syllable.
    """

    def compose(key: bytes) -> bytes:
        written = "".join(replacements.get(each.encode(), each.encode()).decode() for each in key.decode())
        return unicodedata.normalize("NFC", written).encode()

    def is_syllable(value: bytes) -> bool:
        text = value.decode("utf-8", "ignore")
        return len(text) == 1 and ord(text) in HANGUL

    spelled = [key for key, value in replacements.items() if is_syllable(value) and len(key.decode()) > 1]
    if not spelled or any(compose(key) != replacements[key] for key in spelled):
        return dict(replacements), False
    dropped = frozenset(spelled)
    return {key: value for key, value in replacements.items() if key not in dropped}, True
