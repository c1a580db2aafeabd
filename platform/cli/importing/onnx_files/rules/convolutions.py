"""Rules of convolutions."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch uses
from alcove.platform.cli.importing.onnx_files.errors import UnsupportedError
from alcove.platform.cli.importing.onnx_files.node import Function, Node, rule
from torch import Tensor

Pads = tuple[tuple[int, int], ...]


def window_pads(
    node: Node, size: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> Pads:
    """Return what is added before and after each axis, by `pads` or by `auto_pad`."""
    auto = node.text_of("auto_pad", "NOTSET")
    count = len(kernel)
    if auto in {"NOTSET", ""}:
        pads = node.ints("pads", [0] * 2 * count)
        if len(pads) != 2 * count:
            raise UnsupportedError(f"{len(pads)} pads for {count} axes")
        return tuple(zip(pads[:count], pads[count:], strict=True))
    if auto == "VALID":
        return ((0, 0),) * count
    if auto not in {"SAME_UPPER", "SAME_LOWER"}:
        raise UnsupportedError(f"auto_pad {auto!r}")
    found = []
    for length, window, stride, dilation in zip(size, kernel, strides, dilations, strict=True):
        reach = (window - 1) * dilation + 1
        total = max((-(-length // stride) - 1) * stride + reach - length, 0)
        less, more = total // 2, total - total // 2
        found.append((less, more) if auto == "SAME_UPPER" else (more, less))
    return tuple(found)


def pad_axes(x: Tensor, pads: Pads, value: float = 0.0) -> Tensor:
    """Return a tensor padded on its last axes."""
    if not any(before or after for before, after in pads):
        return x
    return F.pad(x, [each for before, after in reversed(pads) for each in (before, after)], value=value)


def is_even(pads: Pads) -> bool:
    """Return whether as much is added after as before, and nothing is cut off."""
    return all(before == after >= 0 for before, after in pads)


@rule("Conv", "com.microsoft.FusedConv")
def conv(node: Node) -> Function:
    """In one, two or three dimensions."""
    rank, kernel = node.rank() - 2, node.shape(1)[2:]
    if not 1 <= rank <= 3 or len(kernel) != rank:
        raise UnsupportedError(f"a convolution over {rank} axes with a kernel of {len(kernel)}")
    convolve = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    strides, dilations = node.ints("strides", [1] * rank), node.ints("dilations", [1] * rank)
    groups = node.int_of("group", 1)
    pads = window_pads(node, node.shape()[2:], kernel, strides, dilations)
    padding = [before for before, _ in pads] if is_even(pads) else [0] * rank
    outside = () if is_even(pads) else pads
    activate = activation(node)

    def function(x: Tensor, weight: Tensor, bias: Tensor | None = None, added: Tensor | None = None) -> Tensor:
        x = pad_axes(x, outside)
        y = convolve(x, weight, bias, strides, padding, dilations, groups)
        found: Tensor = activate(y if added is None else y + added)
        return found

    return function


def activation(node: Node) -> Function:
    """Return what ONNX Runtime has fused behind a layer."""
    name = node.text_of("activation", "")
    given = node.attributes.get("activation_params", [])
    parameters = [float(each) for each in given] or [
        node.float_of(each) for each in ("activation_alpha", "activation_beta") if each in node.attributes
    ]
    if not name:
        return lambda x: x
    if len(parameters) == 2:
        low, high = parameters
        if name == "Clip":
            return lambda x: torch.clamp(x, low, high)
        if name == "HardSigmoid":
            return lambda x: torch.clamp(x * low + high, 0.0, 1.0)
    if name == "LeakyRelu":
        return lambda x: F.leaky_relu(x, parameters[0] if parameters else 0.01)
    known = {"Relu": torch.relu, "Sigmoid": torch.sigmoid, "Tanh": torch.tanh}
    if name not in known:
        raise UnsupportedError(f"activation {name!r}")
    return known[name]


@rule("ConvTranspose")
def conv_transpose(node: Node) -> Function:
    """Padding is what is cut off; where that differs on both sides it is cut afterwards."""
    rank, kernel = node.rank() - 2, node.shape(1)[2:]
    if not 1 <= rank <= 3:
        raise UnsupportedError(f"a convolution over {rank} axes")
    convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
    strides, dilations = node.ints("strides", [1] * rank), node.ints("dilations", [1] * rank)
    more = node.ints("output_padding", [0] * rank)
    groups = node.int_of("group", 1)
    sizes = node.shape()[2:]
    full = [
        stride * (size - 1) + extra + (window - 1) * dilation + 1
        for size, stride, extra, window, dilation in zip(sizes, strides, more, kernel, dilations, strict=True)
    ]
    pads = _cut(node, full, sizes, strides)
    if is_even(pads) and all(extra < max(step, gap) for extra, step, gap in zip(more, strides, dilations, strict=True)):
        padding = [before for before, _ in pads]
        return lambda x, weight, bias=None: convolve(x, weight, bias, strides, padding, more, groups, dilations)
    whole = tuple((-before, extra - after) for (before, after), extra in zip(pads, more, strict=True))
    # What torch gives has no room for output_padding, which is zeros where windows do not reach.

    def function(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        y = convolve(x, weight, None, strides, 0, 0, groups, dilations)
        y = pad_axes(y, whole)
        return y if bias is None else y + bias.reshape((-1, *(1,) * rank))

    return function


def _cut(node: Node, full: Sequence[int], sizes: Sequence[int], strides: Sequence[int]) -> Pads:
    """Return what is cut off the whole result before and after each axis."""
    auto = node.text_of("auto_pad", "NOTSET")
    wanted = node.attributes.get("output_shape")
    if wanted is not None:
        wanted = [int(each) for each in wanted][-len(full) :]
    elif auto in {"SAME_UPPER", "SAME_LOWER"}:
        wanted = [size * stride for size, stride in zip(sizes, strides, strict=True)]
    if wanted is None:
        return window_pads(node, sizes, [1] * len(full), strides, [1] * len(full))
    found = []
    for have, want in zip(full, wanted, strict=True):
        total = max(have - int(want), 0)
        less, most = total // 2, total - total // 2
        before, after = (less, most) if auto == "SAME_UPPER" else (most, less)
        found.append((before, after - max(int(want) - have, 0)))
    return tuple(found)
