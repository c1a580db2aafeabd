"""Packs quantized weights as kernels read them (kernels/requantize.h and the kernels' headers), and unpacks them.

Panels of 16 outputs.  For int8: int32[16], float32[16], int8[ceil(k/4)][16][4]; of a depthwise convolution the
weights are int8[taps][16]; for int4: blocks of float32[16] and uint32[group/8][16], or for products whose inputs are
quantized in groups: uint16[groups made even][16], the upper halves of scales, and uint32[groups][group/8][16].
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Int8s = NDArray[np.int8]
Floats = NDArray[np.float32]

OUTPUTS: Final = 16
GROUPS: Final = (32, 64)
"""Inputs that share a scale in int4."""
INT4_MAX: Final = 7
_MIDDLE: Final = np.int8(INT4_MAX + 1)
"""What is stored of a 0 in four bits without sign."""


def panels_i8(rows: Int8s, words: NDArray[Any], scales: Floats) -> Int8s:
    """Return int8 [ceil(n/16), 128 + 64 * ceil(k/4)].

    Args:
        rows: int8 [n, k].
        words: int32 [n]: biases, or sums of weights.
        scales: f32 [n].
    """
    n, k = rows.shape
    padded = np.zeros((_panels(n) * OUTPUTS, -(-k // 4) * 4), np.int8)
    padded[:n, :k] = rows
    weights = padded.reshape(_panels(n), OUTPUTS, -1, 4).transpose(0, 2, 1, 3)
    return _with_heads(weights, words, scales)


def biased_panels_i8(rows: Int8s, bias: Floats, scales: Floats) -> Int8s:
    """Return `panels_i8` of a recurrent layer whose arithmetic is float32: the words are the bits of biases [n]."""
    return panels_i8(rows, bias.view(np.int32), scales)


def dynamic_panels_i8(rows: Int8s, bias: Floats, scales: Floats) -> Int8s:
    """Return what a recurrent layer with quantized rows reads: `panels_i8` with sums of weights, then biases [n].

    Returns:
        int8 of rank 1.
    """
    packed = panels_i8(rows, rows.astype(np.int64).sum(axis=1), scales)
    padded = np.zeros(len(packed) * OUTPUTS, "<f4")
    padded[: len(bias)] = bias
    return np.concatenate([packed.reshape(-1), _bytes(padded, "<f4")])


def unpanel_i8(packed: Int8s, n: int, k: int) -> tuple[Int8s, NDArray[np.int32], Floats]:
    """Return rows, words and scales of `panels_i8`."""
    words, scales, weights = _heads(packed, n)
    rows = weights.reshape(len(packed), -1, OUTPUTS, 4).transpose(0, 2, 1, 3).reshape(len(packed) * OUTPUTS, -1)
    return np.ascontiguousarray(rows[:n, :k]), words, scales


def depthwise_panels_i8(taps: Int8s, words: NDArray[Any], scales: Floats) -> Int8s:
    """Return int8 [ceil(c/16), 128 + 16 * taps] of weights [taps, c], words [c] and scales [c]."""
    count, channels = taps.shape
    padded = np.zeros((count, _panels(channels) * OUTPUTS), np.int8)
    padded[:, :channels] = taps
    return _with_heads(padded.reshape(count, -1, OUTPUTS).transpose(1, 0, 2), words, scales)


def depthwise_unpanel_i8(packed: Int8s, channels: int) -> tuple[Int8s, NDArray[np.int32], Floats]:
    """Return taps, words and scales of `depthwise_panels_i8`."""
    words, scales, weights = _heads(packed, channels)
    taps = weights.reshape(len(packed), -1, OUTPUTS).transpose(1, 0, 2).reshape(-1, len(packed) * OUTPUTS)
    return np.ascontiguousarray(taps[:, :channels]), words, scales


def quantize_i4(rows: Floats, group: int, *, has_half_scales: bool = False) -> tuple[Int8s, Floats]:
    """Return [n, k] in [-7, 7] and the scales [n, ceil(k/group)], each the group's greatest magnitude / 7.

    Args:
        rows: f32 [n, k].
        group: inputs that share a scale.
        has_half_scales: whether the scales are rounded to the upper halves of float32.
    """
    n, k = rows.shape
    count = -(-k // group)
    padded = np.zeros((n, count * group))
    padded[:, :k] = rows
    groups = padded.reshape(n, count, group)
    scales = (np.abs(groups).max(axis=2) / INT4_MAX).astype(np.float32)
    if has_half_scales:
        scales = round_to_half_bits(scales)
    scales[scales == 0] = 1
    integers = np.clip(np.rint(groups / scales.astype(np.float64)[:, :, None]), -INT4_MAX, INT4_MAX)
    return integers.reshape(n, -1)[:, :k].astype(np.int8), scales


def round_to_half_bits(scales: Floats) -> Floats:
    """Return the nearest numbers whose lower 16 bits are 0, ties to even; scales are finite and above 0."""
    bits = np.ascontiguousarray(scales).view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) & np.uint32(0xFFFF0000)).view(
        np.float32
    )


def panels_qb4(rows: Int8s, scales: Floats, group: int) -> Int8s:
    """Return int8 [ceil(n/16), 64 * ceil(groups/2) + 8 * group * groups] of [n, k] in [-8, 7] and scales [n, groups].

    The scales' lower 16 bits are 0.
    """
    n, k = rows.shape
    panels, count = _panels(n), scales.shape[1]
    nibbles = np.full((panels * OUTPUTS, count * group), 8, np.uint8)
    nibbles[:n, :k] = rows + _MIDDLE
    eights = nibbles.reshape(panels, OUTPUTS, count * group // 8, 2, 4)
    words = (eights[..., 0, :] | eights[..., 1, :] << np.uint8(4)).transpose(0, 2, 1, 3).reshape(panels, -1)
    heads = np.zeros((panels, count + count % 2, OUTPUTS), "<u2")
    halves = np.zeros((panels * OUTPUTS, count), np.uint16)
    halves[:n] = (np.ascontiguousarray(scales).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    heads[:, :count] = halves.reshape(panels, OUTPUTS, count).transpose(0, 2, 1)
    return np.concatenate([_bytes(heads.reshape(panels, -1), "<u2"), words.view(np.int8)], axis=1)


def unpanel_qb4(packed: Int8s, n: int, k: int, group: int) -> tuple[Int8s, Floats]:
    """Return rows and scales of `panels_qb4`."""
    panels, count = len(packed), -(-k // group)
    head = -(-count // 2) * 64
    halves = np.ascontiguousarray(packed[:, :head]).view("<u2").reshape(panels, -1, OUTPUTS)[:, :count]
    bits = halves.transpose(0, 2, 1).reshape(panels * OUTPUTS, count)[:n].astype(np.uint32) << np.uint32(16)
    words = np.ascontiguousarray(packed[:, head:]).view(np.uint8).reshape(panels, count * group // 8, OUTPUTS, 4)
    places = np.stack([words & np.uint8(15), words >> np.uint8(4)], axis=3)
    rows = places.transpose(0, 2, 1, 3, 4).reshape(panels * OUTPUTS, -1)[:n, :k]
    return rows.astype(np.int8) - _MIDDLE, bits.view(np.float32)


def panels_i4(rows: Int8s, scales: Floats, group: int) -> Int8s:
    """Return int8 [ceil(n/16), ceil(k/group) * (64 + 8 * group)] of [n, k] in [-8, 7] and scales [n, groups]."""
    n, k = rows.shape
    panels, count = _panels(n), scales.shape[1]
    nibbles = np.full((panels * OUTPUTS, count * group), 8, np.uint32)
    nibbles[:n, :k] = rows.astype(np.int32) + 8
    eights = nibbles.reshape(panels, OUTPUTS, count, group // 8, 8)
    words = np.zeros(eights.shape[:-1], np.uint32)
    for place in range(8):
        words |= eights[..., place] << np.uint32(4 * place)
    padded = np.zeros((panels * OUTPUTS, count), "<f4")
    padded[:n] = scales
    head = padded.reshape(panels, OUTPUTS, count).transpose(0, 2, 1)
    blocks = np.concatenate(
        [_bytes(head, "<f4"), _bytes(words.transpose(0, 2, 3, 1).reshape(panels, count, -1), "<u4")], axis=2
    )
    return blocks.reshape(panels, -1)


def unpanel_i4(packed: Int8s, n: int, k: int, group: int) -> tuple[Int8s, Floats]:
    """Return rows and scales of `panels_i4`."""
    panels = len(packed)
    blocks = packed.reshape(panels, -(-k // group), 64 + 8 * group)
    scales = np.ascontiguousarray(blocks[..., :64]).view("<f4").transpose(0, 2, 1).reshape(panels * OUTPUTS, -1)[:n]
    words = np.ascontiguousarray(blocks[..., 64:]).view("<u4").reshape(panels, -1, group // 8, OUTPUTS)
    places = np.stack([(words >> np.uint32(4 * place)) & np.uint32(15) for place in range(8)], axis=-1)
    rows = places.transpose(0, 3, 1, 2, 4).reshape(panels * OUTPUTS, -1)[:n, :k]
    return (rows.astype(np.int32) - 8).astype(np.int8), np.ascontiguousarray(scales)


def _panels(outputs: int) -> int:
    return -(-outputs // OUTPUTS)


def _bytes(array: NDArray[Any], dtype: str) -> Int8s:
    """Return the bytes of the last dimension."""
    return np.ascontiguousarray(array, dtype=dtype).view(np.int8)


def _with_heads(weights: Int8s, words: NDArray[Any], scales: Floats) -> Int8s:
    panels = len(weights)
    parts = []
    for values, dtype in ((words, "<i4"), (scales, "<f4")):
        padded = np.zeros(panels * OUTPUTS, dtype)
        padded[: len(values)] = values
        parts.append(_bytes(padded.reshape(panels, OUTPUTS), dtype))
    return np.concatenate([*parts, np.ascontiguousarray(weights).reshape(panels, -1)], axis=1)


def _heads(packed: Int8s, n: int) -> tuple[NDArray[np.int32], Floats, Int8s]:
    words = np.ascontiguousarray(packed[:, :64]).view("<i4").reshape(-1)[:n]
    scales = np.ascontiguousarray(packed[:, 64:128]).view("<f4").reshape(-1)[:n]
    return words, scales, packed[:, 128:]
