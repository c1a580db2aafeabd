"""Converts the weights of products to the panels that kernels read, and back.

Panels of 16 outputs: [ceil(n/16), k + 1, 16] floats, row 0 of each the bias, zeros beyond n.  Of a convolution k goes
through kernel rows, kernel columns and channels.  The name of a convolution's constant ends with a mark that gives the
shape of the weight in torch: `conv.weight+conv.bias@8,3,5,5`.
"""

import math
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np
from alcove.runtime.format.spec import PANEL_COLUMNS, Layout, TensorSpec
from numpy.typing import NDArray

SHAPE_MARK: Final = "@"
_FORM_MARK = ";"
_WINOGRAD = "winograd"
WINOGRAD_FORM: Final = _FORM_MARK + _WINOGRAD
"""What the name of a constant of `winograd_weights` ends with, after the shape."""

_CHANNELS_FIRST = "channels_first"
CHANNELS_FIRST_FORM: Final = _FORM_MARK + _CHANNELS_FIRST
"""The same for [outputs, 1 + inputs], the bias first, of a pointwise_conv2d."""

_LONGEST_CHAIN: Final = 1024
"""Terms of a sum in order: `kLongestChain` of kernels/long_sum.h."""

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]


def panels(weight: Floats, bias: Floats | None) -> Floats:
    """Return the PANEL16 form of a linear: [ceil(n/16), k + 1, 16], row 0 the bias, zeros beyond n.

    Args:
        weight: f32 [n, k].
        bias: f32 [n], or None for zeros.
    """
    outputs, inputs = weight.shape
    count = -(-outputs // PANEL_COLUMNS)
    columns = np.zeros((count * PANEL_COLUMNS, inputs + 1), dtype="<f4")
    columns[:outputs, 1:] = weight
    if bias is not None:
        columns[:outputs, 0] = bias
    return np.ascontiguousarray(columns.reshape(count, PANEL_COLUMNS, inputs + 1).transpose(0, 2, 1))


def unpanel(data: Floats, outputs: int, inputs: int) -> tuple[Floats, Floats]:
    """Return weight [outputs, inputs] and bias [outputs] of PANEL16 `data`."""
    columns = data.reshape(-1, inputs + 1, PANEL_COLUMNS).transpose(0, 2, 1).reshape(-1, inputs + 1)[:outputs]
    return np.ascontiguousarray(columns[:, 1:]), np.ascontiguousarray(columns[:, 0])


def shape_mark(shape: tuple[int, ...]) -> str:
    """Return what the name of a convolution's constant ends with."""
    return SHAPE_MARK + ",".join(str(size) for size in shape)


def convolution_panels(weight: Floats, bias: Floats, groups: int) -> Floats:
    """Return the panels of each group of a convolution, [groups, ceil(n/16), k + 1, 16].

    Args:
        weight: f32 [groups * n, c, kernel...].
        bias: f32 [groups * n].
        groups: that divide the outputs.
    """
    rows = np.moveaxis(weight, 1, -1).reshape(weight.shape[0], -1)
    return np.stack([panels(*part) for part in zip(np.split(rows, groups), np.split(bias, groups), strict=True)])


def shares_lanes(shape: tuple[int, ...], groups: int) -> bool:
    """Return whether groups of a weight [outputs, inputs of a group, kernel...] lie side by side in 16 outputs.

    That is so for groups of 4 or 8 inputs and as many outputs, unless a sum is long; `conv2d_shares_lanes` of the
    kernels is the same.
    """
    outputs, inputs = shape[:2]
    is_short = math.prod(shape[1:]) <= _LONGEST_CHAIN
    return inputs in {4, 8} and outputs == groups * inputs and outputs % PANEL_COLUMNS == 0 and is_short


def shared_lanes(weight: Floats, bias: Floats) -> Floats:
    """Return f32 [outputs / 16, kernel * inputs + 1, 16] of groups that share lanes, row 0 the bias.

    Args:
        weight: f32 [outputs, inputs of a group, kernel...].
        bias: f32 [outputs].
    """
    rows = np.moveaxis(weight, 1, -1).reshape(weight.shape[0], -1)
    return panels(rows, bias)


def winograd_transform() -> Doubles:
    """Return G of F(4, 3), f64 [6, 3], for the points 0, +-sqrt(2), +-sqrt(1/2) and infinity.

    Row i is (1, p, p^2) over the product of p - q for all other finite points q.  Source: as
    kernels/operators/winograd_conv2d/winograd_conv2d.h.
    """
    points = [0.0, math.sqrt(2), -math.sqrt(2), math.sqrt(0.5), -math.sqrt(0.5)]
    rows = [
        [point**power / math.prod(point - other for other in points if other != point) for power in range(3)]
        for point in points
    ]
    return np.array([*rows, [0.0, 0.0, 1.0]])


def winograd_weights(weight: Floats, bias: Floats) -> Floats:
    """Return what winograd_conv2d reads: the bias up to a multiple of 16, then panels of the 36 products, biases 0.

    Args:
        weight: f32 [n, c, 3, 3].
        bias: f32 [n].
    """
    transform = winograd_transform()
    products = np.einsum("ir,ncrs,js->ijnc", transform, weight.astype(np.float64), transform).astype(np.float32)
    first = np.zeros(-(-len(bias) // PANEL_COLUMNS) * PANEL_COLUMNS, np.float32)
    first[: len(bias)] = bias
    parts = [panels(product, None).reshape(-1) for product in products.reshape(-1, *products.shape[2:])]
    return np.concatenate([first, *parts])


def _winograd_undone(packed: Floats, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Return weight and bias; the weight to within a few units of the last place of its kernel's largest number."""
    outputs, inputs = shape[:2]
    first = -(-outputs // PANEL_COLUMNS) * PANEL_COLUMNS
    planes = packed[first:].reshape(36, -1)
    products = np.stack([unpanel(plane, outputs, inputs)[0] for plane in planes]).reshape(6, 6, outputs, inputs)
    back = np.linalg.pinv(winograd_transform())
    weight = np.einsum("ri,ijnc,sj->ncrs", back, products.astype(np.float64), back).astype(np.float32)
    return weight, packed[:outputs].copy()


def phases(kernel: int, stride: int, dilation: int) -> list[range]:
    """Return, for each phase of a transposed convolution, its taps: those with tap * dilation % stride == phase."""
    step = stride // math.gcd(stride, dilation)
    starts = {tap * dilation % stride: tap for tap in range(min(step, kernel))}
    return [range(starts[phase], kernel, step) if phase in starts else range(0) for phase in range(stride)]


@dataclass(frozen=True)
class Transposed:
    """The form of a transposed convolution: panels of each group and, within, of each phase, one after the other.

    Attributes:
        kernel: (inputs of all groups, outputs of one, rows, columns).
        groups: that divide the inputs.
        stride: (rows, columns).
        dilation: (rows, columns).
    """

    kernel: tuple[int, int, int, int]
    groups: int
    stride: tuple[int, int]
    dilation: tuple[int, int]

    def mark(self, shape: tuple[int, ...]) -> str:
        """Return what the name of the constant ends with; `shape` is the weight's in torch."""
        numbers = (self.groups, *self.stride, *self.dilation)
        return shape_mark(shape) + _FORM_MARK + ",".join(str(number) for number in numbers)

    def pack(self, weight: Floats, bias: Floats) -> Floats:
        """Return f32 [floats] of a weight and a bias [groups * outputs]."""
        parts = []
        groups = np.split(weight.reshape(self.kernel), self.groups)
        for mine, start in zip(groups, np.split(bias, self.groups), strict=True):
            for rows, columns in self._phases():
                taps = mine[:, :, rows][:, :, :, columns]
                parts.append(panels(taps.transpose(1, 2, 3, 0).reshape(self.kernel[1], -1), start).reshape(-1))
        return np.concatenate(parts)

    def unpack(self, packed: Floats) -> tuple[Floats, Floats]:
        """Return the weight, shaped as `kernel`, and the bias."""
        inputs, outputs, *_ = self.kernel
        channels = inputs // self.groups
        weight, biases = np.zeros(self.kernel, np.float32), []
        for group in range(self.groups):
            for rows, columns in self._phases():
                patch = len(rows) * len(columns) * channels
                size = -(-outputs // PANEL_COLUMNS) * PANEL_COLUMNS * (patch + 1)
                part, bias = unpanel(packed[:size], outputs, patch)
                packed = packed[size:]
                taps = part.reshape(outputs, len(rows), len(columns), channels).transpose(3, 0, 1, 2)
                mine = weight[group * channels : (group + 1) * channels]
                for (i, row), (j, column) in product(enumerate(rows), enumerate(columns)):
                    mine[:, :, row, column] = taps[:, :, i, j]
            biases.append(bias)
        return weight, np.concatenate(biases)

    def _phases(self) -> list[tuple[list[int], list[int]]]:
        sides = zip(self.kernel[2:], self.stride, self.dilation, strict=True)
        rows, columns = (phases(*side) for side in sides)
        return [(list(row), list(column)) for row in rows for column in columns]


def unpack_convolution(packed: Floats, tensor: TensorSpec, mark: str) -> tuple[Floats, Floats]:
    """Return weight and bias of a convolution.

    Args:
        packed: elements of the constant, flat for panels.
        tensor: the constant.
        mark: what follows `SHAPE_MARK` in its name.
    """
    sizes, _, form = mark.partition(_FORM_MARK)
    shape = tuple(int(size) for size in sizes.split(","))
    if form == _WINOGRAD:
        return _winograd_undone(packed, shape)
    if form == _CHANNELS_FIRST:
        rows = packed.reshape(shape[0], -1)
        return rows[:, 1:].reshape(shape), rows[:, 0].copy()
    if form:
        groups, *numbers = (int(number) for number in form.split(","))
        kernel = (shape[0], shape[1], shape[2] if len(shape) == 4 else 1, shape[-1])
        stride, dilation = (numbers[0], numbers[1]), (numbers[2], numbers[3])
        weight, bias = Transposed(kernel, groups, stride, dilation).unpack(packed)
        return weight.reshape(shape), bias
    if tensor.layout is Layout.ROW_MAJOR and len(tensor.shape) == 2:  # depthwise
        return np.ascontiguousarray(packed[1:].T).reshape(shape), packed[0]
    groups = tensor.shape[0] if tensor.layout is Layout.ROW_MAJOR and len(tensor.shape) == 4 else 1
    parts = [unpanel(part, shape[0] // groups, math.prod(shape[1:])) for part in np.split(packed.reshape(-1), groups)]
    rows = np.concatenate([weight for weight, _ in parts]).reshape(shape[0], *shape[2:], shape[1])
    return np.ascontiguousarray(np.moveaxis(rows, -1, 1)), np.concatenate([bias for _, bias in parts])
