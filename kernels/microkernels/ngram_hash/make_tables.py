"""Writes `tables.inc` from Python's unicodedata: which code points are word characters, and how case folds.

The committed table is the definition (README.md, "Characters"); run this only to move to a newer Unicode version,
and never without training again, since ids would change:

    python -m alcove.kernels.microkernels.ngram_hash.make_tables > kernels/microkernels/ngram_hash/tables.inc
"""

import sys
import unicodedata
from collections.abc import Iterable, Sequence

BLOCK = 64
"""Code points per block of both tables; a block of the word table is one 64-bit mask."""

BMP = 0x10000
FOLDED_RANGES = (
    (0x0041, 0x0250),  # Latin: ASCII, Latin-1, Extended-A and -B
    (0x0370, 0x0590),  # Greek, Cyrillic, Armenian
    (0x10A0, 0x1100),  # Georgian capitals (Asomtavruli)
    (0x1C80, 0x1CC0),  # Cyrillic Extended-C, Georgian capitals (Mtavruli)
    (0x1E00, 0x2000),  # Latin Extended Additional (Vietnamese, Yoruba), Greek Extended
    (0x2C60, 0x2C80),  # Latin Extended-C
    (0xA640, 0xA6A0),  # Cyrillic Extended-B
    (0xA720, 0xA800),  # Latin Extended-D
    (0xFF21, 0xFF5B),  # fullwidth Latin
)


def is_word_character(code_point: int) -> bool:
    """Return whether a code point of the BMP is a letter or a mark, variation selectors left out."""
    return unicodedata.category(chr(code_point))[0] in "LM" and not 0xFE00 <= code_point <= 0xFE0F


def fold(code_point: int) -> int:
    """Return the simple case folding: one code point to one, as `str.casefold`, else `str.lower`, else unchanged.

    U+0130 (I with dot) folds to `i`; fullwidth Latin letters fold to ASCII.
    """
    if code_point == 0x0130:
        return ord("i")
    if 0xFF21 <= code_point <= 0xFF3A:
        return code_point - 0xFF21 + ord("a")
    if 0xFF41 <= code_point <= 0xFF5A:
        return code_point - 0xFF41 + ord("a")
    character = chr(code_point)
    for folded in (character.casefold(), character.lower()):
        if len(folded) == 1:
            return ord(folded)
    return code_point


def two_stage(blocks: Iterable[tuple[int, ...]]) -> tuple[list[int], list[tuple[int, ...]]]:
    """Return the index of each block among the distinct blocks, and these in order of first appearance."""
    distinct: dict[tuple[int, ...], int] = {}
    index = [distinct.setdefault(block, len(distinct)) for block in blocks]
    return index, list(distinct)


def array(kind: str, name: str, values: Sequence[str], per_line: int) -> str:
    """Return the C++ definition of a constant array."""
    starts = range(0, len(values), per_line)
    lines = "\n".join("    " + ", ".join(values[start : start + per_line]) + "," for start in starts)
    return f"constexpr {kind} {name}[{len(values)}] = {{\n{lines}\n}};\n"


def tables() -> str:
    """Return the text of `tables.inc`."""
    folded = {code_point for first, end in FOLDED_RANGES for code_point in range(first, end)}
    words, deltas = [], []
    for first in range(0, BMP, BLOCK):
        block = range(first, first + BLOCK)
        words.append((sum(1 << (c - first) for c in block if is_word_character(c)),))
        deltas.append(tuple((fold(c) - c) % BMP if c in folded and is_word_character(c) else 0 for c in block))
    word_index, word_blocks = two_stage(words)
    fold_index, fold_blocks = two_stage(deltas)
    return "\n".join(
        [
            f"// Made by make_tables.py from Unicode {unicodedata.unidata_version}; not to be edited.",
            "// Word characters of the BMP: block of 64 code points -> 64-bit mask, lowest bit first.",
            array("uint8_t", "kWordIndex", [str(i) for i in word_index], 24),
            array("uint64_t", "kWordBlocks", [f"0x{mask:016x}u" for (mask,) in word_blocks], 5),
            "// Case folding: block of 64 code points -> what to add to the code point, modulo 2^16.",
            array("uint8_t", "kFoldIndex", [str(i) for i in fold_index], 24),
            array("uint16_t", "kFoldBlocks", [str(delta) for block in fold_blocks for delta in block], 16),
        ]
    )


if __name__ == "__main__":
    sys.stdout.write(tables())
