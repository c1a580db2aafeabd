"""Reads the photos that thresholds are fitted on and figures are measured on; needs Pillow (the `dev` extra).

Photos of COCO with one person each, of which only those whose license allows changed and commercial copies are fitted
on.  None is committed or shown.
"""

import csv
import io
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

FREE: Final = ("Attribution License", "Attribution-ShareAlike License", "No known copyright restrictions")
"""Licenses, as the photos' rows have them, without "NonCommercial" and "NoDerivs"."""
FILES: Final = ("coco_single_person", "coco_instances")


def photos(folder: Path, split: str, count: int) -> list[NDArray[np.uint8]]:
    """Return photos, uint8 [height, width, 3], spread evenly over those of a split.

    Args:
        folder: with `coco_single_person.csv` and its neighbors.
        split: "train" or "dev"; of the first only free ones.
        count: at most.

    Raises:
        FileNotFoundError: a file is missing.
    """
    from PIL import Image  # noqa: PLC0415 - not a dependency of the feature

    found: list[tuple[Path, int, int]] = []
    for name in FILES:
        with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            found += [
                (folder / f"{name}.webps", int(row["offset"]), int(row["size"]))
                for row in csv.DictReader(file)
                if row["split"] == split and (split == "dev" or row["licence"] in FREE)
            ]
    chosen = [found[at] for at in np.linspace(0, len(found) - 1, min(count, len(found))).astype(int)]
    pictures = []
    for path, offset, size in chosen:
        with path.open("rb") as file:
            file.seek(offset)
            with Image.open(io.BytesIO(file.read(size))) as image:
                pictures.append(np.asarray(image.convert("RGB")))
    return pictures
