"""Convolutions, pools and samples of channels-last images, tap by tap in float64."""

import math
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
from alcove.runtime.format.attributes import LinearAttributes

from tests.kernels.reference.elements import UNARY, activate
from tests.kernels.reference.layouts import Array, Panels, read_panels
from tests.kernels.reference.movement import pairs, windows
from tests.kernels.reference.products import linear


def window_pairs(a: Any, x: Array, shape: tuple[int, ...]) -> Any:
    """Give each output pixel and its pairs of tap and input pixel."""
    h = windows(x.shape[1], shape[1], a.kernel_h, a.stride_h, a.pad_top, a.dilation_h)
    w = windows(x.shape[2], shape[2], a.kernel_w, a.stride_w, a.pad_left, a.dilation_w)
    for row, column in product(range(shape[1]), range(shape[2])):
        yield row, column, pairs(h[row], w[column])


def convolve(a: Any, x: Array, weight: Array, bias: Array, shape: tuple[int, ...]) -> Array:
    """Return sums over taps and channels; weight is [groups, n, kernel_h, kernel_w, channels of a group]."""
    groups = len(weight)
    y = np.empty((x.shape[0], *shape[1:3], groups, weight.shape[1]))
    split = x.astype(np.float64).reshape(*x.shape[:3], groups, -1)
    for row, column, taps in window_pairs(a, x, shape):
        y[:, row, column] = bias
        for (r, c), (i, j) in taps:
            y[:, row, column] += np.einsum("bgc,gnc->bgn", split[:, i, j], weight[:, :, r, c])
    return y.reshape(shape)


def _read_groups(packed: Panels | Array, groups: int, n: int) -> list[Panels]:
    """Return the weights of each group, whose panels lie apart or, side by side in vectors, as one matrix."""
    if not isinstance(packed, Panels) and packed.ndim == 4:
        return [read_panels(group, n) for group in packed]
    every = packed if isinstance(packed, Panels) else read_panels(packed, groups * n)
    return [Panels(*each) for each in zip(np.split(every.weight, groups), np.split(every.bias, groups), strict=True)]


def conv2d(a: Any, x: Array, packed: Panels | Array, *residual: Array, shape: tuple[int, ...]) -> list[Array]:
    """A convolution of groups, plus residual, activated."""
    n = shape[3] // a.groups
    layers = _read_groups(packed, a.groups, n)
    weight = np.stack([each.weight for each in layers]).reshape(a.groups, n, a.kernel_h, a.kernel_w, -1)
    y = convolve(a, x, weight, np.stack([each.bias for each in layers]), shape)
    return [activate(y + residual[0] if a.has_residual else y, a.activation, a.low, a.high)]


def depthwise_conv2d(a: Any, x: Array, packed: Array, *, shape: tuple[int, ...]) -> list[Array]:
    """Each output channel from one channel of the input."""
    channels = x.shape[3]
    rows = packed.astype(np.float64).T.reshape(channels, -1, packed.shape[0])
    weight = rows[..., 1:].reshape(channels, -1, a.kernel_h, a.kernel_w, 1)
    y = convolve(a, x, weight, rows[..., 0], shape)
    return [activate(y, a.activation, a.low, a.high)]


POINTS = (0, math.sqrt(2), -math.sqrt(2), math.sqrt(0.5), -math.sqrt(0.5))


