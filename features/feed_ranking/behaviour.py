"""Measures what one hit rate hides: short histories, rare items, what is recommended, and ties.

All of one network on the questions of one set; items are rows of its table, and counts are of what training learned.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

import numpy as np
from alcove.features.feed_ranking.dataset import Ids, Questions
from alcove.features.feed_ranking.harness import TOP, Answers, Scores, answers_of, score_of_places
from alcove.features.feed_ranking.scoring import Ranker, first_of_all

Scorer = Callable[[Questions], Scores]

LENGTHS: Final = (0, 1, 2, 3, 5, 10)
"""Latest items of a history that are given, in place of all."""
MOST: Final = 5000
"""Questions that are asked again with short histories, and users whose first ten of all items are listed."""
SEED: Final = 11


def shorten(questions: Questions, length: int) -> Questions:
    """Return the same questions, of which only the latest `length` items of each history are known."""
    return Questions(
        questions.rows,
        tuple(history[max(0, len(history) - length) :] for history in questions.histories),
        questions.candidates,
    )


def by_length(score: Scorer, questions: Questions) -> dict[str, Any]:
    """Return the figures with the latest 0, 1, 2, ... items of the same histories, as JSON values."""
    some = questions.some(MOST, SEED)
    found = {str(length): answers_of(score(shorten(some, length))).places for length in LENGTHS}
    found["all"] = answers_of(score(some)).places
    return {length: asdict(score_of_places(places)) for length, places in found.items()}


def by_popularity(answers: Mapping[str, Answers], questions: Questions, counts: Ids) -> dict[str, Any]:
    """Return each model's figures on targets of the rarest, middle and most popular third of items, as JSON values."""
    order = np.argsort(counts[1:], kind="stable") + 1
    third = np.zeros(len(counts), np.int64)
    for number, rows in enumerate(np.array_split(order, 3)):
        third[rows] = number
    target = third[questions.candidates[:, 0]]
    result = {}
    for number, name in enumerate(("rarest", "middle", "most popular")):
        chosen = target == number
        if chosen.any():
            result[name] = {
                "questions": int(chosen.sum()),
                "interactions": int(counts[third == number].sum()),
                "scores": {model: asdict(score_of_places(found.places[chosen])) for model, found in answers.items()},
            }
    return result


def ties(answers: Answers) -> dict[str, float]:
    """Return how much hangs on how ties count, as JSON values: here they are lost."""
    return {
        "share": float((answers.tied > 0).mean()),
        "mean": float(answers.tied.mean()),
        "hit_rate_lost": float((answers.places < TOP).mean()),
        "hit_rate_won": float((answers.places - answers.tied < TOP).mean()),
    }


def describe_lists(ranker: Ranker, questions: Questions, counts: Ids) -> dict[str, float]:
    """Return how popular the first ten of all items that each user lacks are, and how they spread, as JSON values.

    The Gini coefficient is of how often each item is among somebody's ten: 0 for all alike, 1 for one item alone.
    """
    some = questions.some(MOST, SEED)
    lists = first_of_all(ranker, some, len(counts), TOP)
    shown = np.bincount(lists.ravel(), minlength=len(counts))[1:]
    targets = np.bincount(some.candidates[:, 0], minlength=len(counts))[1:]
    return {
        "users": float(len(lists)),
        "recommended_count": float(counts[lists].mean()),
        "taken_count": float(counts[some.candidates[:, 0]].mean()),
        "recommended_median": float(np.median(counts[lists])),
        "taken_median": float(np.median(counts[some.candidates[:, 0]])),
        "coverage": float((shown > 0).mean()),
        "gini": gini(shown),
        "taken_gini": gini(targets),
    }


def gini(values: Ids) -> float:
    """Return the Gini coefficient of counts, 0 if they are all 0."""
    ordered = np.sort(values)
    total, n = ordered.sum(), len(ordered)
    if not total:
        return 0.0
    return float((2 * (np.arange(1, n + 1) * ordered).sum() / total - (n + 1)) / n)
