"""Re-ranks candidates by relevance, less if seen, more if new, less for the same again.

Every weight is in the unit of the scores, the logarithm of odds: 0.7 doubles or halves the odds.  With the weights w

    value = relevance - w.recency 2^(-seen_h / 24) + w.freshness 2^(-age_h / 48)
    shown next: the greatest of value - w.diversity max(0, cos to any item shown before)

The second line is maximal marginal relevance (Carbonell and Goldstein, 1998) on the items' vectors.  Equal values are
shown in the order in which they were given; nothing is drawn.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SEEN_HALF_LIFE_H: Final = 24.0
"""Hours after which it counts half that an item was seen."""
FRESH_HALF_LIFE_H: Final = 48.0
"""Hours after which an item is half as new."""
UNKNOWN_AGE: Final = -1.0
"""In place of hours: never seen, or of unknown age; adds nothing."""


@dataclass(frozen=True)
class Order:
    """What is shown, the first first; all of one length.

    Attributes:
        places: of the items among the candidates.
        score: what decided, at its turn: the sum of the other four.
        relevance: of the model.
        recency: 0 or less, for having been seen.
        freshness: 0 or more, for being new.
        diversity: 0 or less, for being like what is shown before.
    """

    places: NDArray[np.int64]
    score: Floats
    relevance: Floats
    recency: Floats
    freshness: Floats
    diversity: Floats


def rerank(
    relevance: Floats,
    seen_h: Floats,
    age_h: Floats,
    vectors: NDArray[np.float32],
    *,
    recency: float,
    freshness: float,
    diversity: float,
    limit: int,
) -> Order:
    """Return the first `limit` candidates.

    Args:
        relevance: the model's scores [n].
        seen_h: hours since each was shown to the user [n], `UNKNOWN_AGE` for never.
        age_h: hours since each was published [n], `UNKNOWN_AGE` where nobody knows.
        vectors: of the candidates [n, dim].
        recency: weight, 0 or more.
        freshness: weight, 0 or more.
        diversity: weight, 0 or more.
        limit: 1 or more.
    """
    count = min(limit, len(relevance))
    lost = 0.0 - recency * _decay(seen_h, SEEN_HALF_LIFE_H)
    gained = freshness * _decay(age_h, FRESH_HALF_LIFE_H)
    value = relevance + lost + gained
    if diversity == 0 or not count:
        places = np.argsort(-value, kind="stable")[:count]
        alike = np.zeros(count)
    else:
        places, alike = _marginal(value, vectors, diversity, count)
    found = (relevance[places], lost[places], gained[places], -diversity * alike + 0.0)
    return Order(places, sum(found, np.zeros(count)), *found)


def _decay(hours: Floats, half_life_h: float) -> Floats:
    return np.where(hours < 0, 0.0, 2.0 ** (-np.maximum(hours, 0.0) / half_life_h))


def _marginal(
    value: Floats, vectors: NDArray[np.float32], diversity: float, count: int
) -> tuple[NDArray[np.int64], Floats]:
    # An item loses at most the weight.  So at each turn one of the first `count` by value is left that beats all whose
    # value is less than the last of those by more than the weight: they are never shown, and need not be compared.
    least = np.partition(value, len(value) - count)[len(value) - count] - 1.001 * diversity
    kept = np.flatnonzero(value >= least)
    chosen = vectors[kept]
    unit = chosen / np.maximum(np.linalg.norm(chosen, axis=1, keepdims=True), 1e-12)
    alike = np.zeros(len(kept))
    left = value[kept]
    places, costs = np.empty(count, np.int64), np.empty(count)
    for turn in range(count):
        best = int(np.argmax(left - diversity * alike))
        places[turn], costs[turn] = kept[best], alike[best]
        left[best] = -np.inf
        np.maximum(alike, unit @ unit[best], out=alike)
    return places, costs
