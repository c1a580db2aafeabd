"""Tokenizers written again from kernels/microkernels/tokenize/README.md, as plainly as possible, over `Parts`."""

import re
import unicodedata
from collections.abc import Iterator

import numpy as np
from alcove.runtime.tokenizers.table import Flag, Model, Parts, Split

MARK = "\u2581"
LETTER, NUMBER, SPACE, PUNCTUATION, IDEOGRAPH, DROPPED = 1, 2, 4, 8, 16, 32


def encode(parts: Parts, text: str, capacity: int, max_bytes: int) -> tuple[list[int], int]:
    """Return the tokens, padded, and how many there are."""
    data = text.encode()[: 4 * max_bytes].decode("utf-8", "ignore")
    room = max(capacity - len(parts.prefix) - len(parts.suffix), 0)
    found: list[int] = []
    for word in split(parts, normalize(parts, data, max_bytes)):
        if len(found) >= room:
            break
        found += of_word(parts, word)
    ids = [*parts.prefix, *found[:room], *parts.suffix][:capacity]
    return ids + [parts.padding] * (capacity - len(ids)), len(ids)


def normalize(parts: Parts, text: str, max_bytes: int) -> str:
    """Return the text as the model sees it."""
    space = MARK if parts.flags & Flag.MARK_SPACES else " "
    keys = {key.decode(): value.decode() for key, value in parts.replacements.items()}
    out: list[str] = []  # pieces, of which the first that has no room ends the text
    is_pending = False

    def add(character: str) -> None:
        nonlocal is_pending
        kind = property_of(parts, character)
        if kind & DROPPED:
            return
        if kind & SPACE and parts.flags & Flag.COLLAPSE_SPACES:
            is_pending = bool(out)
            return
        if kind & IDEOGRAPH and parts.flags & Flag.PAD_IDEOGRAPHS:
            out.extend((" ", character, " "))
            return
        if parts.flags & Flag.DECOMPOSE_HANGUL and "\uac00" <= character <= "\ud7a3":
            out.extend(unicodedata.normalize("NFD", character))
            return
        is_there = character == " " or (character == MARK and bool(parts.flags & Flag.MARK_SPACES))
        if not out and (parts.flags & Flag.PREPEND or (parts.flags & Flag.PREPEND_UNLESS_THERE and not is_there)):
            out.append(space)
        if is_pending:
            out.append(space)
        is_pending = False
        if parts.flags & Flag.COMPOSE_HANGUL and out and is_joined(out[-1], character):
            out[-1] = unicodedata.normalize("NFC", out[-1] + character)
            return
        out.append(space if character == " " else character)

    at = 0
    while at < len(text):
        key = next((text[at:end] for end in range(len(text), at, -1) if text[at:end] in keys), None)
        for character in text[at] if key is None else keys[key]:
            add(character)
        at += 1 if key is None else len(key)
    return "".join(first_of(out, max_bytes))


def first_of(pieces: list[str], max_bytes: int) -> Iterator[str]:
    """Yield the pieces before the first that has no room."""
    size = 0
    for piece in pieces:
        size += len(piece.encode())
        if size > max_bytes:
            return
        yield piece


def is_joined(before: str, character: str) -> bool:
    """Return whether a letter of Hangul and the one before it, or the syllable before it, are one syllable."""
    is_first = "\u1100" <= before <= "\u1112" and "\u1161" <= character <= "\u1175"
    is_open = "\uac00" <= before <= "\ud7a3" and (ord(before) - 0xAC00) % 28 == 0
    return is_first or (is_open and "\u11a8" <= character <= "\u11c2")


def property_of(parts: Parts, character: str) -> int:
    """Return what the table says of a character."""
    return 0 if parts.properties is None else int(parts.properties[ord(character)])


