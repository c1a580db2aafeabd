"""The decoding of CTC in float64: prefixes are tuples, probabilities logarithms."""

from typing import Any

import numpy as np

from tests.kernels.reference.layouts import Array


def ctc_beam(a: Any, x: Array, shape: tuple[int, ...]) -> list[Array]:
    """The best labelings of each of a batch, how long they are, their scores."""
    ids = np.full(shape, a.blank, np.int64)
    counts, scores = np.zeros(shape[:2], np.int64), np.full(shape[:2], -np.inf)
    for item, frames in enumerate(x.astype(np.float64)):
        for path, (prefix, score) in enumerate(search(frames, a.width, a.blank)[: shape[1]]):
            ids[item, path, : len(prefix)] = prefix
            counts[item, path], scores[item, path] = len(prefix), score
    return [ids, counts, scores]


def search(frames: Array, width: int, blank: int) -> list[tuple[tuple[int, ...], float]]:
    """Return the kept prefixes of frames [frames, classes] and the logarithms of their probabilities, best first."""
    none = (-np.inf, -np.inf)
    beams: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, -np.inf)}
    for frame in frames:
        found: dict[tuple[int, ...], tuple[float, float]] = {}
        for prefix, (ends, rest) in beams.items():
            total = np.logaddexp(ends, rest)
            old = found.get(prefix, none)
            again = rest + frame[prefix[-1]] if prefix else -np.inf
            found[prefix] = (np.logaddexp(old[0], total + frame[blank]), np.logaddexp(old[1], again))
            for letter in range(len(frame)):
                if letter != blank:
                    longer = (*prefix, letter)
                    old = found.get(longer, none)
                    before = ends if prefix and prefix[-1] == letter else total
                    found[longer] = (old[0], np.logaddexp(old[1], before + frame[letter]))
        best = sorted(found.items(), key=lambda item: -np.logaddexp(*item[1]))
        beams = {prefix: sums for prefix, sums in best[:width] if np.logaddexp(*sums) > -np.inf}
    return [(prefix, float(np.logaddexp(*sums))) for prefix, sums in beams.items()]
