"""Chooses which of a picture's tags to show, and in which order."""

from functools import cache
from typing import Any, Final

import numpy as np
from alcove.features.scene_tags.tags import ANIMAL, PLACES, ROOTS, TAGS, TREE, ancestors, subtree
from numpy.typing import NDArray

NAMED_FROM: Final = 0.5
"""Score from which on a picture counts as having a tag: scores are calibrated, so it is more likely than not."""
UNCONFIRMED_COUNTS: Final = 0.5
"""Of a score in the order, where the detector knows no such thing: two that agree are heard first."""
UNCONFIRMED_ANIMAL_COUNTS: Final = 0.75
"""The same of animals: the detector knows ten of them, MobileNetV2 404 kinds."""
PLACE_COUNTS: Final = 0.35
"""Of a place's score: a bus in a street is a picture of a bus."""
BROAD_COUNTS: Final = 0.8
"""Of a score of a tag that has others below it and that the detector does not know by itself: "mammal" says little."""


def rank_tags(scores: NDArray[Any], count: int) -> list[int]:
    """Return places in `TAGS`, best first: what is in the picture, then what may be.

    A root of the tree is never shown.  A tag gives way to one below it that is more likely than not ("dog", not
    "mammal"); where none is, it stays, and says as much as is known.

    Args:
        scores: f32 [tags], in [0, 1].
        count: at most so many.
    """
    ends, is_shown, counts = _tables()
    named = np.concatenate([[0], np.cumsum(scores >= NAMED_FROM)])
    has_named_below = named[ends] > named[1:]
    order = np.argsort(np.where(is_shown & ~has_named_below, -scores * counts, 1.0), kind="stable")
    return [int(at) for at in order[:count] if is_shown[at] and not has_named_below[at]]


@cache
def _tables() -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.float64]]:
    """Return where the subtree of each tag ends, whether it may be shown, and what its score counts in the order."""
    ends = np.array([subtree(tag)[-1] + 1 for tag in TAGS])
    is_shown = np.array([tag not in ROOTS for tag in TAGS])
    is_place = [any(root in PLACES for root in (tag, *ancestors(tag))) for tag in TAGS]
    is_detected = [any(TREE[below].category for below in subtree(tag)) for tag in TAGS]
    is_broad = [len(subtree(tag.name)) > 1 and not tag.category for tag in TREE]
    is_animal = np.array([ANIMAL in (tag, *ancestors(tag)) for tag in TAGS])
    unconfirmed = np.where(is_animal, UNCONFIRMED_ANIMAL_COUNTS, UNCONFIRMED_COUNTS)
    counts = np.where(is_place, PLACE_COUNTS, np.where(is_detected, 1.0, unconfirmed))
    return ends, is_shown, counts * np.where(is_broad, BROAD_COUNTS, 1.0)
