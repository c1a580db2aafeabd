"""Operators on int8, by exact integers and one rounding."""

from typing import Any

import numpy as np

from tests.kernels.reference.layouts import LANES, Array, read_int8
from tests.kernels.reference.movement import pairs, windows
from tests.kernels.reference.products import int8_product, quantize_rows


def requantize(value: Array, a: Any, zero_point: int) -> Array:
    """Return the nearest int8 within the bounds; scaled values are float32 first."""
    low, high = getattr(a, "low", -128), getattr(a, "high", 127)
    return np.asarray(np.rint(np.clip(value, low - zero_point, high - zero_point)) + zero_point)


def quantize(a: Any, x: Array) -> list[Array]:
    """Divided by the scale and rounded."""
    return [requantize(x * (np.float32(1) / np.float32(a.scale)), a, a.zero_point)]


def dequantize(a: Any, x: Array) -> list[Array]:
    """Times the scale."""
    return [(x.astype(np.float64) - a.zero_point) * a.scale]


def linear_i8(a: Any, x: Array, packed: Array, *, shape: tuple[int, ...]) -> list[Array]:
    """Exact sums, scaled and rounded."""
    total, layer = int8_product(x, packed, shape[-1])
    return [requantize((total + layer.words).astype(np.float32) * layer.scales, a, a.zero_point)]


def _window_sums(a: Any, x: Array, weight: Array, words: Array, shape: tuple[int, ...]) -> Array:
    """Return sums over taps; weight is [n, kernel_h, kernel_w, c] or of a channel each; outside is the zero point."""
    h = windows(x.shape[1], shape[1], a.kernel_h, a.stride_h, a.pad_top, a.dilation_h)
    w = windows(x.shape[2], shape[2], a.kernel_w, a.stride_w, a.pad_left, a.dilation_w)
    y = np.empty(shape, np.int64)
    for row, column in np.ndindex(*shape[1:3]):
        patch = np.full((x.shape[0], a.kernel_h, a.kernel_w, x.shape[3]), a.input_zero_point, np.int64)
        for (r, c), (i, j) in pairs(h[row], w[column]):
            patch[:, r, c] = x[:, i, j]
        formula = "bijc,nijc->bn" if weight.ndim == 4 else "bijc,cij->bc"
        y[:, row, column] = np.einsum(formula, patch, weight) + words
    return y


def conv2d_i8(a: Any, x: Array, packed: Array, *, shape: tuple[int, ...]) -> list[Array]:
    """A convolution of one group."""
    assert a.groups == 1
    layer = read_int8(packed, shape[3], a.kernel_h * a.kernel_w * x.shape[3])
    weight = layer.weight.reshape(shape[3], a.kernel_h, a.kernel_w, -1)
    total = _window_sums(a, x, weight, layer.words, shape)
    return [requantize(total.astype(np.float32) * layer.scales, a, a.zero_point)]


def depthwise_conv2d_i8(a: Any, x: Array, packed: Array, *, shape: tuple[int, ...]) -> list[Array]:
    """Each channel by itself."""
    words = packed[:, :64].copy().view(np.int32).reshape(-1)[: shape[3]]
    scales = packed[:, 64:128].copy().view(np.float32).reshape(-1)[: shape[3]]
    weight = packed[:, 128:].reshape(-1, a.kernel_h * a.kernel_w, LANES).transpose(0, 2, 1)
    weight = weight.reshape(-1, a.kernel_h, a.kernel_w)[: shape[3]].astype(np.int64)
    total = _window_sums(a, x, weight, words, shape)
    return [requantize(total.astype(np.float32) * scales, a, a.zero_point)]


def add_i8(a: Any, x: Array, y: Array) -> list[Array]:
    """Both scaled, then added."""
    left = (x.astype(np.float32) - a.a_zero_point) * np.float32(a.a_ratio)
    return [requantize(left + (y.astype(np.float32) - a.b_zero_point) * np.float32(a.b_ratio), a, a.zero_point)]


def mul_i8(a: Any, x: Array, y: Array) -> list[Array]:
    """Multiplied exactly, then scaled."""
    product = (x.astype(np.float32) - a.a_zero_point) * (y.astype(np.float32) - a.b_zero_point)
    return [requantize(product * np.float32(a.ratio), a, a.zero_point)]


def lut_i8(_: Any, x: Array, table: Array) -> list[Array]:
    """A table of 256."""
    return [table[x.astype(np.int64) + 128]]


def attention_i8(a: Any, query: Array, key: Array, value: Array, *mask: Array) -> list[Array]:
    """Exact scores, shares of 255 of the values; each head of keys serves neighboring heads of queries."""
    groups = query.shape[-3] // key.shape[-3]
    q = query.astype(np.int64) - a.query_zero_point
    k = np.repeat(key.astype(np.int64) - a.key_zero_point, groups, axis=-3)
    v = np.repeat(value.astype(np.int64) - a.value_zero_point, groups, axis=-3)
    scores = (q @ np.swapaxes(k, -1, -2)) * a.scale
    if mask:
        scores = np.where(mask[0], scores, a.masked)
    if a.is_causal:
        scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
    shares = np.rint(255 * np.exp(scores - scores.max(-1, keepdims=True)))
    return [requantize(shares @ v / shares.sum(-1, keepdims=True) * a.ratio, a, a.zero_point)]


