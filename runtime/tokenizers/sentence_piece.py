"""Reads a model of SentencePiece: pieces, scores and normalization, of unigram and byte-pair models."""

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

from alcove.runtime.tokenizers import characters
from alcove.runtime.tokenizers.charsmap import read_charsmap
from alcove.runtime.tokenizers.errors import UnsupportedTokenizerError
from alcove.runtime.tokenizers.table import MARK, Flag, Merge, Model, Parts, Split

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
_MODELS: Final = {1: Model.UNIGRAM, 2: Model.BYTE_PAIR}


def read_model(
    data: bytes, prefix: Sequence[str] | None = None, suffix: Sequence[str] | None = None
) -> tuple[Parts, dict[str, int], bool]:
    """Return the parts of a tokenizer, its special tokens, and whether it puts a space before a text.

    Raises:
        UnsupportedTokenizerError: it is no such file, or the tokenizer does what no table can say.

    Source: sentencepiece_model.proto.
    """
    try:
        fields = _fields(data)
        pieces = [_piece(_fields(entry)) for entry in fields.get(1, [])]
        trainer = _fields(fields.get(2, [b""])[-1])
        normalizer = _fields(fields.get(3, [b""])[-1])
    except (IndexError, KeyError, struct.error, TypeError, ValueError) as error:
        raise UnsupportedTokenizerError([f"no model of SentencePiece: {error}"]) from error
    if not pieces:
        raise UnsupportedTokenizerError(["no model of SentencePiece: it has no pieces"])
    return _parts(pieces, trainer, normalizer, prefix or (), suffix or ())


Fields = dict[int, list[Any]]
Piece = tuple[str, float, int]


def _parts(
    pieces: list[Piece], trainer: Fields, normalizer: Fields, prefix: Sequence[str], suffix: Sequence[str]
) -> tuple[Parts, dict[str, int], bool]:
    reasons = []
    model = _MODELS.get(_last(trainer, 3, 1))
    if model is None:
        reasons.append("models of words and of characters: unigram and byte-pair are read")
    if _last(trainer, 24, 0):
        reasons.append("spaces behind words: before words is read")
    if any(kind in {USER_DEFINED, UNUSED} for _, _, kind in pieces):
        reasons.append("pieces that a user defined or left unused: none is read")
    if not _last(normalizer, 5, 1):
        reasons.append(f"spaces that stay: escaped as {MARK} is read")
    special = {text: token for token, (text, _, kind) in enumerate(pieces) if kind in {CONTROL, UNKNOWN}}
    missing = [name for name in (*prefix, *suffix) if name not in special]
    if missing:
        reasons.append(f"no special token {missing[0]!r}: there are {', '.join(special)}")
    if reasons or model is None:
        raise UnsupportedTokenizerError(reasons)
    flags = Flag.MARK_SPACES | Flag.FUSE_UNKNOWN | Flag.SINGLE_SUMS
    prepends = bool(_last(normalizer, 3, 1))
    flags |= Flag.PREPEND if prepends else Flag(0)
    flags |= Flag.COLLAPSE_SPACES if _last(normalizer, 4, 1) else Flag(0)
    spelled = {text: token for token, (text, _, kind) in enumerate(pieces) if kind == NORMAL}
    bytes_ = [token for token, (_, _, kind) in enumerate(pieces) if kind == BYTE]
    if len(bytes_) == 256:
        flags |= Flag.BYTE_FALLBACK
    replacements, composes = characters.drop_syllables(read_charsmap(_last(normalizer, 2, b"")))
    flags |= Flag.COMPOSE_HANGUL if composes else Flag(0)
    scores = [score for _, score, _ in pieces]
    is_unigram = model is Model.UNIGRAM
    return (
        Parts(
            model=model,
            split=Split.NONE,
            flags=flags,
            texts=[_text(text, kind) for text, _, kind in pieces],
            pieces={text.encode(): token for text, token in spelled.items()},
            unknown=next((token for token, (_, _, kind) in enumerate(pieces) if kind == UNKNOWN), None),
            padding=max(_last(trainer, 43, -1, signed=True), 0),
            prefix=[special[name] for name in prefix],
            suffix=[special[name] for name in suffix],
            properties=characters.plain_space(),
            replacements=replacements,
            scores=scores if is_unigram else (),
            least_score=min((scores[token] for token in spelled.values()), default=0.0),
            merges=() if is_unigram else list(_merges(spelled, scores)),
            bytes_=bytes_,
        ),
        special,
        prepends,
    )


def _merges(spelled: dict[str, int], scores: Sequence[float]) -> Iterator[Merge]:
    """Yield each pair of pieces whose text is a piece; of equal scores the first in the text is joined first."""
    ranks = {
        score: rank for rank, score in enumerate(sorted({scores[token] for token in spelled.values()}, reverse=True))
    }
    for text, token in spelled.items():
        for cut in range(1, len(text)):
            left, right = spelled.get(text[:cut]), spelled.get(text[cut:])
            if left is not None and right is not None:
                yield Merge(left, right, ranks[scores[token]], token)


def _text(text: str, kind: int) -> bytes:
    if kind in {CONTROL, UNKNOWN}:
        return b""
    return bytes([int(text[3:5], 16)]) if kind == BYTE else text.replace(MARK, " ").encode()


def _piece(fields: Fields) -> Piece:
    text, score = fields.get(1, [b""])[-1].decode(), fields.get(2, [b"\0\0\0\0"])[-1]
    return text, struct.unpack("<f", score)[0], _last(fields, 3, NORMAL)


def _last(fields: Fields, number: int, default: Any, *, signed: bool = False) -> Any:
    value = fields.get(number, [default])[-1]
    return value - 2**64 if signed and isinstance(value, int) and value >= 2**63 else value


def _fields(data: bytes) -> Fields:
    """Return the fields of a message of protocol buffers: numbers, or bytes."""
    fields: Fields = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        value: int | bytes
        kind = tag & 7
        if kind == 0:
            value, at = _varint(data, at)
        else:
            size, at = _varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            if size > len(data) - at:
                raise ValueError("a field is cut off")
            value, at = data[at : at + size], at + size
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number of more than 64 bits")
