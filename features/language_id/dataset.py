"""Reads the training text (CARD.md names its sources) and draws the training samples of the model.

A text is the concatenation of its words, and so is its bag of n-grams (the hash never looks across words).  So each
distinct word is hashed once, by the kernel that runs on the device, and a sample is a list of word numbers.

Samples are balanced over languages and imitate what people type: single words, pairs, fragments, sentences.
"""

import lzma
import unicodedata
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from alcove.features.language_id.config import LANGUAGES, ModelConfig

NON_COMMERCIAL = frozenset({"masakhanews", "lafand", "masakhaner"})
"""Sources without a licence for commercial use (CARD.md); never trained on."""

STRONG_COPYLEFT = frozenset({"scratch", "mozilla-ga"})
"""AGPL and GPL sources; left out too, so that the licence of the weights stays simple."""

SOURCE_WEIGHTS = {
    "aosp": 0.35,
    "thunderbird": 0.35,
    "mozilla-www": 0.35,
    "voice-web-ui": 0.35,
    "mw-visualeditor": 0.35,
    "ntrex": 2.0,
    "tatoeba": 1.5,
    "udhr": 0.5,
    "nchlt": 0.7,
}
"""Weight of a line by source, 1 where absent: interface text is far from what people write; news and talk are near."""

SPACELESS = frozenset({"zh", "ja", "th"})
"""Languages written without spaces: their lines are also cut into short pieces, which stand for words."""

NEVER_SHOWN = frozenset(["ast", "ckb", "cv", "hsb", "ne-NP", "uz"])
"""Languages outside ours that training leaves out whole, to measure what it does with a language that it never met.

Training shows the other ones with "equally likely" as the answer; each of these is near one of the 75 (Asturian to
Spanish, Sorani to Persian, Chuvash to Russian, Upper Sorbian to Czech, Nepali to Hindi, Uzbek to Turkish).
"""

KEPT_FROM_TRAINING = 0.1
"""Share of the lines in languages outside ours that training does not show; chosen by their text alone."""

EMPTY_SHARE = 0.1
OTHER_WORDS = (3, 9)
"""Words in a part of a line outside our languages, the upper bound left out: a single word may well be one of ours."""

UNMARKED = str.maketrans("đøłħŧı", "dolhti")
"""Letters whose mark is part of them, as people type them in a hurry."""

OFTEN_UNMARKED = frozenset({"yo"})
"""Languages whose training text has marks nearly throughout, and whose everyday text often has not."""

JOINERS = "'’ʼ·\u200c\u200d"


class Kind(NamedTuple):
    """A kind of sample and its share of a batch."""

    name: str
    share: float


KINDS = (
    Kind("word", 0.42),
    Kind("loose pair", 0.10),
    Kind("pair", 0.13),
    Kind("fragment", 0.15),
    Kind("sentence", 0.20),
)


@dataclass(frozen=True)
class Vocabulary:
    """The words of one language: `words` are word numbers, `cumulative` the running sum of their probabilities."""

    words: npt.NDArray[np.int32]
    cumulative: npt.NDArray[np.float64]

    def draw(self, uniform: npt.NDArray[np.float64]) -> npt.NDArray[np.int32]:
        """Return one word for each number in [0, 1)."""
        at = np.searchsorted(self.cumulative, uniform * self.cumulative[-1], side="right")
        words: npt.NDArray[np.int32] = self.words[np.minimum(at, len(self.words) - 1)]
        return words


