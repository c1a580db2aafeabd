"""Makes the table by which an n-gram hash composes text: Unicode's normalization form C.

The table travels in the program, so what a text becomes depends on the program alone, and the library holds no data of
Unicode's.  Its layout: kernels/microkernels/ngram_hash/README.md, "Table".
"""

import struct
import unicodedata
from functools import cache
from typing import Final

import numpy as np

MAGIC: Final = 0x434E
BLOCK: Final = 64
BMP: Final = 0x10000
MAY_JOIN: Final = 64
DECOMPOSES: Final = 128
HANGUL: Final = range(0xAC00, 0xD7A4)
VOWELS: Final = range(0x1161, 0x1176)
FINALS: Final = range(0x11A8, 0x11C3)


@cache
def make_composition_table() -> bytes:
    """Return the table, of the Unicode version of this Python; what lies beyond the BMP stays as it is."""
    entries = [(c, *parts) for c in range(BMP) if c not in HANGUL and (parts := _decomposition(c))]
    pairs = sorted((first, second, i) for i, (c, first, second) in enumerate(entries) if second and _is_composed(c))
    seconds = {second for _, second, _ in pairs} | {*VOWELS, *FINALS}
    ranks = {value: i for i, value in enumerate(sorted({unicodedata.combining(chr(c)) for c in range(BMP)}))}
    kinds = bytes(
        ranks[unicodedata.combining(chr(c))]
        | (MAY_JOIN if c in seconds else 0)
        | (DECOMPOSES if c not in HANGUL and _decomposition(c) and not _is_composed(c) else 0)
        for c in range(BMP)
    )
    distinct: dict[bytes, int] = {}
    index = bytes(distinct.setdefault(kinds[at : at + BLOCK], len(distinct)) for at in range(0, BMP, BLOCK))
    body = index + b"".join(distinct)
    body += np.array(entries, "<u2").tobytes() + np.array([i for _, _, i in pairs], "<u2").tobytes()
    return struct.pack("<4H", MAGIC, len(distinct), len(entries), len(pairs)) + body


def _decomposition(c: int) -> tuple[int, int] | None:
    """Return the canonical decomposition of a code point, the second 0 if it is one alone; None if the BMP has none."""
    text = unicodedata.decomposition(chr(c))
    if not text or text.startswith("<"):
        return None
    first, *rest = (int(part, 16) for part in text.split())
    return (first, rest[0] if rest else 0) if first < BMP else None


def _is_composed(c: int) -> bool:
    """Return whether a code point is what its decomposition composes to."""
    return unicodedata.normalize("NFC", chr(c)) == chr(c)
