"""Rules of pools."""

from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch uses
from alcove.platform.cli.importing.onnx_files.errors import UnsupportedError
from alcove.platform.cli.importing.onnx_files.node import Function, Node, rule
from alcove.platform.cli.importing.onnx_files.rules.convolutions import Pads, is_even, pad_axes, window_pads
from torch import Tensor


def _window(node: Node) -> tuple[list[int], list[int], list[int], Pads]:
    """Return kernel, strides, dilations and pads."""
    kernel = node.ints("kernel_shape")
    count = len(kernel)
    if count != node.rank() - 2 or not 1 <= count <= 3:
        raise UnsupportedError(f"a window over {count} axes of a tensor with {node.rank()} dimensions")
    strides, dilations = node.ints("strides", [1] * count), node.ints("dilations", [1] * count)
    return kernel, strides, dilations, window_pads(node, node.shape()[2:], kernel, strides, dilations)


def _fits_torch(pads: Pads, kernel: list[int]) -> bool:
    """Return whether torch takes these pads: as many on both sides, at most half a window."""
    return is_even(pads) and all(2 * before <= size for (before, _), size in zip(pads, kernel, strict=True))


@rule("MaxPool")
def max_pool(node: Node) -> Function:
    """What is added counts as less than any element."""
    if len(node.outputs) > 1 and node.outputs[1]:
        raise UnsupportedError("the places of the largest elements are not computed")
    kernel, strides, dilations, pads = _window(node)
    pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[len(kernel) - 1]
    fits = _fits_torch(pads, kernel)
    padding = [before for before, _ in pads] if fits else [0] * len(kernel)
    outside = () if fits else pads
    ceil = bool(node.int_of("ceil_mode"))
    dtype = node.tensor(0).dtype
    least = float("-inf") if dtype.is_floating_point else float(torch.iinfo(dtype).min)
    return lambda x: pool(pad_axes(x, outside, least), kernel, strides, padding, dilations, ceil)


@rule("AveragePool")
def average_pool(node: Node) -> Function:
    """Divided by the elements in the window, or by those of the tensor alone."""
    kernel, strides, dilations, pads = _window(node)
    counts_pads = bool(node.int_of("count_include_pad"))
    ceil = bool(node.int_of("ceil_mode"))
    if any(dilation != 1 for dilation in dilations):
        if ceil:
            raise UnsupportedError("ceil_mode with dilations")
        return _dilated_average(kernel, strides, dilations, pads, is_counted=counts_pads)
    pool = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[len(kernel) - 1]
    if _fits_torch(pads, kernel):
        padding = [before for before, _ in pads]
        return lambda x: pool(x, kernel, strides, padding, ceil, counts_pads)

    def average(x: Tensor) -> Tensor:
        found = pool(pad_axes(x, pads), kernel, strides, 0, ceil)
        if counts_pads:
            return found
        # The share of each window that is not padding.
        inside = torch.ones_like(x[:1, :1])
        return found / pool(pad_axes(inside, pads), kernel, strides, 0, ceil)

    return average


def _dilated_average(
    kernel: list[int], strides: list[int], dilations: list[int], pads: Pads, *, is_counted: bool
) -> Function:
    """Return the average over windows with gaps, as a convolution of each channel."""
    convolve = (F.conv1d, F.conv2d, F.conv3d)[len(kernel) - 1]

    def sums(x: Tensor) -> Tensor:
        channels = x.shape[1]
        window = torch.ones((channels, 1, *kernel))
        return convolve(pad_axes(x, pads), window, None, strides, 0, dilations, channels)

    return lambda x: sums(x) / sums(pad_axes(torch.ones_like(x), tuple((0, 0) for _ in kernel), float(is_counted)))


@rule("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: Node) -> Function:
    """Over all axes behind the channels."""
    axes = list(range(2, node.rank()))
    function = torch.mean if node.kind == "GlobalAveragePool" else torch.amax
    return partial(function, dim=axes, keepdim=True)


@rule("LpPool", "GlobalLpPool")
def lp_pool(node: Node) -> Function:
    """The root of the sum of powers."""
    power = node.int_of("p", 2)
    if node.kind == "GlobalLpPool":
        axes = list(range(2, node.rank()))
        return lambda x: x.abs().pow(power).sum(axes, keepdim=True).pow(1 / power)
    kernel, strides, dilations, pads = _window(node)
    ceil = bool(node.int_of("ceil_mode"))
    if ceil and any(dilation != 1 for dilation in dilations):
        raise UnsupportedError("ceil_mode with dilations")
    if any(dilation != 1 for dilation in dilations):
        convolve = (F.conv1d, F.conv2d, F.conv3d)[len(kernel) - 1]

        def sum_with_gaps(x: Tensor) -> Tensor:
            powers, channels = pad_axes(x.abs().pow(power), pads), x.shape[1]
            window = torch.ones((channels, 1, *kernel))
            return convolve(powers, window, None, strides, 0, dilations, channels).pow(1 / power)

        return sum_with_gaps
    pool = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[len(kernel) - 1]
    count = 1
    for size in kernel:
        count *= size
    return lambda x: (pool(pad_axes(x.abs().pow(power), pads), kernel, strides, 0, ceil) * count).pow(1 / power)
