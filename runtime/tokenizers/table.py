"""Writes the table of a tokenizer, which its operators read (kernels/microkernels/tokenize/README.md)."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAGIC: Final = b"TOK1"
MARK: Final = "\u2581"
"""What spaces become, with Flag.MARK_SPACES."""
NO_TOKEN: Final = 0xFFFFFFFF
LONGEST_STRING: Final = 255
"""Bytes of a piece or a key; the operator walks no further."""
BLOCK: Final = 256
CODE_POINTS: Final = 0x110000
_ALIGNMENT: Final = 8


class Model(IntEnum):
    """How a word is divided into pieces."""

    BYTE_PAIR = 0
    UNIGRAM = 1
    WORD_PIECE = 2


class Split(IntEnum):
    """How a text is divided into words."""

    NONE = 0
    GPT2 = 1
    CL100K = 2
    PUNCTUATION = 3
    MARKS = 4


class Flag(IntFlag):
    """What is done to a text before and after it is split."""

    BYTE_LEVEL = 1
    BYTE_FALLBACK = 2
    FUSE_UNKNOWN = 4
    PREPEND = 8
    PREPEND_UNLESS_THERE = 16
    COLLAPSE_SPACES = 32
    MARK_SPACES = 64
    PAD_IDEOGRAPHS = 128
    DECOMPOSE_HANGUL = 256
    WHOLE_WORDS = 512
    SINGLE_SUMS = 1024
    COMPOSE_HANGUL = 2048


NO_FLAGS: Final = Flag(0)


@dataclass(frozen=True)
class Merge:
    """Two neighbors become one token; of all that could, those of the least rank do first."""

    left: int
    right: int
    rank: int
    merged: int


@dataclass(frozen=True)
class Parts:
    """All that a table says.

    Attributes:
        model: how a word is divided.
        split: how a text is divided.
        texts: what each token is written out as, in the order of the ids.
        pieces: tokens that a text may hold, by their bytes, 1 to 255.
        flags: what else is done.
        unknown: the token of what no piece spells; None if that is left out.
        padding: the token behind the last.
        prefix: tokens before a text.
        suffix: tokens behind it.
        most_digits: of a number that is one word, for Split.CL100K.
        most_characters: of a word that is not unknown, for WordPiece.
        properties: uint8 [0x110000], what the operator asks of a code point.
        replacements: what is replaced, the longest first, by what.
        scores: float64 [vocabulary], of the unigram model.
        least_score: of all scores; what is unknown has it less 10.
        merges: of byte-pair encoding.
        bytes_: the token of each byte; empty if bytes have none.
        continuation: what a piece within a word begins with, for WordPiece.
    """

    model: Model
    split: Split
    texts: Sequence[bytes]
    pieces: Mapping[bytes, int]
    flags: Flag = NO_FLAGS
    unknown: int | None = None
    padding: int = 0
    prefix: Sequence[int] = ()
    suffix: Sequence[int] = ()
    most_digits: int = 0
    most_characters: int = 0
    properties: "NDArray[np.uint8] | None" = None
    replacements: Mapping[bytes, bytes] = field(default_factory=dict)
    scores: Sequence[float] = ()
    least_score: float = 0.0
    merges: Sequence[Merge] = ()
    bytes_: Sequence[int] = ()
    continuation: bytes = b""


def write_table(parts: Parts) -> bytes:
    """Return the table; equal parts give equal bytes."""
    numbers = _Sections()
    if parts.properties is not None:
        blocks, index = np.unique(parts.properties.reshape(-1, BLOCK), axis=0, return_inverse=True)
        numbers.add("<u2", index.reshape(-1))
        numbers.add("<u1", blocks.reshape(-1))
    else:
        numbers.add("<u2", [])
        numbers.add("<u1", [])
    keys = sorted(parts.replacements)
    numbers.add_trie({key: number for number, key in enumerate(keys)})
    numbers.add_strings([parts.replacements[key] for key in keys])
    numbers.add_trie(parts.pieces)
    numbers.add_strings(parts.texts)
    numbers.add("<f8", [*parts.scores, parts.least_score] if parts.scores else [])
    merges = sorted(parts.merges, key=lambda merge: (merge.left, merge.right))
    lefts = [merge.left for merge in merges]
    numbers.add("<u4", np.searchsorted(lefts, np.arange(len(parts.texts) + 1)) if merges else [])
    numbers.add("<u4", [merge.right for merge in merges])
    numbers.add("<u4", [merge.rank for merge in merges])
    numbers.add("<u4", [merge.merged for merge in merges])
    numbers.add("<u4", parts.bytes_)
    numbers.add_strings([parts.continuation] if parts.continuation else [])
    numbers.add("<u4", [*parts.prefix, *parts.suffix])
    return numbers.join(
        struct.pack(
            "<4s11I",
            MAGIC,
            parts.model,
            parts.split,
            parts.flags,
            parts.most_digits,
            len(parts.texts),
            NO_TOKEN if parts.unknown is None else parts.unknown,
            parts.padding,
            len(parts.prefix),
            parts.most_characters,
            0,
            0,
        )
    )


class _Sections:
    """Sections in the order in which they are added, each at a multiple of 8."""

    def __init__(self) -> None:
        self._parts: list[tuple[bytes, int]] = []

    def add(self, dtype: str, values: Any) -> None:
        array = np.asarray(values, dtype)
        self._parts.append((array.tobytes(), array.size))

    def add_strings(self, strings: Sequence[bytes]) -> None:
        self.add("<u4", np.cumsum([0, *map(len, strings)]) if strings else [])
        self.add("<u1", np.frombuffer(b"".join(strings), np.uint8))

    def add_trie(self, numbers: Mapping[bytes, int]) -> None:
        """Add strings as a tree of their bytes; nodes by depth, then by the strings that they stand for."""
        strings = sorted(numbers)
        starts, labels, values = [1], [0], [NO_TOKEN]
        ranges = [(0, len(strings), 0)] if strings else []  # of the strings that begin as a node does, and its depth
        for first, end, depth in ranges:  # grows as it is walked
            at = first + (len(strings[first]) == depth)
            while at < end:
                byte = strings[at][depth]
                begin = at
                while at < end and strings[at][depth] == byte:
                    at += 1
                labels.append(byte)
                is_string = len(strings[begin]) == depth + 1
                values.append(numbers[strings[begin]] if is_string else NO_TOKEN)
                ranges.append((begin, at, depth + 1))
            starts.append(len(labels))
        self.add("<u4", starts if strings else [])
        self.add("<u1", labels if strings else [])
        self.add("<u4", values if strings else [])

    def join(self, fields: bytes) -> bytes:
        head, body = bytearray(fields), bytearray()
        offset = len(fields) + 8 * len(self._parts)
        for data, count in self._parts:
            head += struct.pack("<2I", offset + len(body), count)
            body += data + bytes(-len(data) % _ALIGNMENT)
        return bytes(head + body)
