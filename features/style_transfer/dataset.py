"""Reads paintings, and photos whose license lets what learns from them be released; needs Pillow (the `dev` extra).

paintings.csv, .jpegs                       works by painters who died before 1955
coco_single_person, coco_instances          photos, each under the license in its row
"""

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["FREE", "Packed", "Photos", "find_photos", "read_painting"]

FREE: Final = ("Attribution License", "Attribution-ShareAlike License", "No known copyright restrictions")
"""Licenses, as the photos' rows have them, without "NonCommercial" and "NoDerivs"."""
SETS: Final = ("coco_single_person", "coco_instances")


@dataclass(frozen=True)
class Packed:
    """A picture in a packed file: `size_bytes` bytes from `offset` on."""

    file: Path
    offset: int
    size_bytes: int

    def pixels(self) -> NDArray[np.uint8]:
        """Return uint8 [rows, columns, 3], red first.

        Raises:
            OSError: the bytes are no picture.
        """
        from PIL import Image  # noqa: PLC0415 - not a dependency of the feature

        with self.file.open("rb") as file:
            file.seek(self.offset)
            data = file.read(self.size_bytes)
        with Image.open(io.BytesIO(data)) as image:
            return np.asarray(image.convert("RGB"))


def read_painting(folder: Path, name: str, shorter: int) -> NDArray[np.uint8]:
    """Return a painting, its shorter side as long as asked for, uint8 [rows, columns, 3].

    Args:
        folder: with `paintings.csv`.
        name: of the painting.
        shorter: side, in pixels; how large strokes are in a frame.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: there is no painting of this name.
    """
    from PIL import Image  # noqa: PLC0415 - as above

    rows = {row["name"]: row for row in _rows(folder / "paintings.csv")}
    if name not in rows:
        msg = f"a painting is one of {', '.join(rows)}; not {name}"
        raise ValueError(msg)
    row = rows[name]
    pixels = Packed(folder / "paintings.jpegs", int(row["offset"]), int(row["size"])).pixels()
    height, width = pixels.shape[:2]
    factor = shorter / min(height, width)
    size = round(width * factor), round(height * factor)
    return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.LANCZOS))


def find_photos(folder: Path, split: str = "train") -> list[Packed]:
    """Return the free photos of a split, in the order of their files.

    Args:
        folder: with `coco_single_person.csv` and its neighbors.
        split: "train" or "dev".

    Raises:
        FileNotFoundError: a file is missing.
    """
    return [
        Packed(folder / f"{name}.webps", int(row["offset"]), int(row["size"]))
        for name in SETS
        for row in _rows(folder / f"{name}.csv")
        if row["split"] == split and row["licence"] in FREE
    ]


class Photos:
    """Gives square parts of photos; each is read once and kept as bytes.

    Args:
        packed: the photos; at least one.
    """

    def __init__(self, packed: list[Packed]) -> None:
        if not packed:
            raise ValueError("photos must be at least one, not 0")
        self._packed = packed
        self._pixels: dict[int, NDArray[np.uint8]] = {}

    def __len__(self) -> int:
        return len(self._packed)

    def square(self, number: int, side: int, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Return a square of a photo at a random place, uint8 [side, side, 3], mirrored in half of the cases.

        Args:
            number: of the photo.
            side: in pixels; a photo that is smaller is repeated by reflection.
            rng: of place and mirror.
        """
        if number not in self._pixels:
            self._pixels[number] = self._packed[number].pixels()
        pixels = self._pixels[number]
        missing = [max(side - length, 0) for length in pixels.shape[:2]]
        if any(missing):
            pixels = np.pad(pixels, [(0, missing[0]), (0, missing[1]), (0, 0)], mode="symmetric")
        top, left = (int(rng.integers(0, length - side + 1)) for length in pixels.shape[:2])
        part = pixels[top : top + side, left : left + side]
        return part[:, ::-1] if rng.random() < 0.5 else part


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
