"""Reads the photos of people that the feature is trained and measured on; needs Pillow (the `dev` extra).

Only photos whose license allows changed and commercial copies are trained on (`free_stills`); the others are looked at
to measure.
"""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from alcove.features.cutouts.dataset import Photo, read_photos
from numpy.typing import NDArray

PERSON: Final = "person"
"""Category of COCO."""


@dataclass(frozen=True, eq=False)
class Still:
    """A photo in memory, and where people are in it.

    Attributes:
        pixels: uint8 [height, width, 3].
        person: bool [height, width]; of a photo of several things all people.
        kind: the set that it comes from, a key of `cutouts.dataset.SETS`.
    """

    pixels: NDArray[np.uint8]
    person: NDArray[np.bool_]
    kind: str


def people_values(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the numbers of the people in the masks of photos of several things, by the photo's name.

    Raises:
        FileNotFoundError: `coco_instances_objects.csv` is missing.
    """
    found: dict[str, tuple[int, ...]] = {}
    with (folder / "coco_instances_objects.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["category"] == PERSON:
                found[row["coco_id"]] = (*found.get(row["coco_id"], ()), int(row["value"]))
    return found


def read_still(photo: Photo, people: dict[str, tuple[int, ...]]) -> Still:
    """Return a photo with its people.

    Args:
        photo: of any set.
        people: of `people_values`.
    """
    objects = photo.objects()
    is_person = np.isin(objects, people.get(photo.name, ())) if photo.kind == "things" else objects > 0
    return Still(photo.pixels(), is_person, photo.kind)


def free_stills(folder: Path) -> list[Still]:
    """Return the photos that may be trained on.

    Raises:
        FileNotFoundError: a file is missing.
    """
    return _stills(folder, ("people", "things"), is_dev=False, free_only=True)


def dev_stills(folder: Path, kind: str) -> list[Still]:
    """Return the photos of a set that are measured on, of any license; none of them is trained on.

    Raises:
        FileNotFoundError: a file is missing.
        KeyError: there is no such set.
    """
    return _stills(folder, (kind,), is_dev=True, free_only=False)


def _stills(folder: Path, kinds: tuple[str, ...], *, is_dev: bool, free_only: bool) -> list[Still]:
    people = people_values(folder)
    photos = [photo for kind in kinds for photo in read_photos(folder, kind)]
    return [
        read_still(photo, people) for photo in photos if photo.is_dev == is_dev and (photo.is_free or not free_only)
    ]
