"""Regions of pictures: a flood from each pixel, and the overlap of each pair of boxes in float64."""

from collections import deque
from typing import Any

import numpy as np

from tests.kernels.reference.layouts import Array


def connected_components(a: Any, masks: Array) -> list[Array]:
    """Labels in the order of first pixels, and the area of each pixel's component."""
    labels, areas = np.zeros(masks.shape, np.int32), np.zeros(masks.shape, np.int32)
    for mask, label, area in zip(masks != 0, labels, areas, strict=True):
        for number, piece in enumerate(flood_all(mask, a.connectivity), 1):
            rows, columns = zip(*piece, strict=True)
            label[rows, columns], area[rows, columns] = number, len(piece)
    return [labels, areas]


def flood_all(mask: Array, connectivity: int) -> list[list[tuple[int, int]]]:
    """Return the pixels of each component, found breadth first from the first pixel that none has yet."""
    steps = [(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1) if (y, x) != (0, 0) and (connectivity == 8 or 0 in {y, x})]
    seen, pieces = np.zeros(mask.shape, bool), []
    for start in zip(*np.nonzero(mask), strict=True):
        if seen[start]:
            continue
        piece, queue = [], deque([(int(start[0]), int(start[1]))])
        seen[start] = True
        while queue:
            y, x = queue.popleft()
            piece.append((y, x))
            for place in ((y + dy, x + dx) for dy, dx in steps):
                inside = 0 <= place[0] < mask.shape[0] and 0 <= place[1] < mask.shape[1]
                if inside and mask[place] and not seen[place]:
                    seen[place] = True
                    queue.append(place)
        pieces.append(piece)
    return pieces


def non_maximum_suppression(
    a: Any, boxes: Array, scores: Array, classes: Array | None = None, *, shape: tuple[int, ...]
) -> list[Array]:
    """Indices of the boxes that are kept, -1 behind them; how many there are."""
    indices, counts = np.full(shape, -1, np.int64), np.zeros(shape[0], np.int64)
    for item in range(shape[0]):
        order = sorted(range(scores.shape[1]), key=lambda i: (-scores[item, i], i))
        kept: list[int] = []
        for i in (i for i in order if scores[item, i] > a.score_threshold):
            rivals = [j for j in kept if classes is None or classes[item, i] == classes[item, j]]
            if all(overlap(boxes[item, i], boxes[item, j]) <= a.iou_threshold for j in rivals):
                kept.append(i)
        kept = kept[: shape[1]]
        indices[item, : len(kept)], counts[item] = kept, len(kept)
    return [indices, counts]


def overlap(a: Array, b: Array) -> float:
    """The area that two boxes share over that of both; 0 if one of them has none."""
    (left, top, right, bottom), (x1, y1, x2, y2) = a.tolist(), b.tolist()
    width, height = min(right, x2) - max(left, x1), min(bottom, y2) - max(top, y1)
    if not (right > left and bottom > top and x2 > x1 and y2 > y1 and width > 0 and height > 0):
        return 0.0
    shared = width * height
    return float(shared / ((right - left) * (bottom - top) + (x2 - x1) * (y2 - y1) - shared))
