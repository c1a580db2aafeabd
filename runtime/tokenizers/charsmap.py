"""Reads SentencePiece's normalization: a double-array trie of texts, and what each is replaced by."""

import struct
from typing import Final

from alcove.runtime.tokenizers.errors import UnsupportedTokenizerError
from alcove.runtime.tokenizers.table import LONGEST_STRING

_LEAF: Final = 0x100
_LABEL: Final = 0x800000FF
_MOST_TEXTS: Final = 2**20
"""Several times those of Unicode; units are shared, so that their number bounds nothing."""


def read_charsmap(blob: bytes) -> dict[bytes, bytes]:
    """Return the replacements of a precompiled charsmap; none if it is empty.

    Raises:
        UnsupportedTokenizerError: it is damaged, or a text has more than 255 bytes.

    Source: darts-clone's form of a double array.
    """
    if not blob:
        return {}
    try:
        (size,) = struct.unpack_from("<I", blob)
        units = struct.unpack_from(f"<{size // 4}I", blob, 4)
    except struct.error as error:
        raise UnsupportedTokenizerError([f"a damaged charsmap: {error}"]) from error
    texts = blob[4 + size :]
    replacements: dict[bytes, bytes] = {}
    # A unit that a byte leads to lies where that byte, and where the units of all bytes begin, say.
    below_of: dict[int, list[tuple[int, int]]] = {}
    for at, unit in enumerate(units):
        if 0 < (byte := unit & _LABEL) < 256:
            below_of.setdefault(at ^ byte, []).append((byte, at))
    waiting = [(_offset(units[0]) if units else 0, b"")]
    while waiting:
        position, key = waiting.pop()
        if len(key) >= LONGEST_STRING or len(replacements) > _MOST_TEXTS:
            raise UnsupportedTokenizerError(["a charsmap of over a million texts, or with one of over 255 bytes"])
        for byte, at in below_of.get(position, ()):
            unit, longer = units[at], key + bytes([byte])
            below = at ^ _offset(unit)
            if unit & _LEAF and below < len(units):
                start = units[below] & 0x7FFFFFFF
                replacements[longer] = texts[start : texts.find(b"\0", start)]
            waiting.append((below, longer))
    return replacements


def _offset(unit: int) -> int:
    return (unit >> 10) << ((unit & 0x200) >> 6)
