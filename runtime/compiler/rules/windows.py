"""Lowers windows without a kernel of their own: whole numbers, and the places of a greatest in three dimensions.

Composed of one strided copy for each tap of the window, [batch, channels, sizes...] as torch has them.  Right for every
value, and slow: models that pool or convolve images do so in float32.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np
from alcove.runtime.compiler.builder import NUMPY, Builder, row_major_strides
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules.reduction import FOLDS
from alcove.runtime.compiler.rules.registry import Refused
from alcove.runtime.format.attributes import PadAttributes, ReduceAttributes
from alcove.runtime.format.spec import DType
from numpy.typing import NDArray

MAX_TAPS: Final = 256
MAX_PRODUCTS: Final = 2**22
"""Elements of the products before they are summed."""


@dataclass(frozen=True)
class Windows:
    """Windows over the last dimensions; one number a dimension.

    Attributes:
        sizes: of the input.
        out: of the result.
        kernel: taps.
        stride: from window to window.
        padding: before the input.
        dilation: from tap to tap.
    """

    sizes: tuple[int, ...]
    out: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    def taps(self) -> Iterator[tuple[int, ...]]:
        """Yield the place of each tap in its window, in row-major order.

        Raises:
            Refused: there are too many for this form.
        """
        if math.prod(self.kernel) > MAX_TAPS:
            raise Refused(f"windows of at most {MAX_TAPS} elements, or an image in float32")
        return product(*(range(size) for size in self.kernel))

    def positions(self, tap: Sequence[int]) -> list[NDArray[np.int64]]:
        """Return, for each dimension, where in the input the tap of each window lies; may be outside."""
        numbers = zip(self.out, self.stride, self.padding, tap, self.dilation, strict=True)
        return [np.arange(out) * s - p + t * d for out, s, p, t, d in numbers]

    def pad(self, b: Builder, x: Value, bits: int) -> Value:
        """Return `x` with margins of elements `bits`, so that every tap lies within."""
        outer = len(x.shape) - len(self.sizes)
        after = [
            max(0, (out - 1) * s + (k - 1) * d + 1 - size - p)
            for size, out, k, s, p, d in zip(
                self.sizes, self.out, self.kernel, self.stride, self.padding, self.dilation, strict=True
            )
        ]
        if not any((*self.padding, *after)):
            return x
        shape = (
            *x.shape[:outer],
            *(size + p + more for size, p, more in zip(self.sizes, self.padding, after, strict=True)),
        )
        attributes = PadAttributes(
            before=((0,) * outer + self.padding), after=(*(0,) * outer, *after), mode=0, bits=bits
        )
        return b.op("pad", [x], x.dtype, shape, attributes)

    def pick(self, b: Builder, padded: Value, tap: Sequence[int]) -> Value:
        """Return the elements under one tap of all windows."""
        outer = len(padded.shape) - len(self.sizes)
        strides = row_major_strides(padded.shape)
        offset = sum(t * d * stride for t, d, stride in zip(tap, self.dilation, strides[outer:], strict=True))
        steps = [s * stride for s, stride in zip(self.stride, strides[outer:], strict=True)]
        return b.copy_strided(padded, (*padded.shape[:outer], *self.out), (*strides[:outer], *steps), offset)


def greatest(b: Builder, x: Value, windows: Windows) -> tuple[Value, Value]:
    """Return the greatest of each window and its place in the input, as torch: the first of equals, the last NaN."""
    kind = NUMPY[x.dtype]
    lowest = -math.inf if x.dtype is DType.F32 else 0 if kind.kind == "u" else -(1 << (8 * kind.itemsize - 1))
    bits = int.from_bytes(np.array(lowest, kind).tobytes(), "little")
    padded = windows.pad(b, x, bits)
    shape = (*x.shape[: len(x.shape) - len(windows.sizes)], *windows.out)
    best, place = b.scalar(lowest, x.dtype, shape), b.expand(b.constant(_first_places(windows)), shape)
    for tap in windows.taps():
        picked = windows.pick(b, padded, tap)
        is_better = b.binary("gt", picked, best, DType.BOOL)
        if x.dtype is DType.F32:
            is_better = b.binary("bitwise_or", is_better, b.unary("isnan", picked, dtype=DType.BOOL))
        best = b.where(is_better, picked, best)
        place = b.where(is_better, b.constant(_places(windows, windows.positions(tap))), place)
    return best, place


def mean(b: Builder, x: Value, windows: Windows, *, counts_padding: bool, divisor: int) -> Value:
    """Return the mean of each window of int64, rounded toward zero."""
    if x.dtype is not DType.I64:
        raise Refused("a mean of float32 or int64")
    padded = windows.pad(b, x, 0)
    total = None
    for tap in windows.taps():
        picked = windows.pick(b, padded, tap)
        total = picked if total is None else b.binary("add", total, picked)
    if total is None:
        raise Refused("a window with elements")
    counts = np.array(divisor, np.int64) if divisor else _counts(windows, counts_padding=counts_padding)
    return b.binary("trunc_div", total, b.constant(counts))


def convolution(b: Builder, x: Value, weight: Value, windows: Windows, groups: int) -> Value:
    """Return the convolution of int64 [n, c, sizes...] with a weight [outputs, c/groups, kernel...], without bias."""
    n, _, *_ = x.shape
    outputs, channels, *_ = weight.shape
    pixels = math.prod(windows.out)
    if n * outputs * channels * pixels > MAX_PRODUCTS:
        raise Refused("a convolution in float32; one of whole numbers must be small")
    padded = windows.pad(b, x, 0)
    kernel = b.reshape(weight, (1, groups, outputs // groups, channels, math.prod(windows.kernel)))
    total = None
    for index, tap in enumerate(windows.taps()):
        picked = b.reshape(windows.pick(b, padded, tap), (n, groups, 1, channels, pixels))
        term = b.binary("mul", picked, b.slice(kernel, 4, index, index + 1))
        total = term if total is None else b.binary("add", total, term)
    if total is None:
        raise Refused("a convolution with a kernel")
    over = ReduceAttributes(function=FOLDS["sum"], first_axis=3, axis_count=1)
    summed = b.op("reduce", [total], x.dtype, (n, groups, outputs // groups, pixels), over)
    return b.reshape(summed, (n, outputs, *windows.out))


def spread(b: Builder, x: Value, stride: Sequence[int]) -> Value:
    """Return [n, c, sizes...] with stride - 1 zeros after each element but the last, in each dimension."""
    for axis, step in enumerate(stride, start=2):
        if step == 1 or x.shape[axis] == 1:
            continue
        shape = (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :])
        after = (*(0 for _ in range(axis + 1)), step - 1)
        wide = (*x.shape[: axis + 1], step, *x.shape[axis + 1 :])
        margins = PadAttributes(before=(), after=after, mode=0, bits=0)
        apart = b.op("pad", [b.reshape(x, shape)], x.dtype, wide, margins)
        size = x.shape[axis] * step
        joined = b.reshape(apart, (*x.shape[:axis], size, *x.shape[axis + 1 :]))
        x = b.slice(joined, axis, 0, size - step + 1)
    return x


def _places(windows: Windows, positions: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the index into the input of a position a dimension, for each window."""
    place = np.zeros((), np.int64)
    for size, position in zip(windows.sizes, positions, strict=True):
        place = place[..., None] * size + position
    return place


def _first_places(windows: Windows) -> NDArray[np.int64]:
    """Return where the first tap inside the input lies, for each window."""
    firsts = [
        np.where(first < 0, first + -(first // d) * d, first)
        for first, d in zip(windows.positions([0] * len(windows.sizes)), windows.dilation, strict=True)
    ]
    return _places(windows, firsts)


def _counts(windows: Windows, *, counts_padding: bool) -> NDArray[np.int64]:
    """Return the taps of each window, with those in the padding or without."""
    total = np.ones((), np.int64)
    for size, first, kernel, padding in zip(
        windows.sizes, windows.positions([0] * len(windows.sizes)), windows.kernel, windows.padding, strict=True
    ):
        last = np.minimum(first + kernel, size + padding)
        count = last - first if counts_padding else np.minimum(last, size) - np.maximum(first, 0)
        total = total[..., None] * count
    return np.maximum(total, 1)
