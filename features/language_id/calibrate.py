"""Calibrates the model: fits its temperature on lines of the training text that training never drew.

The temperature depends on how much of a text is known (network.py), so that words, pairs and sentences are honest at
once.  Its three numbers are fitted by L-BFGS to the cross entropy of words, pairs and sentences, a third each; then all
scores are lowered a little (`CAUTION`).

Source: temperature scaling, Guo et al., "On Calibration of Modern Neural Networks", 2017, section 4.2.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from alcove.features.language_id.config import LANGUAGES, ModelConfig
from alcove.features.language_id.dataset import SPACELESS, HashBatch, HeldOut
from alcove.features.language_id.network import (
    TEMPERATURE,
    LanguageIdNetwork,
    compress_scores,
    fake_quantize,
    log_known,
)
from torch import Tensor
from torch.nn import functional

SHORTEST_WORD: Final = 5
"""Letters of a word that stands alone, as in lid_dev.tsv.xz."""

PER_LANGUAGE: Final = 300
ROUNDS: Final = 60
HALVINGS: Final = 12
CAUTION: Final = 0.025
"""How far the probability of the best language may stay under the share of right guesses, for the kind that is worst.

Held-out lines come from the sources of training; text from elsewhere is guessed right less often at the same scores.
So the model is a little too unsure of the one and less too sure of the other: CARD.md has both.
"""
RIDGE: Final = 1e-5
"""Of the squares of the three numbers, so that samples without a mistake have a finite answer too."""


@dataclass(frozen=True)
class Sample:
    """Texts of one kind with the numbers of their languages."""

    texts: list[str]
    languages: npt.NDArray[np.int64]


def samples(lines: Sequence[HeldOut], *, seed: int, per_language: int = PER_LANGUAGE) -> list[Sample]:
    """Return words, pairs and sentences of held-out lines, as many of each language as there are, at most as asked.

    Words and pairs stand in the lines, 5 letters or more; languages without spaces give sentences alone.
    """
    rng = np.random.default_rng(seed)
    kinds: list[list[tuple[str, int]]] = [[], [], []]
    for language, code in enumerate(LANGUAGES):
        own = [line for line in lines if line.language == language]
        if not own:
            continue
        weights = np.array([line.weight for line in own])
        order = rng.choice(len(own), len(own), replace=False, p=weights / weights.sum()).tolist()
        kinds[2] += [(own[i].text, language) for i in order[:per_language]]
        if code in SPACELESS:
            continue
        words: list[str] = []
        pairs: list[str] = []
        for i in order:
            split = own[i].words
            long = [word for word in split if len(word) >= SHORTEST_WORD]
            near = [f"{a} {b}" for a, b in pairwise(split) if min(len(a), len(b)) >= SHORTEST_WORD]
            words += rng.permutation(long)[:2].tolist() if long else []
            pairs += rng.permutation(near)[:2].tolist() if near else []
        kinds[0] += [(word, language) for word in dict.fromkeys(words[: 2 * per_language])][:per_language]
        kinds[1] += [(pair, language) for pair in pairs[:per_language]]
    return [Sample([t for t, _ in kind], np.array([i for _, i in kind], np.int64)) for kind in kinds if kind]


def fit(
    network: LanguageIdNetwork, config: ModelConfig, kinds: Sequence[Sample], hash_batch: HashBatch
) -> dict[str, float]:
    """Set the temperature of `network`, whose table is taken as the program stores it; return it by name.

    Raises:
        ValueError: the network has no temperature, or there are no samples.
    """
    if not network.weighs or not kinds:
        raise ValueError("a temperature is fitted to samples, for a network that weighs its n-grams")
    with torch.no_grad():
        for name in TEMPERATURE:
            network.get_parameter(name).zero_()
        table = fake_quantize(network.table.weight)
        parts = [_scores(network, config, table, kind, hash_batch) for kind in kinds]
        weights = torch.cat([torch.full((len(kind.texts),), 1 / len(kind.texts)) for kind in kinds]) / len(kinds)
    scores = torch.cat([part[0] for part in parts])
    known = torch.cat([part[1] for part in parts])
    languages = torch.from_numpy(np.concatenate([kind.languages for kind in kinds]))
    powers = torch.cat([torch.ones_like(known), known, known * known], dim=1)
    found = torch.zeros(3, requires_grad=True)
    with torch.no_grad():  # begin where the scores have about the right size: far from it a step may go astray
        starts = torch.linspace(-3, 1, 17)
        losses = [
            (
                functional.cross_entropy(compress_scores(scores * start.exp()), languages, reduction="none") * weights
            ).sum()
            for start in starts
        ]
        found[0] = starts[int(torch.stack(losses).argmin())]
    optimiser = torch.optim.LBFGS([found], max_iter=ROUNDS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        each = functional.cross_entropy(
            compress_scores(scores * torch.exp(powers @ found)[:, None]), languages, reduction="none"
        )
        total = (each * weights).sum() + RIDGE * (found * found).sum()
        torch.autograd.backward(total)
        return total

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        found[0] += _caution(scores * torch.exp(powers @ found)[:, None], languages, [len(k.texts) for k in kinds])
        for name, value in zip(TEMPERATURE, found.tolist(), strict=True):
            network.get_parameter(name).fill_(value)
    return {name: round(value, 5) for name, value in zip(TEMPERATURE, found.tolist(), strict=True)}


def _caution(scores: Tensor, languages: Tensor, counts: Sequence[int]) -> float:
    """Return the logarithm, <= 0, of what scores are to be multiplied with to be `CAUTION` too unsure of some kind."""
    low, high = -1.0, 0.0
    is_right = (scores.argmax(dim=1) == languages).float()
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        probability = functional.softmax(compress_scores(scores * math.exp(middle)), dim=1).amax(dim=1)
        gaps = [part.mean().item() for part in torch.split(is_right - probability, list(counts))]
        low, high = (middle, high) if max(gaps) > CAUTION else (low, middle)
    return high


def _scores(
    network: LanguageIdNetwork, config: ModelConfig, table: Tensor, kind: Sample, hash_batch: HashBatch
) -> tuple[Tensor, Tensor]:
    ids, starts = hash_batch(
        kind.texts, config.min_order, config.max_order, config.buckets, config.seed, config.capacity
    )
    offsets = torch.from_numpy(np.asarray(starts, np.int64)[:-1])
    bags = functional.embedding_bag(torch.from_numpy(ids).to(torch.int64), table, offsets, mode="sum")
    return network.scores(bags), log_known(bags)
