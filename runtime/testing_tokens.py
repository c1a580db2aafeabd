"""Builds small tokenizers of each model, and a program that reads texts with them."""

import numpy as np
from alcove.runtime.format.attributes import TokenizeAttributes
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import Assembly
from alcove.runtime.tokenizers.table import Flag, Merge, Model, Parts, Split, write_table

WORDS = ("the", "an", "he", "re", "in", "on")
CAPACITY = 12
MAX_BYTES = 64
SCRATCH_BYTES = MAX_BYTES * 32 + 256


def properties() -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
    """Return letters, numbers, white space and punctuation of ASCII, an ideograph and a control."""
    found = np.zeros(0x110000, np.uint8)
    for code_point in range(128):
        kind = chr(code_point)
        found[code_point] = 1 * kind.isalpha() + 2 * kind.isdigit() + 4 * kind.isspace()
        found[code_point] += 8 * (kind.isprintable() and not kind.isalnum() and not kind.isspace())
    found[0x82B1], found[0x7F] = 17, 32
    return found


def byte_pair() -> Parts:
    """Return a byte-level tokenizer of 256 bytes and some merges."""
    texts = [bytes([byte]) for byte in range(256)]
    merges: list[Merge] = []
    for word in WORDS:
        left = ord(word[0])
        for rank, right in enumerate(word[1:]):
            text = texts[left] + right.encode()
            if text not in texts:
                texts.append(text)
            merges.append(Merge(left, ord(right), len(merges) // 2 + rank, texts.index(text)))
            left = texts.index(text)
    return Parts(
        Model.BYTE_PAIR,
        Split.GPT2,
        texts,
        {},
        flags=Flag.BYTE_LEVEL | Flag.PREPEND_UNLESS_THERE,
        padding=3,
        properties=properties(),
        merges=merges,
        bytes_=range(256),
    )


def unigram() -> Parts:
    """Return a unigram tokenizer that marks spaces, replaces a letter and knows no digit."""
    mark = "\u2581"
    pieces = [mark, *"abehinort", "th", mark + "the", "an", "here", mark + "a"]
    return Parts(
        Model.UNIGRAM,
        Split.MARKS,
        [b"", *(piece.replace(mark, " ").encode() for piece in pieces)],
        {piece.encode(): token for token, piece in enumerate(pieces, 1)},
        flags=Flag.FUSE_UNKNOWN | Flag.PREPEND | Flag.COLLAPSE_SPACES | Flag.MARK_SPACES | Flag.SINGLE_SUMS,
        unknown=0,
        prefix=(5,),
        suffix=(6, 7),
        properties=properties(),
        replacements={"Æ".encode(): b"ae", b"A": b"a", "A\u0308".encode(): b"e"},
        scores=[0.0, *(-1.5 - 0.25 * (token % 7) for token in range(len(pieces)))],
        least_score=-3.0,
    )


def composing() -> Parts:
    """Return a unigram tokenizer that composes syllables of Hangul, from letters that replacements give too."""
    pieces = ["가", "각", "\u1100", "a", "花", " "]
    return Parts(
        Model.UNIGRAM,
        Split.NONE,
        [b"?", *(piece.encode() for piece in pieces)],
        {piece.encode(): token for token, piece in enumerate(pieces, 1)},
        flags=Flag.COMPOSE_HANGUL | Flag.PAD_IDEOGRAPHS | Flag.COLLAPSE_SPACES,
        unknown=0,
        properties=properties(),
        replacements={b"x": "\u1100\u1161\u11a8".encode(), b"y": "\u1161".encode(), b"xy": "a\u1100".encode()},
        scores=[0.0, *(-1.0 - token / 8 for token in range(len(pieces)))],
        least_score=-2.0,
    )


def word_piece() -> Parts:
    """Return a WordPiece tokenizer."""
    pieces = ["[UNK]", "the", "##re", "##r", "an", "##e", "a", "!", "花"]
    return Parts(
        Model.WORD_PIECE,
        Split.PUNCTUATION,
        [piece.removeprefix("##").encode() if piece[:2] == "##" else b" " + piece.encode() for piece in pieces],
        {piece.encode(): token for token, piece in enumerate(pieces) if token},
        flags=Flag.PAD_IDEOGRAPHS | Flag.DECOMPOSE_HANGUL,
        unknown=0,
        properties=properties(),
        most_characters=20,
        continuation=b"##",
    )


def tokens() -> bytes:
    """Return a program that gives the tokens of "text" by each model, and the text of "ids" again."""
    build = Assembly()
    text, ids = build.input("text", DType.TEXT), build.input("ids", DType.I64, (5,))
    for make in (byte_pair, unigram, word_piece):
        table = build.constant(f"{make.__name__} table", np.frombuffer(write_table(make()), np.uint8))
        found, _, count = build.op(
            "tokenize",
            [text, table],
            (DType.I64, (CAPACITY,)),
            (DType.U8, (SCRATCH_BYTES,)),
            (DType.I64, (1,)),
            attributes=TokenizeAttributes(max_bytes=MAX_BYTES),
        )
        utf8, size = build.op("detokenize", [ids, table], (DType.U8, (9,)), (DType.I64, (1,)))
        for name, tensor in (("tokens", found), ("count", count), ("utf8", utf8), ("size", size)):
            build.output(f"{make.__name__} {name}", tensor)
    return build.program()
