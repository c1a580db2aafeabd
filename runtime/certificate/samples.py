"""Defines the inputs of a certificate: own texts, free material, or numbers made by a rule, never anyone's data.

A tensor made by a rule takes a few bytes however large it is, so that a certificate of a vision model stays small.  The
rules use integers and exact fractions only, so every machine makes the same bits.
"""

import math
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

LICENCES: Final = ("CC0-1.0", "own text", "procedural", "public domain")
"""What samples may be: never a person's data, and free to travel to every device."""

_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_PERIOD: Final = 4096
_PIECE: Final = 1 << 16
"""Elements that are made at a time."""

DTYPES: Final[dict[str, np.dtype[Any]]] = {
    "f32": np.dtype("<f4"),
    "i8": np.dtype("i1"),
    "i32": np.dtype("<i4"),
    "i64": np.dtype("<i8"),
    "u8": np.dtype("u1"),
    "bool": np.dtype("?"),
}
"""Names of element types in a certificate."""


@dataclass(frozen=True)
class Procedural:
    """A tensor made by a rule.

    Attributes:
        rule: "uniform": independent elements, by SplitMix64; "smooth": triangular waves along every dimension, which
            neighbours share, as in a picture.
        dtype: a key of `DTYPES`.
        shape: of the tensor.
        seed: another seed, other elements; in [0, 2**32).
        low: least element.
        high: bound of the elements, above `low`; integers stay below it.
    """

    rule: Literal["uniform", "smooth"]
    dtype: str
    shape: tuple[int, ...]
    seed: int
    low: float
    high: float

    def elements(self) -> NDArray[Any]:
        """Return the tensor; made in pieces, so that little more memory is taken than it has itself."""
        count = math.prod(self.shape)
        kind = DTYPES[self.dtype]
        result = np.empty(count, kind)
        for start in range(0, count, _PIECE):
            place = np.arange(start, min(start + _PIECE, count), dtype=np.int64)
            fraction = self._uniform(place) if self.rule == "uniform" else self._smooth(place)
            values = self.low + (self.high - self.low) * fraction
            result[start : start + len(place)] = (values if kind.kind == "f" else np.floor(values)).astype(kind)
        array: NDArray[Any] = result.reshape(self.shape)
        return array

    def _uniform(self, place: NDArray[np.int64]) -> NDArray[np.float64]:
        """Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014), SplitMix64."""
        with np.errstate(over="ignore"):
            z = np.uint64(self.seed) * _GOLDEN + (place + 1).astype(np.uint64) * _GOLDEN
            z = (z ^ (z >> np.uint64(30))) * _MIX[0]
            z = (z ^ (z >> np.uint64(27))) * _MIX[1]
            z ^= z >> np.uint64(31)
        fraction: NDArray[np.float64] = (z >> np.uint64(40)).astype(np.float64) / float(1 << 24)
        return fraction

    def _smooth(self, place: NDArray[np.int64]) -> NDArray[np.float64]:
        phase = np.full(len(place), self.seed * 977 % _PERIOD, np.int64)
        inner = math.prod(self.shape)
        for axis, size in enumerate(self.shape):
            inner //= size
            step = (self.seed * 31 + 7 * axis + 3) % 89 + 2
            phase += place // inner % size * (_PERIOD * step // (16 * size) + 1)
        half = _PERIOD // 2
        fraction: NDArray[np.float64] = np.abs(phase % _PERIOD - half) / float(half + 1)
        return fraction


Input = str | NDArray[Any] | Procedural


@dataclass(frozen=True, eq=False)
class Sample:
    """One set of inputs of a certificate.

    Attributes:
        inputs: one for each input of the program: `str` for a text, a numpy array of the port's type, or a rule that
            makes one.
        source: where it is from, in words: "written for this test", "Common Voice 21 (CC0-1.0), sentence 4711".
        method: which of the program's methods it is for; "" where there is one.
    """

    inputs: tuple[Input, ...]
    source: str
    method: str = ""

    def values(self) -> tuple[str | NDArray[Any], ...]:
        """Return the inputs as a model takes them."""
        return tuple(value.elements() if isinstance(value, Procedural) else value for value in self.inputs)
