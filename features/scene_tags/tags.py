"""Reads the tree of tags: plain words, each under a broader one, and where each is seen; needs no torch.

`tags.tsv` holds it: a tag, the tag above it, the classes of ImageNet and the category of COCO that show it (the classes
of tags below it show it too), and what it does to the mood of music.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).parent / "tags.tsv"


@dataclass(frozen=True)
class Tag:
    """A row of the tree.

    Attributes:
        name: plain words, lower case.
        parent: the name of the broader tag; "" at a root.
        classes: of ImageNet that show it and none below it, in the order of sorted WordNet ids.
        category: of COCO, or "".
        mood: brightness and energy of music, each in [-1, 1]; None as the parent has it.
    """

    name: str
    parent: str
    classes: tuple[int, ...]
    category: str
    mood: tuple[float, float] | None


def _numbers(text: str) -> Iterator[int]:
    for part in text.split():
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _read() -> tuple[Tag, ...]:
    with FILE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return tuple(
        Tag(
            name=row["tag"],
            parent=row["parent"],
            classes=tuple(_numbers(row["imagenet"])),
            category=row["coco"],
            mood=_pair(row["mood"]),
        )
        for row in rows
    )


def _pair(text: str) -> tuple[float, float] | None:
    if not text:
        return None
    brightness, energy = text.split()
    return float(brightness), float(energy)


TREE: Final = _read()
"""Depth first: each tag before those below it, and these before its neighbor."""
TAGS: Final = tuple(tag.name for tag in TREE)
"""In the order of the model's scores."""
ROOTS: Final = frozenset(tag.name for tag in TREE if not tag.parent)
"""The broadest tags, which say too little to be an answer."""
PLACES: Final = "place", "nature"
"""Roots of what is around things rather than a thing."""
ANIMAL: Final = "animal"
"""The root of which MobileNetV2 knows far more than the detector."""
_PARENTS: Final = {tag.name: tag.parent for tag in TREE}


@cache
def ancestors(name: str) -> tuple[str, ...]:
    """Return the broader tags, the nearest first.

    Raises:
        KeyError: there is no such tag.
    """
    parent = _PARENTS[name]
    return (parent, *ancestors(parent)) if parent else ()


@cache
def subtree(name: str) -> tuple[int, ...]:
    """Return the places in `TAGS` of a tag and of all below it."""
    return tuple(at for at, each in enumerate(TAGS) if each == name or name in ancestors(each))


@cache
def mood(name: str) -> tuple[float, float]:
    """Return what a tag does to the mood of music: its own, or that of the nearest broader tag; (0, 0) without any."""
    by_name = {tag.name: tag.mood for tag in TREE}
    return next((found for each in (name, *ancestors(name)) if (found := by_name[each]) is not None), (0.0, 0.0))
