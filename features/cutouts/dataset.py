"""Reads the photos with masks that the feature is trained and measured on; needs Pillow (the `dev` extra).

people    photos of COCO with one person each
things    photos of COCO with several things, each with its own mask
clothes   photos of whole persons from fashion sites: measured on, never trained on

Only photos whose license allows changed and commercial copies may be trained on (`Photo.is_free`); the others are
looked at to measure.
"""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

FREE: Final = ("Attribution License", "Attribution-ShareAlike License", "No known copyright restrictions")
"""Licenses, as the photos' rows have them, without "NonCommercial" and "NoDerivs"."""
SETS: Final = {"people": "coco_single_person", "things": "coco_instances", "clothes": "clothing_co_parsing"}
"""Names of the files, by set."""


@dataclass(frozen=True)
class Photo:
    """A photo in a packed file, and its mask in another.

    Attributes:
        name: of the photo in its set.
        kind: the set, a key of `SETS`.
        stem: path of the packed files without their endings.
        span: offset and size of the photo.
        mask_span: offset and size of the mask.
        license: as the row has it, or "".
        is_dev: in the split that nothing is trained on.
    """

    name: str
    kind: str
    stem: Path
    span: tuple[int, int]
    mask_span: tuple[int, int]
    license: str
    is_dev: bool

    @property
    def is_free(self) -> bool:
        """Whether it may be trained on for what is released."""
        return self.license in FREE

    def pixels(self) -> NDArray[np.uint8]:
        """Return uint8 [height, width, 3]."""
        return _decode(self.stem.with_suffix(".webps"), self.span, "RGB")

    def objects(self) -> NDArray[np.uint8]:
        """Return the number of the thing that each pixel belongs to, uint8 [height, width]; 0 is background.

        Of `people` and `clothes` all that is not background is 1.
        """
        mask = _decode(self.stem.with_suffix(".masks"), self.mask_span, "L")
        return mask if self.kind == "things" else (mask > 0).astype(np.uint8)


def _decode(path: Path, span: tuple[int, int], mode: str) -> NDArray[np.uint8]:
    from PIL import Image  # noqa: PLC0415 - not a dependency of the feature

    with path.open("rb") as file:
        file.seek(span[0])
        data = file.read(span[1])
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image if mode == "L" and image.mode in {"L", "P"} else image.convert(mode))


def read_photos(folder: Path, kind: str) -> list[Photo]:
    """Return the photos of a set.

    Args:
        folder: with `coco_instances.csv` and its neighbors.
        kind: a key of `SETS`.

    Raises:
        FileNotFoundError: a file is missing.
        KeyError: there is no such set.
    """
    return list(_read(folder, kind))


def free_photos(folder: Path) -> list[Photo]:
    """Return the photos that may be trained on."""
    both = read_photos(folder, "people") + read_photos(folder, "things")
    return [photo for photo in both if photo.is_free and not photo.is_dev]


def _read(folder: Path, kind: str) -> Iterator[Photo]:
    stem = folder / SETS[kind]
    with stem.with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield Photo(
                name=row.get("coco_id") or row["id"],
                kind=kind,
                stem=stem,
                span=(int(row["offset"]), int(row["size"])),
                mask_span=(int(row["mask_offset"]), int(row["mask_size"])),
                license=row.get("licence", ""),
                is_dev=row["split"] == "dev",
            )
