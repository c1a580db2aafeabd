"""Draws training samples: balanced over languages, and like what people type: words, pairs, fragments, sentences.

Everything is a tensor on one device, so that a batch takes a few operations there.  The same seed, step and device give
the same batch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from alcove.features.language_id.config import LANGUAGES, ModelConfig
from alcove.features.language_id.dataset import SPACELESS, Corpus, Lines
from torch import Tensor

SOURCE_WEIGHTS: Final = {
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

OFTEN_UNMARKED: Final = frozenset({"yo"})
"""Languages whose training text has marks nearly throughout, and whose everyday text often has not."""

UNMARKED_FACTOR: Final = 6
"""How much more often these lose their marks."""

EMPTY_SHARE: Final = 0.1
OTHER_WORDS: Final = (3, 9)
"""Words in a part of a line outside our languages, the upper bound left out: a single word may well be one of ours."""

LETTERS_WEIGHED: Final = (0.0, 0.05, 0.15, 0.3, 0.5, 1.0)
"""How often a word is drawn alone, by its characters, 5 or more last: short words tell little."""

MISTYPED_WORDS: Final = 0.3
"""Share of the words with a typing error, in a text that has some."""


class Kind(NamedTuple):
    """A kind of sample: the least and most words cut from a line (0: drawn alone)."""

    name: str
    least: int
    most: int


LONGEST: Final = 2**30
KINDS: Final = (
    Kind("word", 0, 0),
    Kind("loose pair", 0, 0),
    Kind("pair", 2, 2),
    Kind("fragment", 3, 8),
    Kind("sentence", LONGEST, LONGEST),
)


@dataclass(frozen=True)
class SamplingPlan:
    """What is drawn.

    Attributes:
        other_share: share of texts in none of the languages (and of empty ones, a tenth of it), which teach doubt.
        plain_share: share of texts that lose their diacritics, `UNMARKED_FACTOR` times that where people often do.
        mistyped_share: share of texts with typing errors.
        frequency_power: words are drawn by frequency ** power.
        noise_ratio: a word this many times rarer than in another language is taken for noise (a name, a quotation).
        source_weights: weight of a line by source.
        kind_shares: of a batch, in the order of `KINDS`.
    """

    other_share: float = 0.02
    plain_share: float = 0.0
    mistyped_share: float = 0.0
    frequency_power: float = 0.4
    noise_ratio: float = 50.0
    source_weights: dict[str, float] | None = None
    kind_shares: tuple[float, ...] = (0.42, 0.10, 0.13, 0.15, 0.20)


class Batch(NamedTuple):
    """Texts as word numbers: text i is the words `words[starts[i]:starts[i + 1]]`; language -1: none of ours."""

    words: Tensor
    starts: Tensor
    languages: Tensor


class Sampler:
    """Draws batches from a corpus.

    Args:
        corpus: what to draw from.
        plan: how.
        seed: of all batches.
        without: sources left out whole.
        device: of the batches.
    """

    def __init__(
        self,
        corpus: Corpus,
        plan: SamplingPlan,
        *,
        seed: int,
        without: frozenset[str] = frozenset(),
        device: torch.device | str = "cpu",
    ) -> None:
        self.plan = plan
        self.seed = seed
        self.device = torch.device(device)
        given = SOURCE_WEIGHTS if plan.source_weights is None else plan.source_weights
        weights = [0.0 if source in without else given.get(source, 1.0) for source in corpus.sources]
        self.source_weights = torch.tensor(weights, dtype=torch.float64, device=self.device)
        lines, others = _place(corpus.lines, self.device), _place(corpus.others, self.device)
        line_weights = self.source_weights[lines.sources]
        self.line_cumulative = accumulate(lines.languages, line_weights)
        self.present = torch.unique(lines.languages[line_weights > 0])
        vocabulary, languages, drawn = self._vocabulary(corpus, lines, line_weights)
        self.word_cumulative = accumulate(languages, drawn)
        # All texts are slices of one array: lines, then single words, then the lines of other languages.
        self.words = torch.cat([lines.words, vocabulary, others.words])
        self.first_single = len(lines.words)
        self.line_starts = lines.starts
        self.other_starts = others.starts + len(lines.words) + len(vocabulary)
        self.plain = torch.from_numpy(corpus.plain).to(self.device)
        self.mistyped = torch.from_numpy(corpus.mistyped).to(self.device)
        shares = torch.tensor(plan.kind_shares, dtype=torch.float64, device=self.device)
        self.kind_cumulative = torch.cumsum(shares / shares.sum(), 0)
        self.kind_least = torch.tensor([kind.least for kind in KINDS], device=self.device)
        self.kind_most = torch.tensor([kind.most for kind in KINDS], device=self.device)
        self.plain_shares = torch.full((len(LANGUAGES) + 1,), plan.plain_share, device=self.device)
        self.plain_shares[[LANGUAGES.index(code) for code in sorted(OFTEN_UNMARKED)]] *= UNMARKED_FACTOR

    def _vocabulary(self, corpus: Corpus, lines: "_Placed", line_weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return words to draw alone, their languages, in order, and how often each is drawn.

        Frequencies are those of the lines and of the word list, half and half where a language has both.
        """
        count = len(corpus.words)
        each = torch.diff(lines.starts)
        is_counted = torch.repeat_interleave(lines.is_counted & (line_weights > 0), each)
        keys = (torch.repeat_interleave(lines.languages, each) * count + lines.words)[is_counted]
        from_lines = _sum_by_key(keys, torch.repeat_interleave(line_weights, each)[is_counted])
        listed = corpus.listed
        list_keys = torch.from_numpy(listed.languages * count + listed.words).to(self.device)
        from_lists = _sum_by_key(list_keys, torch.from_numpy(listed.counts).to(self.device))
        shares = [_share_by_language(keys // count, values) for keys, values in (from_lines, from_lists)]
        keys, values = _sum_by_key(torch.cat([from_lines[0], from_lists[0]]), torch.cat(shares))
        languages, words = keys // count, keys % count
        values = _share_by_language(languages, values)
        highest = torch.zeros(count, dtype=torch.float64, device=self.device)
        highest.scatter_reduce_(0, words, values, "amax")
        is_kept = values * self.plan.noise_ratio >= highest[words]
        words, languages, values = words[is_kept], languages[is_kept], values[is_kept]
        sizes = torch.from_numpy(corpus.sizes).to(self.device)[words].to(torch.int64)
        by_size = torch.tensor(LETTERS_WEIGHED, dtype=torch.float64, device=self.device)[
            sizes.clamp_max(len(LETTERS_WEIGHED) - 1)
        ]
        spaceless = torch.tensor([code in SPACELESS for code in LANGUAGES], device=self.device)
        by_size = torch.where(spaceless[languages], torch.ones_like(by_size), by_size)
        return words.to(torch.int32), languages, values**self.plan.frequency_power * by_size

    def batch(self, step: int, size: int) -> Batch:
        """Return `size` texts in an order of chance."""
        plan = self.plan
        random = torch.Generator(self.device).manual_seed(self.seed * 1_000_003 + step)
        draw = _Draw(random, self.device)
        other_count = int(size * plan.other_share)
        ours = size - other_count
        languages = self.present[draw.below(torch.full((ours,), len(self.present), device=self.device))]
        kinds = torch.searchsorted(self.kind_cumulative, draw.uniform(ours), right=True).clamp_max(len(KINDS) - 1)
        least, most = self.kind_least[kinds], self.kind_most[kinds]
        line = self._pick(self.line_cumulative, languages, draw)
        longest = least + draw.below(most - least + 1)
        first, end = self.line_starts[line], self.line_starts[line + 1]
        first = first + draw.below((end - first - longest).clamp_min(0) + 1)
        size_of = torch.minimum(longest, end - first)
        one, two = (self.first_single + self._pick(self.word_cumulative, languages, draw) for _ in range(2))
        is_single = most == 0
        first = torch.where(is_single, one, first)
        size_of = torch.where(is_single, torch.ones_like(size_of), size_of)
        other_first, other_size = self._others(other_count, draw)
        none = torch.zeros_like(other_size)
        # Each text is two slices; the second one is empty but for a loose pair.
        order = torch.randperm(size, generator=random, device=self.device)
        firsts = torch.stack([torch.cat([first, other_first]), torch.cat([two, none])], 1)[order]
        seconds = torch.cat([(kinds == 1).to(size_of.dtype), none])
        sizes = torch.stack([torch.cat([size_of, other_size]), seconds], 1)[order]
        numbers = torch.cat([languages, torch.full((other_count,), -1, device=self.device)])[order]
        words = self.words[slices(firsts.flatten(), sizes.flatten())]
        words = self._change(words, sizes.sum(1), numbers, draw)
        starts = torch.zeros(size + 1, dtype=torch.int64, device=self.device)
        torch.cumsum(sizes.sum(1), 0, out=starts[1:])
        return Batch(words, starts, numbers)

    def _pick(self, cumulative: Tensor, languages: Tensor, draw: "_Draw") -> Tensor:
        wanted = languages + draw.uniform(len(languages))
        return torch.searchsorted(cumulative, wanted, right=True).clamp_max(len(cumulative) - 1)

    def _others(self, count: int, draw: "_Draw") -> tuple[Tensor, Tensor]:
        """Return slices of lines in none of the languages, half of them parts; sometimes nothing at all."""
        line = draw.below(torch.full((count,), len(self.other_starts) - 1, device=self.device))
        first, end = self.other_starts[line], self.other_starts[line + 1]
        least, most = OTHER_WORDS
        part = least + draw.below(torch.full((count,), most - least, device=self.device))
        longest = torch.where(draw.uniform(count) < 0.5, part, end - first)
        longest = torch.where(draw.uniform(count) < EMPTY_SHARE, torch.zeros_like(longest), longest)
        first = first + draw.below((end - first - longest).clamp_min(0) + 1)
        return first, torch.minimum(longest, end - first)

    def _change(self, words: Tensor, sizes: Tensor, languages: Tensor, draw: "_Draw") -> Tensor:
        """Return the words with diacritics lost and typing errors made, in some texts."""
        if self.plan.plain_share:
            is_plain = draw.uniform(len(sizes)) < self.plain_shares[languages]
            words = torch.where(torch.repeat_interleave(is_plain, sizes), self.plain[words], words)
        if self.plan.mistyped_share:
            is_mistyped = torch.repeat_interleave(draw.uniform(len(sizes)) < self.plan.mistyped_share, sizes)
            is_mistyped &= (draw.uniform(len(words)) < MISTYPED_WORDS) | torch.repeat_interleave(sizes == 1, sizes)
            words = torch.where(is_mistyped, self.mistyped[words], words)
        return words


class _Placed(NamedTuple):
    words: Tensor
    starts: Tensor
    languages: Tensor
    sources: Tensor
    is_counted: Tensor


def _place(lines: Lines, device: torch.device) -> _Placed:
    arrays = (lines.words, lines.starts, lines.languages, lines.sources, lines.is_counted)
    return _Placed(*(torch.from_numpy(array).to(device) for array in arrays))


class _Draw:
    """Random numbers of one batch."""

    def __init__(self, random: torch.Generator, device: torch.device) -> None:
        self.random = random
        self.device = device

    def uniform(self, count: int) -> Tensor:
        """Return f64 [count] in [0, 1)."""
        return torch.rand(count, generator=self.random, device=self.device, dtype=torch.float64)

    def below(self, limits: Tensor) -> Tensor:
        """Return an integer in [0, limit) for each limit >= 1."""
        return (self.uniform(len(limits)) * limits).to(torch.int64)


def accumulate(languages: Tensor, weights: Tensor) -> Tensor:
    """Return running sums in which the entries of language i fill (i, i + 1]; `languages` rises."""
    shares = _share_by_language(languages, weights)
    total = torch.cumsum(shares, 0)
    before = torch.zeros(len(LANGUAGES) + 1, dtype=torch.float64, device=weights.device)
    before[1:] = torch.zeros(len(LANGUAGES), dtype=torch.float64, device=weights.device).scatter_add_(
        0, languages, shares
    )
    before = torch.cumsum(before, 0)
    return total - before[languages] + languages


def slices(firsts: Tensor, sizes: Tensor) -> Tensor:
    """Return the places of slices, one after the other: first, first + 1, … for `size` places each."""
    ends = torch.cumsum(sizes, 0)
    total = int(ends[-1])
    places = torch.repeat_interleave(firsts - (ends - sizes), sizes, output_size=total)
    return places + torch.arange(total, device=firsts.device)


def _sum_by_key(keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    found, inverse = torch.unique(keys, return_inverse=True)
    return found, torch.zeros(len(found), dtype=torch.float64, device=keys.device).scatter_add_(0, inverse, values)


def _share_by_language(languages: Tensor, values: Tensor) -> Tensor:
    total = torch.zeros(len(LANGUAGES), dtype=torch.float64, device=values.device)
    total.scatter_add_(0, languages, values)
    return values / total.clamp_min(1e-300)[languages]


HashBatch = Callable[..., tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]]
"""`alcove.runtime._native.ngram_hash_batch`."""


class BagTable:
    """The n-gram ids of every word, hashed once.

    Args:
        words: of a corpus.
        config: gives orders, buckets and seed.
        hash_batch: `alcove.runtime._native.ngram_hash_batch`.
        device: of the table.
    """

    def __init__(
        self, words: list[str], config: ModelConfig, hash_batch: HashBatch, device: torch.device | str = "cpu"
    ) -> None:
        ids, starts = hash_texts(words, config, hash_batch)
        self.ids = torch.from_numpy(ids).to(device)
        self.starts = torch.from_numpy(np.asarray(starts, np.int64)).to(device)

    def bags(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return (ids, starts) of the texts of a batch: text i has `ids[starts[i]:starts[i + 1]]`."""
        words = batch.words.to(torch.int64)
        first = self.starts[words]
        sizes = self.starts[words + 1] - first
        ids = self.ids[slices(first, sizes)]
        before = torch.zeros(len(words) + 1, dtype=torch.int64, device=first.device)
        torch.cumsum(sizes, 0, out=before[1:])
        return ids, before[batch.starts]


def hash_texts(
    texts: list[str], config: ModelConfig, hash_batch: HashBatch
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Return (ids, starts) of texts, as the program hashes them once they are composed."""
    return hash_batch(texts, config.min_order, config.max_order, config.buckets, config.seed, config.capacity)


def keep(ids: Tensor, starts: Tensor, is_kept: Tensor) -> tuple[Tensor, Tensor]:
    """Return bags without the ids that are not kept; bag i has `ids[starts[i]:starts[i + 1]]`."""
    before = torch.zeros(len(ids) + 1, dtype=torch.int64, device=ids.device)
    torch.cumsum(is_kept, 0, out=before[1:])
    return ids[is_kept], before[starts]
