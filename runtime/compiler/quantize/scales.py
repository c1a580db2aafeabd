"""Chooses scales and zero points, and rounds numbers to int8.

The rule of kernels/requantize.h, in numpy, bit for bit; and the choice of a scale and a zero point for a range.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Int8s = NDArray[np.int8]

LOWEST: Final = -128
HIGHEST: Final = 127
WEIGHT_MAX: Final = 127
SMALLEST_SCALE: Final = 2.0**-100
LARGEST_SCALE: Final = 2.0**100


@dataclass(frozen=True)
class Scale:
    """What the int8s of a tensor stand for: (q - zero_point) * scale.

    Attributes:
        scale: a float32, exactly; between 2**-100 and 2**100.
        zero_point: in [-128, 127].
    """

    scale: float
    zero_point: int

    def quantize(self, x: Floats) -> Int8s:
        """Return `x` in int8, as the op `quantize` gives it."""
        with np.errstate(over="ignore", invalid="ignore"):
            inverse = np.float32(1) / np.float32(self.scale)
            return requantize(x.astype(np.float32) * inverse, self.zero_point)

    def dequantize(self, q: Int8s) -> Floats:
        """Return what `q` stands for, as the op `dequantize` gives it."""
        return (q.astype(np.int32) - self.zero_point).astype(np.float32) * np.float32(self.scale)

    def nearest(self, value: float) -> int:
        """Return the int8 closest to a number, which may be infinite."""
        return int(np.clip(np.rint(value / self.scale) + self.zero_point, LOWEST, HIGHEST))


def requantize(value: Floats, zero_point: int, low: int = LOWEST, high: int = HIGHEST) -> Int8s:
    """Return rint(clamp(value, low - zero_point, high - zero_point)) + zero_point; a NaN gives `low`."""
    least, most = np.float32(low - zero_point), np.float32(high - zero_point)
    value = np.where(value > least, value, least)
    value = np.where(value < most, value, most)
    return (np.rint(value).astype(np.int32) + zero_point).astype(np.int8)


def scale_of(low: float, high: float) -> Scale:
    """Return the scale and zero point under which [low, high], widened to hold 0, fills [-128, 127].

    Zero has an int8 of its own, so that paddings and what a relu gives are exact.
    """
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    scale = float(np.float32(high / 255 - low / 255))
    if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
        scale = SMALLEST_SCALE if scale < SMALLEST_SCALE else LARGEST_SCALE
        if high == low:
            scale = 1.0
    return Scale(scale, int(np.clip(np.rint(LOWEST - low / scale), LOWEST, HIGHEST)))


def weight_scales(rows: Floats, biases: NDArray[Any], input_scale: float) -> Floats:
    """Return a symmetric scale for each row of [outputs, k], large enough for its bias to fit an int32 next to its sum.

    Args:
        rows: f32 [outputs, k].
        biases: [outputs].
        input_scale: of the other factor; the bias is stored in units of input scale * weight scale.
    """
    largest = np.abs(rows.astype(np.float64)).max(axis=1, initial=0.0)
    scales = np.maximum(largest / WEIGHT_MAX, np.abs(biases.astype(np.float64)) / input_scale / 2.0**29)
    scales = np.where(scales < SMALLEST_SCALE, 1.0, scales)
    # Rounded up, so that no weight exceeds 127.
    rounded = scales.astype(np.float32)
    return np.where(rounded < scales, np.nextafter(rounded, np.float32(np.inf)), rounded).astype(np.float32)


def quantize_rows(rows: Floats, scales: Floats) -> Int8s:
    """Return [outputs, k] in int8 within [-127, 127], rounded half to even."""
    integers = np.rint(rows.astype(np.float64) / scales.astype(np.float64)[:, None])
    return np.clip(integers, -WEIGHT_MAX, WEIGHT_MAX).astype(np.int8)
