"""Loads photos with masks of people and objects, from the packed files of `shared/data/person_seg` (sources: DATA.md).

Decoding needs Pillow, which is not among this project's dependencies: `pip install pillow`.
"""

from __future__ import annotations

import csv
import importlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

SHARED: Final = Path(__file__).resolve().parents[2].parent / "shared/data/person_seg"
_LEAST_SIDE: Final = 8  # pixels; smaller objects are not asked for
_HAIR: Final = 19  # in clothing_co_parsing_labels.csv


@dataclass(frozen=True)
class Photo:
    """A photo.

    Attributes:
        pixels: uint8 [height, width, 3], red first.
        mask: uint8 [height, width].
        row: its line of the table.
    """

    pixels: NDArray[np.uint8]
    mask: NDArray[np.uint8]
    row: dict[str, str]


@dataclass(frozen=True)
class Box:
    """An object.

    Attributes:
        category: its name.
        corners: left, top, right, bottom, as shares of the photo.
    """

    category: str
    corners: tuple[float, float, float, float]


def load(name: str, count: int, folder: Path = SHARED) -> list[Photo]:
    """Return `count` photos of a set, the same at every call, in a fixed random order."""
    rows = _rows(folder / f"{name}.csv")
    pixels, masks = (folder / f"{name}.webps").read_bytes(), (folder / f"{name}.masks").read_bytes()
    chosen = [rows[place] for place in np.random.default_rng(12).permutation(len(rows))[:count]]
    return [Photo(_decode(pixels, row, "", "RGB"), _decode(masks, row, "mask_", "L"), row) for row in chosen]


def boxes(photos: list[Photo], folder: Path = SHARED) -> list[list[Box]]:
    """Return the objects of photos of `coco_instances`, by what of them is seen."""
    categories: dict[str, dict[int, str]] = {}
    for row in _rows(folder / "coco_instances_objects.csv"):
        categories.setdefault(row["coco_id"], {})[int(row["value"])] = row["category"]
    return [_boxes(photo, categories.get(photo.row["coco_id"], {})) for photo in photos]


def resize(pixels: NDArray[np.uint8], height: int, width: int) -> Tensor:
    """Return f32 [1, 3, height, width] in [0, 255], bilinear."""
    image = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].float()
    return torch.nn.functional.interpolate(image, (height, width), mode="bilinear", antialias=True)


def crop_head(photo: Photo) -> tuple[NDArray[np.uint8], Box] | None:
    """Return a square around the hair in a photo of `clothing_co_parsing`, and the hair's box; None without hair."""
    found = _corners(photo.mask == _HAIR)
    if found is None:
        return None
    left, top, right, bottom = found
    side = int(2.2 * max(right - left, bottom - top))
    height, width = photo.mask.shape
    if side > min(height, width):
        return None
    x = min(max((left + right - side) // 2, 0), width - side)
    y = min(max((top + bottom - side) // 2 + side // 8, 0), height - side)
    corners = ((left - x) / side, (top - y) / side, (right - x) / side, (bottom - y) / side)
    return photo.pixels[y : y + side, x : x + side], Box("hair", corners)


def _boxes(photo: Photo, categories: dict[int, str]) -> list[Box]:
    height, width = photo.mask.shape
    found = []
    for value, category in categories.items():
        corners = _corners(photo.mask == value)
        if corners is None or min(corners[2] - corners[0], corners[3] - corners[1]) < _LEAST_SIDE:
            continue
        left, top, right, bottom = corners
        found.append(Box(category, (left / width, top / height, right / width, bottom / height)))
    return found


def _corners(mask: NDArray[np.bool_]) -> tuple[int, int, int, int] | None:
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        return None
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _decode(packed: bytes, row: dict[str, str], prefix: str, mode: str) -> NDArray[np.uint8]:
    start = int(row[f"{prefix}offset"])
    pillow: Any = importlib.import_module("PIL.Image")
    image = pillow.open(io.BytesIO(packed[start : start + int(row[f"{prefix}size"])]))
    return np.asarray(image.convert(mode), np.uint8)