def mean_i8(a: Any, x: Array, *, shape: tuple[int, ...]) -> list[Array]:
    """Exact sums of some dimensions, scaled."""
    axes = tuple(range(a.first_axis, a.first_axis + a.axis_count))
    total = (x.astype(np.int64) - a.input_zero_point).sum(axes)
    return [requantize(total.astype(np.float32) * np.float32(a.ratio), a, a.zero_point).reshape(shape)]


def linear_qd8_qc8w(_: Any, x: Array, packed: Array, *bias: Array, shape: tuple[int, ...]) -> list[Array]:
    """Rows quantized by their range, then multiplied."""
    layer = read_int8(packed, shape[-1], x.shape[-1])
    weight = layer.weight * layer.scales[:, None].astype(np.float64)
    return [quantize_rows(x.astype(np.float64)) @ weight.T + (bias[0] if bias else 0)]


def linear_f32_qc8w(_: Any, x: Array, packed: Array, *bias: Array, shape: tuple[int, ...]) -> list[Array]:
    """Weights alone are int8."""
    layer = read_int8(packed, shape[-1], x.shape[-1])
    weight = layer.weight * layer.scales[:, None].astype(np.float64)
    return [x.astype(np.float64) @ weight.T + (bias[0] if bias else 0)]


def linear_f32_qb4w(a: Any, x: Array, packed: Array, *bias: Array, shape: tuple[int, ...]) -> list[Array]:
    """Weights are 4 bits, with a scale for each group of inputs."""
    groups = packed.reshape(len(packed), -1, 64 + 8 * a.group)
    scales = groups[..., :64].copy().view(np.float32).astype(np.float64)  # [panels, groups, 16]
    words = groups[..., 64:].copy().view(np.uint32).reshape(*groups.shape[:2], a.group // 8, LANES)
    nibbles = (words[..., None] >> (4 * np.arange(8, dtype=np.uint32)) & 15).astype(np.float64) - 8
    weight = nibbles.transpose(0, 3, 1, 2, 4).reshape(len(packed), LANES, groups.shape[1], a.group)
    rows = (weight * scales.transpose(0, 2, 1)[..., None]).reshape(len(packed) * LANES, -1)
    return [x.astype(np.float64) @ rows[: shape[-1], : x.shape[-1]].T + (bias[0] if bias else 0)]


def linear_qd8_qb4w(a: Any, x: Array, packed: Array, *bias: Array, shape: tuple[int, ...]) -> list[Array]:
    """Weights are 4 bits and inputs 8, with a scale for each group of inputs."""
    count = -(-x.shape[-1] // a.group)
    head = 64 * -(-count // 2)
    halves = packed[:, :head].copy().view(np.uint16).reshape(len(packed), -1, LANES)[:, :count]
    scales = (halves.astype(np.uint32) << 16).view(np.float32).astype(np.float64)  # [panels, groups, 16]
    words = packed[:, head:].copy().view(np.uint32).reshape(len(packed), count, a.group // 8, LANES)
    places = np.array([8 * (j % 4) + 4 * (j // 4) for j in range(8)], np.uint32)
    nibbles = (words[..., None] >> places & 15).astype(np.float64) - 8
    weight = nibbles.transpose(0, 3, 1, 2, 4).reshape(len(packed), LANES, count, a.group)
    rows = (weight * scales.transpose(0, 2, 1)[..., None]).reshape(len(packed) * LANES, -1)
    padded = np.zeros((*x.shape[:-1], count, a.group))
    padded.reshape(*x.shape[:-1], -1)[..., : x.shape[-1]] = x
    step = np.abs(padded).max(-1, keepdims=True) / 127
    rounded = np.rint(padded / step) * step
    return [rounded.reshape(*x.shape[:-1], -1) @ rows[: shape[-1]].T + (bias[0] if bias else 0)]


def max_pool2d_i8(a: Any, x: Array, *, shape: tuple[int, ...]) -> list[Array]:
    """The greatest tap inside the image."""
    h = windows(x.shape[1], shape[1], a.kernel_h, a.stride_h, a.pad_h, a.dilation_h)
    w = windows(x.shape[2], shape[2], a.kernel_w, a.stride_w, a.pad_w, a.dilation_w)
    y = np.empty(shape)
    for row, column in np.ndindex(*shape[1:3]):
        y[:, row, column] = np.max([x[:, i, j] for _, (i, j) in pairs(h[row], w[column])], axis=0)
    return [y]
