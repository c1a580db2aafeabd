"""Matrix products, attention and recurrent layers in float64."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.kernels.reference.elements import activate
from tests.kernels.reference.layouts import Array, Int8Panels, Panels, read_int8


def linear(a: Any, x: Array, layer: Panels, *residual: Array) -> list[Array]:
    """Rows times a matrix, plus bias and residual, activated."""
    y = x.astype(np.float64) @ layer.weight.T + layer.bias
    return [activate(y + residual[0] if a.has_residual else y, a.activation, a.low, a.high)]


def matmul(a: Any, x: Array, y: Array) -> list[Array]:
    """Products of matrices, batches broadcast."""
    right = y.astype(np.float64)
    return [x.astype(np.float64) @ (np.swapaxes(right, -1, -2) if a.is_transposed else right)]


def attention(a: Any, query: Array, key: Array, value: Array, *mask: Array) -> list[Array]:
    """Shares of the values; each head of keys serves neighbouring heads of queries."""
    groups = query.shape[-3] // key.shape[-3]
    k, v = (np.repeat(each.astype(np.float64), groups, axis=-3) for each in (key, value))
    scores = query.astype(np.float64) @ np.swapaxes(k, -1, -2) * a.scale
    if mask:
        scores = np.where(mask[0], scores, a.masked)
    if a.is_causal:
        scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return [shares / shares.sum(-1, keepdims=True) @ v]


def cached_attention(a: Any, query: Array, key: Array, value: Array, mask: Array) -> list[Array]:
    """The same with a mask."""
    return attention(SimpleNamespace(**vars(a), is_causal=0), query, key, value, mask)


def fft(a: Any, re: Array, im: Array, _: Array) -> list[Array | None]:
    """The transform of each row."""
    y = np.fft.fft(re.astype(np.float64) + 1j * im) * a.scale
    return [y.real, None, y.imag]


def rfft(a: Any, x: Array, _: Array) -> list[Array | None]:
    """That of real rows."""
    y = np.fft.rfft(x.astype(np.float64)) * a.scale
    return [y.real, None, y.imag]


def irfft(a: Any, re: Array, im: Array, _: Array) -> list[Array | None]:
    """And back, without the factor."""
    return [np.fft.irfft(re.astype(np.float64) + 1j * im, norm="forward") * a.scale]


def sigmoid(x: Array) -> Array:
    """One over one plus the exponential."""
    return np.asarray(1 / (1 + np.exp(-x)))


def read_layer(layer: Panels | Array, n: int, k: int) -> tuple[Panels, bool]:
    """Return a layer of n outputs from any of its forms, and whether its inputs are quantized row by row."""
    if isinstance(layer, Panels):
        return layer, False
    if layer.ndim == 2:  # weights alone are int8; words are the bits of biases
        packed = read_int8(layer, n, k)
        return Panels(packed.weight * packed.scales[:, None].astype(np.float64), packed.words.view(np.float32)), False
    count = -(-n // 16)
    packed = read_int8(layer[: -64 * count].reshape(count, -1), n, k)
    bias = layer[-64 * count :].copy().view(np.float32)[:n]
    return Panels(packed.weight * packed.scales[:, None].astype(np.float64), bias), True


def quantize_rows(x: Array) -> Array:
    """Return rows as the nearest of 256 numbers between their least and greatest, 0 among them."""
    x = x.astype(np.float32)
    low, high = np.minimum(x.min(-1, keepdims=True), 0), np.maximum(x.max(-1, keepdims=True), 0)
    scale = high / np.float32(255) - low / np.float32(255)
    scale = np.where(scale < 2.0**-100, np.float32(1), scale)
    inverse = np.float32(1) / scale
    zero = np.rint(np.clip(-128 - low * inverse, -128, 127))
    return np.rint(np.clip(x * inverse, -128 - zero, 127 - zero)).astype(np.float64) * scale


def _apply(layer: tuple[Panels, bool], x: Array) -> Array:
    panels, is_dynamic = layer
    return (quantize_rows(x) if is_dynamic else x) @ panels.weight.T + panels.bias


def _run(a: Any, x: Array, states: list[Array], weights: tuple[Any, ...], layer: tuple[int, Any]) -> list[Array]:
    gates, step = layer
    h = states[0].astype(np.float64)
    width = states[-1].shape[1]
    inputs, hidden = (read_layer(w, gates * width, n.shape[-1]) for w, n in zip(weights, (x, h), strict=True))
    c = states[-1].astype(np.float64)
    y = np.empty((*x.shape[:2], h.shape[1]))
    for t in range(len(x))[:: -1 if a.is_reversed else 1]:
        h, c = step(_apply(inputs, x[t].astype(np.float64)), _apply(hidden, h), h, c)
        y[t] = h
    return [y, h, c][: 1 + len(states)]


def rnn(a: Any, x: Array, h: Array, *weights: Any) -> list[Array]:
    """Elman's layer."""
    return _run(a, x, [h], weights, (1, lambda m, n, _, c: (np.maximum(m + n, 0) if a.is_relu else np.tanh(m + n), c)))


def gru(a: Any, x: Array, h: Array, *weights: Any) -> list[Array]:
    """Gates r and z, candidate q."""

    def step(m: Array, n: Array, h: Array, c: Array) -> tuple[Array, Array]:
        (m0, m1, m2), (n0, n1, n2) = np.split(m, 3, -1), np.split(n, 3, -1)
        q, z = np.tanh(sigmoid(m0 + n0) * n2 + m2), sigmoid(m1 + n1)
        return (h - q) * z + q, c

    return _run(a, x, [h], weights, (3, step))


def lstm(a: Any, x: Array, h: Array, c: Array, *weights: Panels) -> list[Array]:
    """Gates i, f and o, candidate g; the output may be projected."""
    projection = weights[2:]

    def step(m: Array, n: Array, _: Array, c: Array) -> tuple[Array, Array]:
        i, f, g, o = np.split(m + n, 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        return (h @ projection[0].weight.T + projection[0].bias if projection else h), c

    return _run(a, x, [h, c], weights[:2], (4, step))


def int8_product(x: Array, packed: Array, n: int) -> tuple[Array, Int8Panels]:
    """Return exact sums of integers, and what they were made with."""
    layer = read_int8(packed, n, x.shape[-1])
    return x.astype(np.int64) @ layer.weight.T, layer
