"""Reads the training text (CARD.md names its sources) as numbered words, each line with its language and source.

A text is the concatenation of its words, and so is its bag of n-grams (the hash never looks across words).  So each
distinct word is hashed once, by the kernel that runs on the device, and a sample is a list of word numbers
(`sampling.py` draws them).
"""

import lzma
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from alcove.features.language_id.config import LANGUAGES

NON_COMMERCIAL = frozenset({"masakhanews", "lafand", "masakhaner"})
"""Sources without a licence for commercial use (CARD.md); never trained on."""

STRONG_COPYLEFT = frozenset({"scratch", "mozilla-ga"})
"""AGPL and GPL sources; left out too, so that the licence of the weights stays simple."""

AT_MOST: Final = {"aosp": 3_500}
"""Lines of a language read from a source, the first ones; all where absent: more interface text teaches nothing."""

MOST_LISTED: Final = 12_000
"""Words of a language read from its word list, the most frequent: further down it is mostly names and English."""

SPACELESS = frozenset({"zh", "ja", "th"})
"""Languages written without spaces: their lines are also cut into short pieces, which stand for words."""

PIECE_SIZES: Final = (1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 8)
"""Characters of a piece, one of these by chance."""

NEVER_SHOWN = frozenset(["ast", "ckb", "cv", "hsb", "ne-NP", "uz"])
"""Languages outside ours that training leaves out whole, to measure what it does with a language that it never met.

Training shows the other ones with "equally likely" as the answer; each of these is near one of the 75 (Asturian to
Spanish, Sorani to Persian, Chuvash to Russian, Upper Sorbian to Czech, Nepali to Hindi, Uzbek to Turkish).
"""

KEPT_FROM_TRAINING = 0.1
"""Share of the lines in languages outside ours that training does not show; chosen by their text alone."""

UNMARKED = str.maketrans("đøłħŧı", "dolhti")
"""Letters whose mark is part of them, as people type them in a hurry."""

SHORTEST_MISTYPED: Final = 4
"""Characters of the shortest word that a typing error is made in."""

JOINERS = "'’ʼ·\u200c\u200d"


@dataclass(frozen=True)
class Lines:
    """Lines of text: line i has the words `words[starts[i]:starts[i + 1]]`.

    Attributes:
        words: numbers of words, of all lines one after the other.
        starts: where each line begins, and the end.
        languages: number of the language of each line, -1 for none of ours.
        sources: number of the source of each line in `Corpus.sources`.
        is_counted: whether the line's words count for the vocabulary (of a line and its pieces only these do).
    """

    words: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int64]
    languages: npt.NDArray[np.int64]
    sources: npt.NDArray[np.int64]
    is_counted: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Listed:
    """Word lists: the word, its language and its count, one after the other."""

    words: npt.NDArray[np.int32]
    languages: npt.NDArray[np.int64]
    counts: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Corpus:
    """Everything that samples are drawn from.

    Attributes:
        words: each distinct word once.
        sizes: characters of each.
        plain: for each word the number of that word without diacritics: its own where it has none.
        mistyped: likewise with a typing error in it.
        lines: of our languages.
        others: lines in other languages.
        listed: word lists.
        sources: names of the sources, in the order of their numbers.
        rows_read: lines read, by source.
    """

    words: list[str]
    sizes: npt.NDArray[np.int32]
    plain: npt.NDArray[np.int32]
    mistyped: npt.NDArray[np.int32]
    lines: Lines
    others: Lines
    listed: Listed
    sources: tuple[str, ...]
    rows_read: dict[str, int]