@dataclass(frozen=True)
class Lines:
    """The lines of one language: line i has the words `words[starts[i]:starts[i + 1]]`; weights as in `Vocabulary`."""

    words: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int64]
    cumulative: npt.NDArray[np.float64]

    def draw(self, uniform: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Return one line for each number in [0, 1)."""
        at = np.searchsorted(self.cumulative, uniform * self.cumulative[-1], side="right")
        lines: npt.NDArray[np.int64] = np.minimum(at, len(self.cumulative) - 1)
        return lines


@dataclass(frozen=True)
class Corpus:
    """Everything that samples are drawn from; languages in the order of `LANGUAGES`.

    `plain` gives for each word the number of that word without diacritics: its own where it has none.
    """

    words: list[str]
    plain: npt.NDArray[np.int32]
    vocabularies: tuple[Vocabulary, ...]
    lines: tuple[Lines, ...]
    others: Lines
    rows_read: dict[str, int]


@dataclass(frozen=True)
class Batch:
    """A batch of texts as word numbers: text i is `words[starts[i]:starts[i + 1]]`; language -1: none of ours."""

    words: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int64]
    languages: npt.NDArray[np.int64]


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
    """Return `line`, without spaces, cut into pieces of 2 to 8 characters."""
    text = line.replace(" ", "")
    pieces, at = [], 0
    while at < len(text):
        size = int(rng.integers(2, 9))
        pieces.append(text[at : at + size])
        at += size
    return pieces


def strip_marks(word: str) -> str:
    """Return a Latin word without its diacritics; a word in another script as it is."""
    if word.isascii() or not any("LATIN" in unicodedata.name(character, "") for character in word):
        return word
    decomposed = unicodedata.normalize("NFD", word.translate(UNMARKED))
    return "".join(character for character in decomposed if unicodedata.category(character) != "Mn")


def is_among(text: str, share: float) -> bool:
    """Return whether a text is among a share of all texts, which depends on its letters alone."""
    return zlib.crc32(text.encode()) < share * 2**32


class HeldOut(NamedTuple):
    """A line that training does not see; `words` in lower case, `language` by number, `weight` that of its source."""

    language: int
    weight: float
    words: list[str]
    text: str


class CorpusReader:
    """Reads the files once and numbers the words.

    Args:
        folder: with lid_train.tsv.xz and its neighbours.
        without: further sources to leave out, for measuring on a source that was never seen.
        excluded: texts to leave out (the demo's sentences).
        seed: of the cuts of languages without spaces.
        held_out: share of the lines to keep from training, for fitting how sure the model may be; they are chosen by
            their text alone and found in `held_out_lines` after reading.
    """

    def __init__(
        self, folder: Path, *, without: frozenset[str], excluded: frozenset[str], seed: int, held_out: float = 0.0
    ) -> None:
        self.folder = folder
        self.without = without | NON_COMMERCIAL | STRONG_COPYLEFT
        self.excluded = excluded
        self.rng = np.random.default_rng(seed)
        self.numbers: dict[str, int] = {}
        self.separators = make_separator_table()
        self.rows_read: dict[str, int] = {}
        self.held_out = held_out
        self.held_out_lines: list[HeldOut] = []

    def split(self, text: str) -> list[int]:
        """Return the word numbers of `text`."""
        numbers = self.numbers
        return [numbers.setdefault(word, len(numbers)) for word in self.words_of(text)]

    def words_of(self, text: str) -> list[str]:
        """Return the words of `text` in lower case."""
        return text.replace("İ", "i").lower().translate(self.separators).split()

    def read(self, *, frequency_power: float = 0.5) -> Corpus:
        """Return the corpus. `frequency_power` flattens word frequencies: a word is drawn by frequency ** power."""
        counts: list[dict[int, float]] = [{} for _ in LANGUAGES]
        lines = self._read_lines(counts)
        lists = self._read_word_lists()
        rows = read_rows(self.folder / "lid_other_languages.tsv.xz")
        others = [(self.split(text), 1.0) for code, source, text in rows if self._is_shown(code, source, text)]
        words = list(self.numbers)
        vocabularies = make_vocabularies(counts, lists, words, frequency_power)
        plain_words = [strip_marks(word) for word in words]
        plain = [self.numbers.setdefault(word, len(self.numbers)) for word in plain_words]
        words = list(self.numbers)
        plain.extend(range(len(plain), len(words)))
        packed = tuple(pack(rows) for rows in lines)
        return Corpus(words, np.array(plain, np.int32), vocabularies, packed, pack(others), dict(self.rows_read))

    def _read_lines(self, counts: list[dict[int, float]]) -> list[list[tuple[list[int], float]]]:
        number_of = {language: i for i, language in enumerate(LANGUAGES)}
        lines: list[list[tuple[list[int], float]]] = [[] for _ in LANGUAGES]
        for code, source, text in read_rows(self.folder / "lid_train.tsv.xz"):
            if source in self.without or text in self.excluded:
                continue
            self.rows_read[source] = self.rows_read.get(source, 0) + 1
            weight = SOURCE_WEIGHTS.get(source, 1.0)
            language = number_of[code]
            if self._is_held_out(text):
                self.held_out_lines.append(HeldOut(language, weight, self.words_of(text), text))
                continue
            numbers = self.split(text)
            if not numbers:
                continue
            lines[language].append((numbers, weight))
            if code in SPACELESS:
                pieces = [n for piece in cut_pieces(text, self.rng) for n in self.split(piece)]
                lines[language].append((pieces, weight))
                numbers = pieces
            for number in numbers:
                counts[language][number] = counts[language].get(number, 0.0) + weight
        return lines

    def _is_held_out(self, text: str) -> bool:
        return is_among(text, self.held_out)

    def _is_shown(self, code: str, source: str, text: str) -> bool:
        return code not in NEVER_SHOWN and source not in self.without and not is_among(text, KEPT_FROM_TRAINING)

    def _read_word_lists(self) -> list[dict[int, float]]:
        number_of = {language: i for i, language in enumerate(LANGUAGES)}
        lists: list[dict[int, float]] = [{} for _ in LANGUAGES]
        for code, count, word in read_rows(self.folder / "lid_words.tsv.xz"):
            for number in self.split(word):
                found = lists[number_of[code]]
                found[number] = found.get(number, 0.0) + float(count)
        return lists


def pack(rows: Sequence[tuple[list[int], float]]) -> Lines:
    """Return lines as arrays."""
    starts = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(numbers) for numbers, _ in rows], out=starts[1:])
    words = np.fromiter((number for numbers, _ in rows for number in numbers), np.int32, int(starts[-1]))
    return Lines(words, starts, np.cumsum([weight for _, weight in rows], dtype=np.float64))


def make_vocabularies(
    counts: Sequence[dict[int, float]], lists: Sequence[dict[int, float]], words: Sequence[str], frequency_power: float
) -> tuple[Vocabulary, ...]:
    """Return for each language the words to draw, from its lines and its word list, half and half where it has both.

    A word 50 times rarer than in another language is taken for noise there (a name, a quotation) and dropped.  Short
    words tell little and are drawn less often.
    """
    frequencies: list[dict[int, float]] = []
    highest = np.zeros(len(words))
    for parts in zip(counts, lists, strict=True):
        present = [part for part in parts if part]
        merged: dict[int, float] = {}
        for part in present:
            total = sum(part.values()) * len(present)
            for number, count in part.items():
                merged[number] = merged.get(number, 0.0) + count / total
        frequencies.append(merged)
        indices = np.fromiter(merged, np.int64, len(merged))
        highest[indices] = np.maximum(highest[indices], np.fromiter(merged.values(), np.float64, len(merged)))
    by_length = np.array([0.0, 0.05, 0.15, 0.3, 0.5, 1.0])
    lengths = np.array([min(len(word), 5) for word in words])
    vocabularies = []
    for merged in frequencies:
        numbers = np.fromiter(merged, np.int32, len(merged))
        values = np.fromiter(merged.values(), np.float64, len(merged))
        kept = values * 50 >= highest[numbers]
        numbers, values = numbers[kept], values[kept]
        weights = values**frequency_power * by_length[lengths[numbers]]
        vocabularies.append(Vocabulary(numbers, np.cumsum(weights)))
    return tuple(vocabularies)


class Sampler:
    """Draws batches from a corpus; the same seed and step give the same batch.

    Args:
        corpus: what to draw from.
        seed: of all batches.
        other_share: share of texts in none of the languages (and of empty ones, a tenth of it), which teach doubt.
        plain_share: share of texts that lose their diacritics, six times that where people often leave them out.
    """

    def __init__(self, corpus: Corpus, *, seed: int, other_share: float = 0.0, plain_share: float = 0.0) -> None:
        self.corpus = corpus
        self.seed = seed
        self.other_share = other_share
        self.plain_share = np.full(len(LANGUAGES) + 1, plain_share)
        self.plain_share[[LANGUAGES.index(code) for code in OFTEN_UNMARKED]] *= 6

    def batch(self, step: int, size: int) -> Batch:
        """Return `size` texts, by language."""
        rng = np.random.default_rng((self.seed, step))
        texts: list[npt.NDArray[np.int32]] = []
        languages: list[int] = []
        other_count = int(size * self.other_share)
        per_language = rng.multinomial(size - other_count, np.full(len(LANGUAGES), 1 / len(LANGUAGES)))
        shares = np.array([kind.share for kind in KINDS])
        for language, count in enumerate(per_language):
            kinds = rng.multinomial(count, shares / shares.sum())
            texts.extend(self._texts(language, kinds.tolist(), rng))
            languages.extend([language] * int(count))
        for _ in range(other_count):
            languages.append(-1)
            texts.append(self._other(rng))
        starts = np.zeros(size + 1, np.int64)
        np.cumsum([len(text) for text in texts], out=starts[1:])
        words, numbers = np.concatenate(texts), np.array(languages, np.int64)
        is_plain = np.random.default_rng((self.seed, step, 2)).random(size) < self.plain_share[numbers]
        words = np.where(np.repeat(is_plain, np.diff(starts)), self.corpus.plain[words], words)
        return Batch(words, starts, numbers)

    def _other(self, rng: np.random.Generator) -> npt.NDArray[np.int32]:
        """Return a line in none of the languages, half of the time a part of it; sometimes nothing at all."""
        others = self.corpus.others
        line = int(rng.integers(len(others.cumulative)))
        words = others.words[others.starts[line] : others.starts[line + 1]]
        if rng.random() < EMPTY_SHARE:
            return words[:0]
        size = int(rng.integers(*OTHER_WORDS)) if rng.random() < 0.5 else len(words)
        first = int(rng.integers(max(len(words) - size, 0) + 1))
        return words[first : first + size]

    def _texts(self, language: int, kinds: list[int], rng: np.random.Generator) -> Iterator[npt.NDArray[np.int32]]:
        words, pairs, near_pairs, fragments, sentences = kinds
        vocabulary, lines = self.corpus.vocabularies[language], self.corpus.lines[language]
        yield from vocabulary.draw(rng.random(words))[:, None]
        yield from vocabulary.draw(rng.random(2 * pairs)).reshape(-1, 2)
        longest = np.concatenate(
            [
                np.full(near_pairs, 2),
                rng.integers(3, 9, fragments),
                np.full(sentences, np.iinfo(np.int64).max // 2),
            ]
        )
        chosen = lines.draw(rng.random(len(longest)))
        first, end = lines.starts[chosen], lines.starts[chosen + 1]
        slack = np.maximum(end - first - longest, 0)
        first = first + (rng.random(len(longest)) * (slack + 1)).astype(np.int64)
        end = np.minimum(first + longest, end)
        for a, b in zip(first.tolist(), end.tolist(), strict=True):
            yield lines.words[a:b]


HashBatch = Callable[[list[str], int, int, int, int, int], tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]]


class BagTable:
    """The n-gram ids of every word, hashed once.

    Args:
        words: of a corpus.
        config: gives orders, buckets and seed.
        hash_batch: `alcove.runtime._native.ngram_hash_batch`.
    """

    def __init__(self, words: list[str], config: ModelConfig, hash_batch: HashBatch) -> None:
        self.ids, starts = hash_batch(
            words, config.min_order, config.max_order, config.buckets, config.seed, config.capacity
        )
        self.starts: npt.NDArray[np.int64] = np.asarray(starts, np.int64)

    def bags(self, batch: Batch) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Return (ids, offsets) of the texts of a batch, as `torch.nn.EmbeddingBag` takes them."""
        first = self.starts[batch.words]
        lengths = self.starts[batch.words + 1] - first
        ends = np.cumsum(lengths)
        at = np.arange(int(ends[-1]), dtype=np.int64) + np.repeat(first - (ends - lengths), lengths)
        total = np.concatenate([[0], ends])
        return self.ids[at], total[batch.starts[:-1]]
