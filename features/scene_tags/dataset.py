"""Reads the pictures that the feature is fitted on and measured on; needs Pillow (the `dev` extra).

photos     of COCO, with the categories that they show and the share of the picture that each takes
scenes     the six scenes of Intel
small      Tiny ImageNet, 64 x 64, of 200 classes

Only photos whose license allows changed and commercial copies may be fitted on (`Photo.is_free`); the others are looked
at to measure.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from alcove.features.scene_tags.config import LEFT_OUT
from numpy.typing import NDArray

FREE: Final = ("Attribution License", "Attribution-ShareAlike License", "No known copyright restrictions")
"""Licenses, as the photos' rows have them, without "NonCommercial" and "NoDerivs"."""
SHOWN: Final = 0.02
"""Share of the picture from which on a photo counts as having a thing; smaller things count neither way."""


@dataclass(frozen=True)
class Photo:
    """A picture in a packed file.

    Attributes:
        name: of the picture in its set.
        file: holds its bytes,
        offset: from here
        size: so many.
        label: class or scene; -1 without.
        license: as the row has it, or "".
        is_dev: in the split that nothing is fitted on.
        shares: of the picture, by category of COCO: the largest thing of that kind.
    """

    name: str
    file: Path
    offset: int
    size: int
    label: int = -1
    license: str = ""
    is_dev: bool = False
    shares: dict[str, float] = field(default_factory=dict)

    @property
    def is_free(self) -> bool:
        """Whether it may be fitted on for what is released."""
        return self.license in FREE

    def data(self) -> bytes:
        """Return the bytes of the file."""
        with self.file.open("rb") as file:
            file.seek(self.offset)
            return file.read(self.size)

    def pixels(self) -> NDArray[np.uint8]:
        """Return uint8 [height, width, 3]."""
        from PIL import Image  # noqa: PLC0415 - not a dependency of the feature

        with Image.open(io.BytesIO(self.data())) as image:
            return np.asarray(image.convert("RGB"))


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def photos(folder: Path) -> list[Photo]:
    """Return the photos of several things, from a folder with `coco_instances.csv` and its neighbors.

    Raises:
        FileNotFoundError: a file is missing.
    """
    rows = _rows(folder / "coco_instances.csv")
    pixels = {row["coco_id"]: int(row["width"]) * int(row["height"]) for row in rows}
    shares: dict[str, dict[str, float]] = {}
    for thing in _rows(folder / "coco_instances_objects.csv"):
        own = shares.setdefault(thing["coco_id"], {})
        share = int(thing["pixels"]) / pixels[thing["coco_id"]]
        own[thing["category"]] = max(share, own.get(thing["category"], 0.0))
    return [
        Photo(
            name=row["coco_id"],
            file=folder / "coco_instances.webps",
            offset=int(row["offset"]),
            size=int(row["size"]),
            license=row["licence"],
            is_dev=row["split"] == "dev",
            shares=shares.get(row["coco_id"], {}),
        )
        for row in rows
    ]


def single_person_photos(folder: Path) -> list[Photo]:
    """Return the photos with one person each, whose other things nobody listed."""
    return list(_read_labeled(folder, "coco_single_person", "webps"))


def scenes(folder: Path) -> list[Photo]:
    """Return the scenes; labels 0 to 5 are buildings, forest, glacier, mountain, sea, street."""
    return list(_read_labeled(folder, "intel_scenes_train", "jpegs"))


def small(folder: Path) -> list[Photo]:
    """Return Tiny ImageNet's pictures, labels 0 to 199."""
    return list(_read_labeled(folder, "tiny_imagenet_train", "jpegs"))


def is_left_out(photo: Photo) -> bool:
    """Return whether a picture of Tiny ImageNet is of a class that new tags are tried on."""
    return photo.label in LEFT_OUT


def _read_labeled(folder: Path, name: str, kind: str) -> Iterator[Photo]:
    for row in _rows(folder / f"{name}.csv"):
        yield Photo(
            name=row.get("file") or row["coco_id"],
            file=folder / f"{name}.{kind}",
            offset=int(row["offset"]),
            size=int(row["size"]),
            label=int(row.get("label", -1)),
            license=row.get("licence", ""),
            is_dev=row["split"] == "dev",
        )


def truth(chosen: Sequence[Photo], categories: Sequence[str]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which photos show which categories, and which of these questions count, bool [photos, categories]."""
    shares = np.array([[photo.shares.get(each, 0.0) for each in categories] for photo in chosen])
    has = shares >= SHOWN
    return has, has | (shares == 0)