def winograd_conv2d(a: Any, x: Array, packed: Array, *residual: Array, shape: tuple[int, ...]) -> list[Array]:
    """A 3 x 3 correlation by the points of the transform: polynomials are multiplied and the middle is kept."""
    n, channels = shape[3], x.shape[3]
    count = -(-n // 16)
    bias = packed[: 16 * count][:n].astype(np.float64)
    planes = packed[16 * count :].reshape(36, count, channels + 1, 16)
    u = np.stack([read_panels(plane, n).weight for plane in planes]).reshape(6, 6, n, channels)
    zero = np.stack([read_panels(plane, n).bias for plane in planes]).reshape(6, 6, n)
    rows, columns = -(-shape[1] // 4) * 4, -(-shape[2] // 4) * 4
    padded = np.zeros((x.shape[0], rows + 2, columns + 2, channels))
    top, left = a.pad_top, a.pad_left
    height, width = min(x.shape[1], rows + 2 - top), min(x.shape[2], columns + 2 - left)
    padded[:, top : top + height, left : left + width] = x[:, :height, :width]
    monic = np.poly(POINTS)  # of degree 5, highest first
    before = np.zeros((6, 6))
    for i, point in enumerate(POINTS):
        before[i, :5] = np.polydiv(monic, [1, -point])[0][::-1]
    before[5] = monic[::-1]
    after = np.array([[point**i for point in POINTS] + [float(i == 3)] for i in range(4)])
    y = np.empty((x.shape[0], rows, columns, n))
    for row, column in product(range(0, rows, 4), range(0, columns, 4)):
        v = np.einsum("ik,jl,bklc->bijc", before, before, padded[:, row : row + 6, column : column + 6])
        m = np.einsum("bijc,ijnc->bijn", v, u) + zero
        y[:, row : row + 4, column : column + 4] = np.einsum("ik,jl,bkln->bijn", after, after, m)
    y = y[:, : shape[1], : shape[2]] + bias
    return [activate(y + residual[0] if a.has_residual else y, a.activation, a.low, a.high)]


def separable_conv2d(a: Any, x: Array, *rest: Any, shape: tuple[int, ...]) -> list[Array]:
    """An expansion by 1 x 1, a depthwise convolution, a projection by 1 x 1, and a residual."""
    operands = list(rest)
    y: Array = x
    if a.has_expand:
        expand = LinearAttributes(has_residual=0, activation=a.expand_activation, low=a.expand_low, high=a.expand_high)
        (y,) = linear(expand, y, operands.pop(0))
    packed, project = operands.pop(0).astype(np.float64), operands.pop(0)
    weight = packed[1:].T.reshape(y.shape[3], 1, a.kernel_h, a.kernel_w, 1)
    middle = (*shape[:3], y.shape[3])
    window = _Window(a)
    y = convolve(window, y, weight, packed[0][:, None], middle)
    y = activate(y, a.depthwise_activation, a.depthwise_low, a.depthwise_high)
    return linear(a, y, project, *operands)


class _Window:
    """The window of a separable convolution, whose dilation is 1."""

    def __init__(self, a: Any) -> None:
        self.kernel_h, self.kernel_w, self.stride_h, self.stride_w = a.kernel_h, a.kernel_w, a.stride_h, a.stride_w
        self.pad_top, self.pad_left, self.dilation_h, self.dilation_w = a.pad_top, a.pad_left, 1, 1


def squeeze_excite_conv2d(a: Any, x: Array, squeeze: Panels, excite: Panels, project: Panels, *r: Array) -> list[Array]:
    """Gates of channels from the mean of the pixels, then a product by 1 x 1."""
    gates = x.astype(np.float64).mean((1, 2))
    for layer, name in ((squeeze, "squeeze"), (excite, "excite")):
        low, high = getattr(a, f"{name}_low"), getattr(a, f"{name}_high")
        gates = gates @ layer.weight.T + layer.bias
        gates = activate(gates, getattr(a, f"{name}_activation"), low, high)
        function = {0: None, 34: "sigmoid", 43: "silu"}[getattr(a, f"{name}_function")]
        gates = UNARY[function](gates, a) if function else gates
    return linear(a, x * gates[:, None, None], project, *r)


def pointwise_conv2d(a: Any, x: Array, weight: Array) -> list[Array]:
    """A product of the weights, the bias before them, with the channels of each image."""
    rows = weight.astype(np.float64)
    y = rows[:, 1:] @ x.astype(np.float64) + rows[:, :1]
    return [activate(y, a.activation, a.low, a.high)]


def conv_transpose2d(a: Any, x: Array, packed: Array, *, shape: tuple[int, ...]) -> list[Array]:
    """Each input pixel adds its taps to the output; stride 1 and one group, whose panels hold all taps in order."""
    assert (a.stride_h, a.stride_w, a.groups) == (1, 1, 1)
    taps, n = a.kernel_h * a.kernel_w, shape[3]
    panels = read_panels(packed.reshape(-1, taps * x.shape[3] + 1, 16), n)
    weight = panels.weight.reshape(n, a.kernel_h, a.kernel_w, -1)
    y = np.broadcast_to(panels.bias, shape).copy()
    for row, column, r, c in np.ndindex(*shape[1:3], a.kernel_h, a.kernel_w):
        i, j = row + a.pad_top - r * a.dilation_h, column + a.pad_left - c * a.dilation_w
        if 0 <= i < x.shape[1] and 0 <= j < x.shape[2]:
            y[:, row, column] += x[:, i, j].astype(np.float64) @ weight[:, r, c].T
    return [y]


def _pool_taps(a: Any, x: Array, shape: tuple[int, ...]) -> Any:
    h = windows(x.shape[1], shape[1], a.kernel_h, a.stride_h, a.pad_h, a.dilation_h)
    w = windows(x.shape[2], shape[2], a.kernel_w, a.stride_w, a.pad_w, a.dilation_w)
    for row, column in product(range(shape[1]), range(shape[2])):
        yield row, column, [(i, j) for (_, i), (_, j) in product(h[row], w[column])]


def _pool(x: Array, shape: tuple[int, ...], taps: Any, mode: int) -> list[Array]:
    y = np.empty(shape)
    for row, column, places in taps:
        values = np.stack([x[:, i, j].astype(np.float64) for i, j in places])
        y[:, row, column] = values.mean(0) if mode else values.max(0)
    return [y]


def pool2d(a: Any, x: Array, *, shape: tuple[int, ...]) -> list[Array]:
    """The greatest or the mean of the taps inside the image; no divisor of its own, no padding counted."""
    assert (a.count_include_pad, a.divisor) == (0, 0)
    return _pool(x, shape, _pool_taps(a, x, shape), a.mode)


def adaptive_pool2d(a: Any, x: Array, *, shape: tuple[int, ...]) -> list[Array]:
    """The same of windows that together cover the image."""
    spans = [
        [range(o * size // out, -(-(o + 1) * size // out)) for o in range(out)]
        for size, out in zip(x.shape[1:3], shape[1:3], strict=True)
    ]
    taps = (
        (row, column, list(product(spans[0][row], spans[1][column])))
        for row, column in product(range(shape[1]), range(shape[2]))
    )
    return _pool(x, shape, taps, a.mode)


def max_pool2d_indices(a: Any, x: Array, *, shape: tuple[int, ...]) -> list[Array]:
    """Where the greatest tap lies."""
    assert a.adaptive == 0
    y = np.empty(shape, np.int64)
    for row, column, places in _pool_taps(a, x, shape):
        best = np.stack([x[:, i, j] for i, j in places]).argmax(0)
        y[:, row, column] = np.array([i * x.shape[2] + j for i, j in places])[best]
    return [y]


def cubic(distance: float) -> float:
    """Return the weight of a tap: Keys' kernel with a = -0.75."""
    t = abs(distance)
    if t <= 1:
        return (1.25 * t - 2.25) * t * t + 1
    return ((-0.75 * t + 3.75) * t - 6) * t + 3 if t < 2 else 0.0


def resize2d(a: Any, x: Array, *, shape: tuple[int, ...]) -> list[Array]:
    """A matrix of weights for each dimension."""
    assert (a.scale_h, a.scale_w) == (0.0, 0.0)
    matrices = []
    for size, out in zip(x.shape[1:3], shape[1:3], strict=True):
        matrix = np.zeros((out, size))
        for o in range(out):
            step = (size - 1) / (out - 1) if a.align_corners else size / out
            s = o * step if a.align_corners else (o + 0.5) * step - 0.5
            if a.mode < 2:
                matrix[o, min(math.floor((o + 0.5 * a.mode) * step), size - 1)] = 1
                continue
            s = max(s, 0.0) if a.mode == 2 else s
            for tap in range(math.floor(s) - 1, math.floor(s) + 3):
                weight = max(0.0, 1 - abs(s - tap)) if a.mode == 2 else cubic(s - tap)
                matrix[o, min(max(tap, 0), size - 1)] += weight
        matrices.append(matrix)
    return [np.einsum("oi,pj,bijc->bopc", *matrices, x.astype(np.float64))]


def composite(a: Any, back: Array, front: Array, matte: Array) -> list[Array]:
    """The mix of two images by a matte, which is resized first."""
    if a.is_resized:
        channel = 3 if a.is_channels_last else 1
        sides = back.shape[:channel] + back.shape[channel + 1 :]
        settings = SimpleNamespace(scale_h=a.scale_h, scale_w=a.scale_w, align_corners=a.align_corners, mode=2)
        (resized,) = resize2d(settings, np.moveaxis(matte, channel, 3), shape=(*sides, 1))
        matte = np.moveaxis(resized, 3, channel)
    return [back + matte.astype(np.float64) * (front.astype(np.float64) - back)]


def _unfold(s: float, size: int, padding: int, align_corners: int) -> float:
    """Return a coordinate by the padding rule: 1 held at the border, 2 reflected."""
    if padding == 2:
        low, span = (0.0, size - 1) if align_corners else (-0.5, size)
        t = abs(s - low) % (2 * span)
        s = min(t, 2 * span - t) + low
    return min(max(s, 0.0), size - 1.0) if padding else s


def grid_sample(a: Any, x: Array, grid: Array, *, shape: tuple[int, ...]) -> list[Array]:
    """Bilinear, nearest or bicubic samples at points of [-1, 1]."""
    height, width = x.shape[1:3]
    y = np.zeros(shape)
    for b, row, column in np.ndindex(*shape[:3]):
        at = []
        for value, size in zip(grid[b, row, column][::-1].astype(np.float64), (height, width), strict=True):
            s = (value + 1) / 2 * (size - 1) if a.align_corners else ((value + 1) * size - 1) / 2
            at.append(s if a.mode == 2 else _unfold(s, size, a.padding, a.align_corners))
        first = [int(np.rint(s)) if a.mode == 1 else math.floor(s) - 1 for s in at]
        around = range(1 if a.mode == 1 else 4)
        for i, j in product(around, around):
            taps = first[0] + i, first[1] + j
            weight, place = 1.0, []
            for s, tap, size in zip(at, taps, (height, width), strict=True):
                weight *= (max(0.0, 1 - abs(s - tap)), 1.0, cubic(s - tap))[a.mode]
                place.append(int(np.rint(_unfold(tap, size, a.padding, a.align_corners))) if a.mode == 2 else tap)
            if 0 <= place[0] < height and 0 <= place[1] < width:
                y[b, row, column] += weight * x[b, place[0], place[1]]
    return [y]


def grid_sample3d(a: Any, x: Array, grid: Array, *, shape: tuple[int, ...]) -> list[Array]:
    """Bilinear or nearest samples of a volume at points of [-1, 1]; a point has x, y, z."""
    sizes = x.shape[1:4]
    y = np.zeros(shape)
    for place in np.ndindex(*shape[:4]):
        at = []
        for value, size in zip(grid[place][::-1].astype(np.float64), sizes, strict=True):
            s = (value + 1) / 2 * (size - 1) if a.align_corners else ((value + 1) * size - 1) / 2
            at.append(_unfold(s, size, a.padding, a.align_corners))
        first = [int(np.rint(s)) if a.mode == 1 else math.floor(s) for s in at]
        for steps in product(range(1 if a.mode == 1 else 2), repeat=3):
            taps = [low + step for low, step in zip(first, steps, strict=True)]
            if all(0 <= tap < size for tap, size in zip(taps, sizes, strict=True)):
                shares = [1.0 if a.mode == 1 else 1 - abs(s - tap) for s, tap in zip(at, taps, strict=True)]
                y[place] += math.prod(shares) * x[place[0], taps[0], taps[1], taps[2]]
    return [y]
