"""Calibrates the model: fits its temperature to texts of sources that the scoring networks were trained without.

One number makes words, pairs and sentences honest at once, as the scores are sums over the n-grams of a text and so
grow with its length; one more for each language lets the model doubt what it says of Croatian more than what it says of
Korean.  They are chosen for the gaps between mean probability and share of right guesses: the cross entropy
makes words 4 points too doubtful, as it fears the few sources on which the model errs with confidence.

Source: temperature scaling, Guo et al., "On Calibration of Modern Neural Networks", 2017, section 4.2.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import torch
from alcove.features.language_id.config import LANGUAGES, ModelConfig
from alcove.features.language_id.network import LanguageIdNetwork, apply_temperature, fake_quantize
from alcove.features.language_id.sampling import HashBatch, hash_texts
from torch import Tensor
from torch.nn import functional

LOWEST, HIGHEST, NEAR, PRECISION = -3.0, 1.0, 0.2, 1e-3
"""Where the logarithm of a temperature's inverse is looked for, how far from a good one, and how closely."""

RIDGE: Final = 10.0
"""What keeps the languages' numbers small: 1 / 0.3², as if they were known to be 0 ± 0.3 before a text is seen."""

NEWTON_STEPS, LEAST_SLOPE, MOST = 6, 0.02, 1.0
"""Of the languages' numbers: how often, least slope of a probability by its number, and how far from 0 they may be."""

BINS: Final = 15


class Scored(NamedTuple):
    """What a network says of texts of one kind.

    Attributes:
        scores: f32 [n, 75], without temperature.
        languages: int64 [n], the true ones.
    """

    scores: Tensor
    languages: Tensor


def score(
    network: LanguageIdNetwork,
    config: ModelConfig,
    texts: Sequence[str],
    languages: Sequence[int],
    *,
    hash_batch: HashBatch,
) -> Scored:
    """Return the scores of texts, by the network with its table as the program stores it.

    Args:
        network: any.
        config: its shape.
        texts: any.
        languages: their true ones, by number.
        hash_batch: `alcove.runtime._native.ngram_hash_batch`.
    """
    device = network.table.weight.device
    found, begins = hash_texts(list(texts), config, hash_batch)
    ids, starts = torch.from_numpy(found).to(device), torch.from_numpy(begins).to(device=device, dtype=torch.int64)
    with torch.no_grad():
        table = fake_quantize(network.table.weight)
        bags = functional.embedding_bag(ids.to(torch.int64), table, starts[:-1], mode=network.table.mode)
        return Scored(network.scores(bags).cpu(), torch.tensor(languages, dtype=torch.int64))


def probabilities(scored: Scored, temperature: Tensor) -> Tensor:
    """Return the probabilities of the languages, f32 [n, 75], under a temperature f32 [75]."""
    return functional.softmax(apply_temperature(scored.scores, temperature), dim=1)


def fit(kinds: Sequence[Sequence[Scored]], *, by_language: bool = True) -> Tensor:
    """Return the temperature of texts of several kinds, f32 [75] (`network.apply_temperature`).

    The mean probability of the best language shall be the share of right guesses, for each kind by itself: one number
    for all languages makes the sum of the squares of their gaps the least.  And for each language that is the best one:
    how far its own number d is from that solves sum of (probability - right) + `RIDGE` d = 0 over the texts of all
    kinds (damped Newton steps), so that a language with few texts stays near the others.

    Args:
        kinds: for each kind sets of texts (of a source each), which count the same for the number of all languages.
        by_language: whether languages have numbers of their own; otherwise all have the same one.

    Raises:
        ValueError: there are no texts.
    """
    filled = [sets for own in kinds if (sets := [scored for scored in own if len(scored.languages)])]
    if not filled:
        raise ValueError("a temperature is fitted to texts")
    own = torch.zeros(len(LANGUAGES))
    common = _fit_common(filled, own, LOWEST, HIGHEST)
    if not by_language:
        return own + common
    for _ in range(NEWTON_STEPS):
        own = _fit_own(filled, own, common)
    return own + _fit_common(filled, own, common - NEAR, common + NEAR)


