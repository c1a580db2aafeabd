"""Decodes what the detectors give, and scores it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.quantization.photos import Box

_MOST: Final = 50  # detections of one photo
_SAME: Final = 0.5  # share of the union from which two boxes are of one object


@dataclass(frozen=True)
class Detection:
    """An object that a network has found.

    Attributes:
        category: its name.
        corners: left, top, right, bottom, as shares of the photo.
        score: more is surer.
    """

    category: str
    corners: tuple[float, float, float, float]
    score: float


def decode_objects(cells: NDArray[Any], names: list[str]) -> list[Detection]:
    """Return the objects that FastestDet has found in one photo, from its [85, 22, 22]; WEIGHTS.md has the formulas."""
    _, rows, columns = cells.shape
    scores = cells[0] ** 0.6 * cells[5:].max(axis=0) ** 0.4
    y, x = np.mgrid[0:rows, 0:columns]
    centre_x, centre_y = (np.tanh(cells[1]) + x) / columns, (np.tanh(cells[2]) + y) / rows
    width, height = (1 / (1 + np.exp(-cells[place])) for place in (3, 4))
    found = []
    for row, column in np.argwhere(scores > 0.02):
        cx, cy = float(centre_x[row, column]), float(centre_y[row, column])
        w, h = float(width[row, column]) / 2, float(height[row, column]) / 2
        category = names[int(cells[5:, row, column].argmax())]
        found.append(Detection(category, (cx - w, cy - h, cx + w, cy + h), float(scores[row, column])))
    return _suppress(found)


def best_face(scores: NDArray[Any], numbers: NDArray[Any]) -> Detection:
    """Return the surest face of BlazeFace's scores [896, 1] and numbers [896, 16] for one photo."""
    index = int(scores[:, 0].argmax())
    cell = index // 2 if index < 512 else (index - 512) // 6
    cells = 16 if index < 512 else 8
    x, y, width, height = (float(number) / 128 for number in numbers[index, :4])
    x, y = x + (cell % cells + 0.5) / cells, y + (cell // cells + 0.5) / cells
    corners = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
    return Detection("face", corners, float(scores[index, 0]))


def average_precision(found: list[list[Detection]], wanted: list[list[Box]]) -> float:
    """Return the area below precision over recall, of all photos' and categories' detections together, in percent."""
    ranked = sorted(((each.score, photo, each) for photo, some in enumerate(found) for each in some), key=_key)
    matches: set[tuple[int, int]] = set()
    hits = []
    for _, photo, detection in ranked:
        shares = [
            (overlap(detection.corners, box.corners), place)
            for place, box in enumerate(wanted[photo])
            if box.category == detection.category and (photo, place) not in matches
        ]
        share, place = max(shares, default=(0.0, -1))
        hits.append(share >= _SAME)
        if hits[-1]:
            matches.add((photo, place))
    right = np.cumsum(hits)
    precision = right / (np.arange(len(hits)) + 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]
    return 100 * float(best[np.array(hits, bool)].sum()) / sum(map(len, wanted))


def overlap(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    """Return what two boxes share of their union."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return width * height / (sum(areas) - width * height)


def _key(entry: tuple[float, int, Detection]) -> tuple[float, int]:
    return -entry[0], entry[1]


def _suppress(found: list[Detection]) -> list[Detection]:
    """Return the surest of those that overlap."""
    kept: list[Detection] = []
    for one in sorted(found, key=lambda each: -each.score):
        if len(kept) == _MOST:
            break
        if all(other.category != one.category or overlap(other.corners, one.corners) < _SAME for other in kept):
            kept.append(one)
    return kept
