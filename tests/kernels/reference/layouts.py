"""Takes packed weights apart, as docs/format.md lays them out."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
LANES = 16


class Panels(NamedTuple):
    """A matrix [n, k] and its bias [n]."""

    weight: Array
    bias: Array


def read_panels(packed: Array, n: int) -> Panels:
    """Return n rows of float32 panels [panels, k + 1, 16], whose first line is the bias."""
    rows = packed.transpose(0, 2, 1).reshape(-1, packed.shape[1])[:n].astype(np.float64)
    return Panels(rows[:, 1:], rows[:, 0])


class Int8Panels(NamedTuple):
    """Integers [n, k], a word and a scale for each row."""

    weight: Array
    words: Array
    scales: Array


def read_int8(packed: Array, n: int, k: int) -> Int8Panels:
    """Return n rows of packed int8 weights: 16 words, 16 scales, then [k / 4][16][4] for each 16 rows."""
    bytes_of_rows = packed.reshape(-1, packed.shape[-1])
    words = bytes_of_rows[:, :64].copy().view(np.int32).reshape(-1)[:n]
    scales = bytes_of_rows[:, 64:128].copy().view(np.float32).reshape(-1)[:n]
    weight = bytes_of_rows[:, 128:].reshape(len(bytes_of_rows), -1, LANES, 4).transpose(0, 2, 1, 3)
    return Int8Panels(weight.reshape(len(bytes_of_rows) * LANES, -1)[:n, :k].astype(np.int64), words, scales)
