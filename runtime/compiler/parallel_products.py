"""Adds products of one image to one product: the branches of networks that were trained in parallel and run as one.

A convolution whose taps all lie under those of another one's kernel, with the same stride and groups, is part of that
kernel; what scales and shifts the image by channel is a tap of its own.  Weights are added in float64, as when a batch
norm is folded.
"""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from alcove.runtime.compiler.builder import has_function
from alcove.runtime.compiler.graph import Node, Value
from alcove.runtime.format.attributes import Conv2dAttributes, DepthwiseConv2dAttributes
from alcove.runtime.format.spec import DType
from numpy.typing import NDArray

Doubles: TypeAlias = NDArray[np.float64]
Weights: TypeAlias = tuple[Doubles, Doubles]
"""A weight and a bias."""
_Windowed: TypeAlias = Conv2dAttributes | DepthwiseConv2dAttributes


def add_weights(values: Mapping[str, Value], large: Node, small: Node) -> Weights | None:
    """Return weight and bias of one product that is the sum of both, or None if `large` does not cover `small`."""
    weight, bias = _weights(values, large)
    other, shift = _weights(values, small)
    if large.op != small.op or large.inputs[0] != small.inputs[0] or weight.shape[:2] != other.shape[:2]:
        return None
    if large.op == "linear":
        return weight + other, bias + shift
    window, part = large.attributes, small.attributes
    if not isinstance(window, _Windowed) or not isinstance(part, _Windowed):
        return None
    if (window.stride_h, window.stride_w, _groups(window)) != (part.stride_h, part.stride_w, _groups(part)):
        return None
    rows = _taps((window.kernel_h, window.pad_top, window.dilation_h), (part.kernel_h, part.pad_top, part.dilation_h))
    columns = _taps(
        (window.kernel_w, window.pad_left, window.dilation_w), (part.kernel_w, part.pad_left, part.dilation_w)
    )
    if rows is None or columns is None:
        return None
    weight[np.ix_(range(weight.shape[0]), range(weight.shape[1]), rows, columns)] += other
    return weight, bias + shift


def add_scale(values: Mapping[str, Value], product: Node, scale: Doubles, shift: Doubles) -> Weights | None:
    """Return weight and bias of a convolution with image * scale + shift added, or None if no tap is the pixel itself.

    Args:
        values: of the graph.
        product: of the image.
        scale: one number for each channel.
        shift: the same.
    """
    window = product.attributes
    if not isinstance(window, _Windowed) or (window.stride_h, window.stride_w) != (1, 1):
        return None
    weight, bias = _weights(values, product)
    if values[product.inputs[0]].shape != values[product.outputs[0]].shape or not np.isfinite(scale).all():
        return None
    rows = _taps((window.kernel_h, window.pad_top, window.dilation_h), (1, 0, 1))
    columns = _taps((window.kernel_w, window.pad_left, window.dilation_w), (1, 0, 1))
    if rows is None or columns is None:
        return None
    channels = np.arange(weight.shape[0])
    weight[channels, channels % weight.shape[1], rows[0], columns[0]] += scale
    return weight, bias + shift


def scale_of(
    values: Mapping[str, Value], writers: Mapping[str, Node], key: str, image: str
) -> tuple[Doubles, Doubles] | None:
    """Return scale and shift by channel where `key` is `image` times constants plus constants, or None."""
    channels = values[image].shape[-1]
    scale, shift = np.ones(channels), np.zeros(channels)
    steps = 0
    while key != image:
        node = writers.get(key)
        if node is None or not has_function(node, "binary", "add", "sub", "mul"):
            return None
        first, second = node.inputs
        if values[first].constant is not None and not has_function(node, "binary", "sub"):
            first, second = second, first
        numbers = _by_channel(values[second], channels)
        if numbers is None or values[first].shape != values[node.outputs[0]].shape:
            return None
        if has_function(node, "binary", "mul"):
            scale = scale * numbers
        else:
            shift = shift + scale * (-numbers if has_function(node, "binary", "sub") else numbers)
        key, steps = first, steps + 1
    return (scale, shift) if steps > 0 else None


def _by_channel(value: Value, channels: int) -> Doubles | None:
    if value.constant is None or value.dtype is not DType.F32 or value.constant.size not in {1, channels}:
        return None
    if value.constant.size > 1 and value.shape[-1] != channels:
        return None
    return np.broadcast_to(value.constant.reshape(-1).astype(np.float64), (channels,))


def _weights(values: Mapping[str, Value], product: Node) -> Weights:
    weight, bias = (values[key].array.astype(np.float64) for key in product.inputs[1:3])
    return weight, bias


def _groups(window: _Windowed) -> int:
    return window.groups if isinstance(window, Conv2dAttributes) else 0


def _taps(large: tuple[int, int, int], small: tuple[int, int, int]) -> list[int] | None:
    """Return the places of a kernel's taps among those of a larger one, each (size, padding, dilation), or None."""
    size, padding, dilation = large
    places = []
    for tap in range(small[0]):
        place, rest = divmod(tap * small[2] - small[1] + padding, dilation)
        if rest or not 0 <= place < size:
            return None
        places.append(place)
    return places
