"""Calibrates the model: fits its temperature to texts of sources that the scoring networks were trained without.

One number makes words, pairs and sentences honest at once, as the scores are sums over the n-grams of a text and so
grow with its length.  It is chosen for the gaps between mean probability and share of right guesses: the cross entropy
makes words 4 points too doubtful, as it fears the few sources on which the model errs with confidence.

Source: temperature scaling, Guo et al., "On Calibration of Modern Neural Networks", 2017, section 4.2.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import torch
from alcove.features.language_id.config import ModelConfig
from alcove.features.language_id.network import LanguageIdNetwork, compress_scores, fake_quantize, log_known
from alcove.features.language_id.sampling import HashBatch, hash_texts
from torch import Tensor
from torch.nn import functional

LOWEST, HIGHEST, ROUNDS = -3.0, 1.0, 24
"""Where the logarithm of a temperature's inverse is looked for, and how often the interval shrinks."""

BINS: Final = 15


class Scored(NamedTuple):
    """What a network says of texts of one kind.

    Attributes:
        scores: f32 [n, 75], without temperature.
        known: f32 [n, 1], as `network.log_known` gives it.
        languages: int64 [n], the true ones.
    """

    scores: Tensor
    known: Tensor
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
        known = log_known(bags) if config.weighs else torch.zeros(len(bags), 1, device=device)
        return Scored(network.scores(bags), known, torch.tensor(languages, dtype=torch.int64, device=device))


def probabilities(scored: Scored, temperature: Tensor) -> Tensor:
    """Return the probabilities of the languages, f32 [n, 75], under a temperature f32 [3]."""
    known = scored.known
    factors = torch.exp(torch.cat([torch.ones_like(known), known, known * known], dim=1) @ temperature)
    return functional.softmax(compress_scores(scored.scores * factors[:, None]), dim=1)


def fit(kinds: Sequence[Sequence[Scored]]) -> Tensor:
    """Return the temperature f32 [3] of texts of several kinds; the second and third number are 0.

    The mean probability of the best language shall be the share of right guesses, for each kind by itself: the sum of
    the squares of their gaps is the least.

    Args:
        kinds: for each kind sets of texts (of a source each), which count the same.

    Raises:
        ValueError: there are no texts.
    """
    filled = [sets for own in kinds if (sets := [scored for scored in own if len(scored.languages)])]
    if not filled:
        raise ValueError("a temperature is fitted to texts")
    shares = [_mean([_share_right(scored) for scored in sets]) for sets in filled]

    def squares(t0: float) -> float:
        temperature = torch.tensor([t0, 0.0, 0.0], device=filled[0][0].scores.device)
        means = [_mean([_mean_probability(scored, temperature) for scored in sets]) for sets in filled]
        return sum((mean - share) ** 2 for mean, share in zip(means, shares, strict=True))

    low, high = LOWEST, HIGHEST
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(ROUNDS):  # golden-section search
        width = ratio * (high - low)
        low, high = (low, low + width) if squares(high - width) < squares(low + width) else (high - width, high)
    return torch.tensor([(low + high) / 2, 0.0, 0.0], device=filled[0][0].scores.device)


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
    """Return the best language of each text under a temperature f32 [3]."""
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

    Raises:
        ValueError: it has none.
    """
    if not network.weighs:
        raise ValueError("only a network that weighs its n-grams has a temperature")
    with torch.no_grad():
        for name, value in temperature.items():
            network.get_parameter(name).fill_(value)