def read_rows(path: Path) -> Iterator[list[str]]:
    """Yield the fields of each row of an .tsv.xz file, its heading left out."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        next(file)
        for line in file:
            yield line.rstrip("\n").split("\t")


def make_separator_table() -> dict[int, str]:
    """Return the `str.translate` table that turns separators into spaces, as the kernel cuts words (BMP)."""
    kept = {ord(joiner) for joiner in JOINERS}
    return {c: " " for c in range(0x10000) if c not in kept and unicodedata.category(chr(c))[0] not in "LM"}


def cut_pieces(line: str, rng: np.random.Generator) -> list[str]:
    """Return `line`, without spaces, cut into pieces of 1 to 8 characters."""
    text = line.replace(" ", "")
    pieces, at = [], 0
    while at < len(text):
        size = PIECE_SIZES[int(rng.integers(len(PIECE_SIZES)))]
        pieces.append(text[at : at + size])
        at += size
    return pieces


def strip_marks(word: str) -> str:
    """Return a Latin word without its diacritics; a word in another script as it is."""
    if word.isascii() or not any("LATIN" in unicodedata.name(character, "") for character in word):
        return word
    decomposed = unicodedata.normalize("NFD", word.translate(UNMARKED))
    return "".join(character for character in decomposed if unicodedata.category(character) != "Mn")


def mistype(word: str, other: str, chance: float) -> str:
    """Return `word` with a typing error: a letter lost, doubled, changed places with its neighbour, or another one.

    Args:
        word: at least 2 characters; the first stays.
        other: where a wrong letter is read from; not empty.
        chance: in [0, 1): which error, and where.
    """
    which, chance = divmod(chance * 4, 1)
    at = 1 + int(chance * (len(word) - 1))
    if which == 0:
        return word[:at] + word[at + 1 :]
    if which == 1:
        return word[:at] + word[at] + word[at:]
    if which == 2:
        return word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :]
    return word[:at] + other[at % len(other)] + word[at + 1 :]


def is_among(text: str, share: float) -> bool:
    """Return whether a text is among a share of all texts, which depends on its letters alone."""
    return zlib.crc32(text.encode()) < share * 2**32


class CorpusReader:
    """Reads the files once and numbers the words.

    Args:
        folder: with lid_train.tsv.xz and its neighbours.
        excluded: texts to leave out (the demo's sentences).
        seed: of the cuts of languages without spaces, and of typing errors.
    """

    def __init__(self, folder: Path, *, excluded: frozenset[str], seed: int) -> None:
        self.folder = folder
        self.excluded = excluded
        self.rng = np.random.default_rng(seed)
        self.numbers: dict[str, int] = {}
        self.separators = make_separator_table()
        self.sources: dict[str, int] = {}
        self.rows_read: dict[str, int] = {}

    def split(self, text: str) -> list[int]:
        """Return the word numbers of `text`."""
        numbers = self.numbers
        return [numbers.setdefault(word, len(numbers)) for word in self.words_of(text)]

    def words_of(self, text: str) -> list[str]:
        """Return the words of `text` in lower case."""
        return text.replace("İ", "i").lower().translate(self.separators).split()

    def read(self) -> Corpus:
        """Return the corpus."""
        lines = self._read_lines()
        others = self._read_others()
        listed = self._read_word_lists()
        seen = list(self.numbers)
        plain = self._number([strip_marks(word) for word in seen])
        mistyped = self._number(self._mistype(seen))
        words = list(self.numbers)
        padding = np.arange(len(seen), len(words), dtype=np.int32)  # a changed word is not changed again
        return Corpus(
            words,
            np.fromiter(map(len, words), np.int32, len(words)),
            np.concatenate([plain, padding]),
            np.concatenate([mistyped, padding]),
            lines,
            others,
            listed,
            tuple(self.sources),
            dict(self.rows_read),
        )

    def _number(self, words: Sequence[str]) -> npt.NDArray[np.int32]:
        numbers = self.numbers
        return np.array([numbers.setdefault(word, len(numbers)) for word in words], np.int32)

    def _mistype(self, words: Sequence[str]) -> list[str]:
        chances = self.rng.random(len(words)).tolist()
        others = self.rng.permutation(len(words))
        return [
            mistype(word, words[int(other)], chance) if len(word) >= SHORTEST_MISTYPED else word
            for word, other, chance in zip(words, others, chances, strict=True)
        ]

    def _read_lines(self) -> Lines:
        number_of = {language: i for i, language in enumerate(LANGUAGES)}
        left_out = NON_COMMERCIAL | STRONG_COPYLEFT
        seen: Counter[tuple[str, str]] = Counter()
        rows: list[tuple[list[int], int, int, bool]] = []
        for code, source, text in read_rows(self.folder / "lid_train.tsv.xz"):
            if source in left_out or text in self.excluded:
                continue
            seen[code, source] += 1
            if source in AT_MOST and seen[code, source] > AT_MOST[source]:
                continue
            self.rows_read[source] = self.rows_read.get(source, 0) + 1
            language, number = number_of[code], self.sources.setdefault(source, len(self.sources))
            words = self.split(text)
            if not words:
                continue
            rows.append((words, language, number, code not in SPACELESS))
            if code in SPACELESS:
                pieces = [n for piece in cut_pieces(text, self.rng) for n in self.split(piece)]
                rows.append((pieces, language, number, True))
        return pack(rows)

    def _read_others(self) -> Lines:
        rows = read_rows(self.folder / "lid_other_languages.tsv.xz")
        shown = [
            (self.split(text), -1, self.sources.setdefault(source, len(self.sources)), False)
            for code, source, text in rows
            if self._is_shown(code, source, text)
        ]
        return pack(shown)

    def _is_shown(self, code: str, source: str, text: str) -> bool:
        left_out = source in NON_COMMERCIAL | STRONG_COPYLEFT
        return code not in NEVER_SHOWN and not left_out and not is_among(text, KEPT_FROM_TRAINING)

    def _read_word_lists(self) -> Listed:
        number_of = {language: i for i, language in enumerate(LANGUAGES)}
        words: list[int] = []
        languages: list[int] = []
        counts: list[float] = []
        listed = [0] * len(LANGUAGES)
        for code, count, word in read_rows(self.folder / "lid_words.tsv.xz"):
            language = number_of[code]
            listed[language] += 1
            if listed[language] > MOST_LISTED:
                continue
            for number in self.split(word):
                words.append(number)
                languages.append(language)
                counts.append(float(count))
        return Listed(np.array(words, np.int32), np.array(languages, np.int64), np.array(counts, np.float64))


def pack(rows: Sequence[tuple[list[int], int, int, bool]]) -> Lines:
    """Return rows of (words, language, source, whether the words count) as arrays, by language."""
    ordered = sorted(rows, key=lambda row: row[1])
    starts = np.zeros(len(ordered) + 1, np.int64)
    np.cumsum([len(words) for words, _, _, _ in ordered], out=starts[1:])
    words = np.fromiter((number for own, _, _, _ in ordered for number in own), np.int32, int(starts[-1]))
    languages, sources, is_counted = ([row[i] for row in ordered] for i in (1, 2, 3))
    return Lines(words, starts, np.array(languages, np.int64), np.array(sources, np.int64), np.array(is_counted, bool))