def _fit_common(kinds: Sequence[Sequence[Scored]], own: Tensor, low: float, high: float) -> float:
    """Return the number of all languages that closes the gaps of the kinds best, between two bounds."""
    shares = [_mean([_share_right(scored) for scored in sets]) for sets in kinds]

    def squares(common: float) -> float:
        means = [_mean([_mean_probability(scored, own + common) for scored in sets]) for sets in kinds]
        return sum((mean - share) ** 2 for mean, share in zip(means, shares, strict=True))

    ratio = (math.sqrt(5) - 1) / 2
    while high - low > PRECISION:  # golden-section search
        width = ratio * (high - low)
        low, high = (low, low + width) if squares(high - width) < squares(low + width) else (high - width, high)
    return (low + high) / 2


def _fit_own(kinds: Sequence[Sequence[Scored]], own: Tensor, common: float) -> Tensor:
    """Return the languages' own numbers after one more Newton step, f32 [75]; b (1 - b) is about the slope of b."""
    gaps, slopes = RIDGE * own, torch.full_like(own, RIDGE)
    for scored in (scored for sets in kinds for scored in sets):
        best, guesses = probabilities(scored, own + common).max(dim=1)
        gaps = gaps.index_add(0, guesses, best - (guesses == scored.languages).to(best.dtype))
        slopes = slopes.index_add(0, guesses, best * (1 - best) + LEAST_SLOPE)
    moved = (own - gaps / slopes).clamp(-MOST, MOST)
    return moved - moved.mean()


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _share_right(scored: Scored) -> float:
    return float((scored.scores.argmax(dim=1) == scored.languages).to(torch.float64).mean())


def _mean_probability(scored: Scored, temperature: Tensor) -> float:
    return float(probabilities(scored, temperature).amax(dim=1).to(torch.float64).mean())


def accuracy(scored: Scored) -> float:
    """Return the mean over the languages of their shares of right guesses."""
    is_right = (scored.scores.argmax(dim=1) == scored.languages).to(torch.float64)
    each = [is_right[scored.languages == language].mean() for language in torch.unique(scored.languages)]
    return float(torch.stack(each).mean())


class Verdicts(NamedTuple):
    """The best languages of texts: their probabilities f32 [n], and whether they are right, bool [n]."""

    probabilities: Tensor
    is_right: Tensor


def judge(scored: Scored, temperature: Tensor) -> Verdicts:
    """Return the best language of each text under a temperature f32 [75]."""
    best, guesses = probabilities(scored, temperature).max(dim=1)
    return Verdicts(best, guesses == scored.languages)


def calibration_error(verdicts: Verdicts) -> tuple[float, float]:
    """Return (expected calibration error, mean probability less share of right guesses); bins as in `metrics`."""
    gap = verdicts.probabilities.to(torch.float64) - verdicts.is_right.to(torch.float64)
    places = (verdicts.probabilities * BINS).to(torch.int64).clamp_max(BINS - 1)
    sums = torch.zeros(BINS, dtype=torch.float64, device=gap.device).scatter_add_(0, places, gap)
    return float(sums.abs().sum() / len(gap)), float(gap.mean())


def set_temperature(network: LanguageIdNetwork, temperature: Mapping[str, float]) -> None:
    """Give a network its temperature.

    Args:
        network: of a version that weighs its n-grams.
        temperature: by the code of the language.

    Raises:
        ValueError: the network has none.
        KeyError: a language has no number.
    """
    if not network.weighs:
        raise ValueError("only a network that weighs its n-grams has a temperature")
    with torch.no_grad():
        network.temperature.copy_(torch.tensor([temperature[code] for code in LANGUAGES]))
