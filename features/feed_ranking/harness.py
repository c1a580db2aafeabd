"""Scores orders of candidates by hit rate and gain over many questions, with baselines that need no training."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from alcove.features.feed_ranking.config import HISTORY
from alcove.features.feed_ranking.dataset import Ids, Lines, Questions
from numpy.typing import NDArray

Scores = NDArray[np.float32]

TOP: Final = 10
NEIGHBOURS: Final = 200
"""Neighbours of an item that item-kNN reads; the others count as unlike it."""
SHRINKAGE: Final = 10.0
"""Added under the cosine, so that two items that met once are not equals."""


@dataclass(frozen=True)
class Score:
    """How good some answers are.

    Attributes:
        hit_rate: share of questions whose target is among the first `TOP`.
        gain: mean normalised discounted cumulative gain there: 1 / log2(1 + place) of the target.
        first_rate: share of targets in the first place.
        questions: how many.
    """

    hit_rate: float
    gain: float
    first_rate: float
    questions: int


@dataclass(frozen=True)
class Answers:
    """Where the item that came next stands, for each question.

    Attributes:
        places: candidates before it, those that tie among them, int64 [n].
        tied: candidates that tie with it, int64 [n].
        places_of_all: items before it among all that the history lacks, those that tie among them, int64 [n]; None if
            they were not ranked.
    """

    places: Ids
    tied: Ids
    places_of_all: Ids | None = None


def answers_of(scores: Scores, places_of_all: Ids | None = None) -> Answers:
    """Return the answers in scores f32 [n, candidates], the target's first."""
    target, others = scores[:, :1], scores[:, 1:]
    return Answers((others >= target).sum(axis=1), (others == target).sum(axis=1), places_of_all)


def score_of(scores: Scores) -> Score:
    """Return the score of scores f32 [n, candidates], the target's first; who ties with the target is before it."""
    return score_of_places(answers_of(scores).places)


def score_of_places(places: Ids) -> Score:
    """Return the score of targets with so many candidates before them.

    Source: leave-one-out as in He et al., Neural Collaborative Filtering (2017), HR@10 and NDCG@10.
    """
    hits = places < TOP
    gains = np.where(hits, 1 / np.log2(places + 2), 0.0)
    return Score(float(hits.mean()), float(gains.mean()), float((places == 0).mean()), len(places))


def counts_of(lines: Lines, rows: int) -> Ids:
    """Return how often each of `rows` rows was touched; lines hold rows of the table here and below."""
    return np.bincount(np.concatenate(lines.items), minlength=rows)


def popularity(lines: Lines, rows: int) -> Callable[[Questions], Scores]:
    """Return a scorer that knows only how often each item was touched; ties by a fixed draw."""
    tie = np.random.default_rng(0).random(rows)
    counts = (counts_of(lines, rows) + 0.5 * tie).astype(np.float32)
    return lambda questions: counts[questions.candidates]


def item_knn(lines: Lines, rows: int) -> Callable[[Questions], Scores]:
    """Return a scorer by the likeness of a candidate to the latest items of a history, later ones counting more.

    Likeness is the cosine of who touched both, shrunk (Sarwar et al., 2001; shrinkage as in Bell and Koren, 2007), of
    the `NEIGHBOURS` most alike; the weight of an item in the history falls by a fifth with each that came after it.
    """
    like = _neighbours(lines, rows)
    tie = (counts_of(lines, rows) / (1e6 + len(lines.items))).astype(np.float32)

    def scores(questions: Questions) -> Scores:
        found = np.empty(questions.candidates.shape, np.float32)
        for number, (history, candidates) in enumerate(zip(questions.histories, questions.candidates, strict=True)):
            total: dict[int, float] = {}
            for age, item in enumerate(history[-HISTORY:][::-1].tolist()):
                for other, alike in like[item].items():
                    total[other] = total.get(other, 0.0) + 0.8**age * alike
            found[number] = [total.get(item, 0.0) for item in candidates.tolist()] + tie[candidates]
        return found

    return scores


def _neighbours(lines: Lines, rows: int) -> list[dict[int, float]]:
    users = [np.unique(items[items > 0]) for items in lines.items]
    of_item: list[list[int]] = [[] for _ in range(rows)]
    for user, items in enumerate(users):
        for item in items.tolist():
            of_item[item].append(user)
    counts = np.array([len(found) for found in of_item], np.float64)
    result: list[dict[int, float]] = []
    for item, found in enumerate(of_item):
        if not found:
            result.append({})
            continue
        both = np.bincount(np.concatenate([users[user] for user in found]), minlength=rows)
        both[item] = 0
        met = np.flatnonzero(both)
        alike = both[met] / (np.sqrt(counts[item] * counts[met]) + SHRINKAGE)
        if len(met) > NEIGHBOURS:
            best = np.argpartition(-alike, NEIGHBOURS)[:NEIGHBOURS]
            met, alike = met[best], alike[best]
        result.append(dict(zip(met.tolist(), alike.tolist(), strict=True)))
    return result