def split(parts: Parts, text: str) -> Iterator[str]:
    """Yield the words of a text, by Python's regular expressions over letters of the properties."""
    if parts.split is Split.NONE:
        yield from [text] if text else []
        return
    if parts.split is Split.MARKS:
        yield from re.findall(f"{MARK}?[^{MARK}]+|{MARK}", text)
        return
    kinds = "".join(_letter(property_of(parts, character), character) for character in text)
    pattern = {
        Split.PUNCTUATION: "P|[^PSB]+",
        Split.GPT2: r"'S?(?!x)x|B?L+|B?N+|B?[^SBLN]+|[SB]+(?![^SB])|[SB]+",
    }[parts.split]
    at = 0
    while at < len(text):
        contraction = re.compile("'(?:s|t|re|ve|m|ll|d)").match(text, at)
        if parts.split is Split.GPT2 and contraction:
            end = contraction.end()
        else:
            found = re.compile(pattern).match(kinds, at)
            end = found.end() if found else at + 1
            if parts.split is Split.PUNCTUATION and not found:
                at = end
                continue
        yield text[at:end]
        at = end


def _letter(kind: int, character: str) -> str:
    """Return one letter for what a character is: a space (B), other white space, letter, number, punctuation, else."""
    if character == " ":
        return "B"
    return (
        "S" if kind & SPACE else "L" if kind & LETTER else "N" if kind & NUMBER else "P" if kind & PUNCTUATION else "o"
    )


def of_word(parts: Parts, word: str) -> list[int]:
    """Return the tokens of a word."""
    if parts.model is Model.BYTE_PAIR:
        return _byte_pair(parts, word)
    return _unigram(parts, word) if parts.model is Model.UNIGRAM else _word_piece(parts, word)


def _byte_pair(parts: Parts, word: str) -> list[int]:
    symbols = [parts.bytes_[byte] for byte in word.encode()]
    merges = {(merge.left, merge.right): (merge.rank, merge.merged) for merge in parts.merges}
    while True:
        pairs = [
            (merges[pair][0], at) for at in range(len(symbols) - 1) if (pair := tuple(symbols[at : at + 2])) in merges
        ]
        if not pairs:
            return symbols
        _, at = min(pairs)
        symbols[at : at + 2] = [merges[symbols[at], symbols[at + 1]][1]]


def _unigram(parts: Parts, word: str) -> list[int]:
    pieces = {piece.decode(): token for piece, token in parts.pieces.items()}
    rounded = np.float32 if parts.flags & Flag.SINGLE_SUMS else np.float64
    best: list[tuple[float, list[int | None]] | None] = [(0.0, [])] + [None] * len(word)
    for at in range(len(word)):
        score, path = best[at] or (0.0, [])
        ends = [end for end in range(at + 1, len(word) + 1) if word[at:end] in pieces]
        offers: list[tuple[int, float, int | None]] = [
            (end, parts.scores[pieces[word[at:end]]], pieces[word[at:end]]) for end in ends
        ]
        if at + 1 not in ends:
            offers.append((at + 1, float(rounded(parts.least_score - 10)), None))
        for end, gain, token in offers:
            total, before = float(rounded(score + gain)), best[end]
            if before is None or total > before[0]:
                best[end] = (total, [*path, token])
    found = best[-1]
    assert found is not None
    tokens: list[int] = []
    for at, each in enumerate(found[1]):
        is_repeated = each is None and at > 0 and found[1][at - 1] is None and parts.flags & Flag.FUSE_UNKNOWN
        if not is_repeated and (each is not None or parts.unknown is not None):
            tokens.append(parts.unknown if each is None else each)  # type: ignore[arg-type]
    return tokens


def _word_piece(parts: Parts, word: str) -> list[int]:
    unknown = [] if parts.unknown is None else [parts.unknown]
    if len(word) > parts.most_characters:
        return unknown
    found: list[int] = []
    at = 0
    while at < len(word):
        prefix = parts.continuation if at else b""
        ends = [end for end in range(len(word), at, -1) if prefix + word[at:end].encode() in parts.pieces]
        if not ends:
            return unknown
        found.append(parts.pieces[prefix + word[at : ends[0]].encode()])
        at = ends[0]
    return found
