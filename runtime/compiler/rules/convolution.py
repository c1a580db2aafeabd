"""Lowers convolutions: aten.convolution in one, two and three dimensions, forward and transposed.

Images are channels-last in a program: a rule permutes before and after, and `layout.py` takes the permutes out again.
One dimension is an image of one row.  Three dimensions are one 2-d convolution for each slice of the kernel's depth,
each adding the sum so far; one alone if the kernel has one column.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypedDict

import numpy as np
from alcove.runtime.compiler.builder import Builder, row_major_strides
from alcove.runtime.compiler.graph import Node, Value, as_f32
from alcove.runtime.compiler.pack import packer
from alcove.runtime.compiler.panels import (
    Transposed,
    convolution_panels,
    phases,
    shape_mark,
    shared_lanes,
    shares_lanes,
)
from alcove.runtime.compiler.rules import windows
from alcove.runtime.compiler.rules.registry import Call, Refused, rule
from alcove.runtime.compiler.scratch import scratch_bytes
from alcove.runtime.compiler.sizes import largest
from alcove.runtime.format.attributes import (
    Conv2dAttributes,
    ConvTranspose2dAttributes,
    DepthwiseConv2dAttributes,
    PadAttributes,
)
from alcove.runtime.format.spec import PANEL_COLUMNS, DType, Layout

CHANNELS_LAST: Final = (0, 2, 3, 1)
CHANNELS_FIRST: Final = (0, 3, 1, 2)
_LARGE_BYTES: Final = 4 << 20
"""Weights that a second-level cache does not hold, nor a phone's last one beside much else."""
_SCRATCH_SHARE: Final = 8
_MOST_PATCHES: Final = 64
"""`kMostPatches` of kernels/operators/conv2d/conv2d.h."""


@rule("aten.convolution.default")
def convolution(call: Call, b: Builder) -> Value:
    """Any groups, strides, paddings and dilations; a computed weight too, packed on the device."""
    x, weight, bias = call.tensor("input"), call.tensor("weight"), call.optional("bias")
    if x.dtype is DType.I64:
        return _of_integers(call, b, x, weight, bias)
    if x.dtype is not DType.F32:
        raise Refused("a convolution in float32")
    if bias is None:
        bias = b.zeros(call.shape[1])
    rank = len(x.shape) - 2
    if rank == 3:
        return _convolution3d(call, b, x, weight, bias)
    stride, padding, dilation = (
        _pair(call[name], idle) for name, idle in (("stride", 1), ("padding", 0), ("dilation", 1))
    )
    window = Window(stride, padding, dilation, int(call["groups"]))
    operands = Operands(to_channels_last(b, x), weight, bias)
    emit = _convolve_transposed if call["transposed"] else _forward
    return from_channels_last(b, emit(b, operands, image_shape(call.shape), window), call.shape)


class WindowNumbers(TypedDict):
    """The attributes that the window of every convolution has."""

    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    pad_top: int
    pad_left: int
    pad_bottom: int
    pad_right: int
    dilation_h: int
    dilation_w: int


@dataclass(frozen=True)
class Window:
    """How a kernel moves over an image, (rows, columns) each, and in how many groups it takes the channels."""

    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int

    def numbers(self, kernel_h: int, kernel_w: int) -> WindowNumbers:
        """Return the attributes of a kernel that moves so."""
        return {
            "kernel_h": kernel_h,
            "kernel_w": kernel_w,
            "stride_h": self.stride[0],
            "stride_w": self.stride[1],
            "pad_top": self.padding[0],
            "pad_left": self.padding[1],
            "pad_bottom": self.padding[0],
            "pad_right": self.padding[1],
            "dilation_h": self.dilation[0],
            "dilation_w": self.dilation[1],
        }


@dataclass(frozen=True, eq=False)
class Operands:
    """An image, channels-last, with a weight as torch has it, [n, c/groups, kh, kw] or without kh, and a bias."""

    image: Value
    weight: Value
    bias: Value

    @property
    def are_known(self) -> bool:
        """Whether weight and bias are constants, which `pack.py` packs; computed ones are packed by nodes."""
        return self.weight.constant is not None and self.bias.constant is not None

    @property
    def kernel(self) -> tuple[int, int, int, int]:
        """The weight's sizes with a kernel of rows and columns."""
        return _kernel(self.weight)


def to_channels_last(b: Builder, x: Value) -> Value:
    """Return [n, c, l] or [n, c, h, w] as an image [n, h, w, c]; one dimension becomes one row."""
    if len(x.shape) == 3:
        n, c, length = x.shape
        return b.reshape(b.permute(x, (0, 2, 1)), (n, 1, length, c))
    return b.permute(x, CHANNELS_LAST)


def from_channels_last(b: Builder, image: Value, shape: Sequence[int]) -> Value:
    """Return an image [n, h, w, c] as `shape`, [n, c, l] or [n, c, h, w]."""
    if len(shape) == 3:
        n, _, length, c = image.shape
        return b.permute(b.reshape(image, (n, length, c)), (0, 2, 1))
    return b.permute(image, CHANNELS_FIRST)


def image_shape(shape: Sequence[int]) -> tuple[int, int, int, int]:
    """Return the channels-last shape of [n, c, l] or [n, c, h, w]."""
    n, c, *sizes = shape
    return (n, sizes[0] if len(sizes) == 2 else 1, sizes[-1], c)


def emit_conv2d(
    b: Builder, operands: Operands, shape: Sequence[int], window: Window, residual: Value | None = None
) -> Value:
    """Add a conv2d that gives an image of `shape`."""
    outputs, channels, kernel_h, kernel_w = operands.kernel
    groups = window.groups
    inputs = [operands.weight, operands.bias]
    if not operands.are_known:
        rows = b.permute(b.reshape(operands.weight, operands.kernel), CHANNELS_LAST)
        rows = b.reshape(rows, (groups, outputs // groups, kernel_h * kernel_w * channels))
        inputs = [_pack_constant(b, rows, operands.bias)]
    if residual is not None:
        inputs.append(residual)
    scratch = scratch_bytes(
        "conv2d",
        in_c=channels,
        out_w=shape[2],
        out_c=outputs // groups,
        groups=groups,
        kernel_h=kernel_h,
        kernel_w=kernel_w,
        stride_w=window.stride[1],
        dilation_h=window.dilation[0],
        dilation_w=window.dilation[1],
    )
    if kernel_h * kernel_w > 1:
        scratch = max(scratch, _patches_bytes(outputs // groups, kernel_h * kernel_w * channels))
    return b.ops(
        "conv2d",
        [operands.image, *inputs],
        [(DType.F32, shape), (DType.U8, (scratch,))],
        Conv2dAttributes(
            **window.numbers(kernel_h, kernel_w),
            groups=groups,
            has_residual=int(residual is not None),
            activation=0,
            low=-math.inf,
            high=math.inf,
        ),
    )[0]


def _patches_bytes(outputs: int, patch: int) -> int:
    """Return scratch for as many patches as keep large weights from being read again for every four pixels."""
    weights = 4 * outputs * patch
    return min(_MOST_PATCHES, weights // _SCRATCH_SHARE // (4 * patch)) * 4 * patch if weights >= _LARGE_BYTES else 0


def _forward(b: Builder, operands: Operands, shape: Sequence[int], window: Window) -> Value:
    outputs, channels, kernel_h, kernel_w = operands.kernel
    if channels > 1 or window.groups == 1:
        return emit_conv2d(b, operands, shape, window)
    inputs = [operands.weight, operands.bias]
    if not operands.are_known:
        taps = b.permute(b.reshape(operands.weight, (outputs, kernel_h * kernel_w)), (1, 0))
        inputs = [b.concat([b.reshape(operands.bias, (1, outputs)), taps], 0)]
    attributes = DepthwiseConv2dAttributes(
        **window.numbers(kernel_h, kernel_w), activation=0, low=-math.inf, high=math.inf
    )
    return b.op("depthwise_conv2d", [operands.image, *inputs], DType.F32, shape, attributes)


def _convolve_transposed(b: Builder, operands: Operands, shape: Sequence[int], window: Window) -> Value:
    inputs, outputs, kernel_h, kernel_w = operands.kernel
    weights = [operands.weight, operands.bias]
    if not operands.are_known:
        weights = [_packed_transposed(b, operands, window)]
    scratch = scratch_bytes("conv_transpose2d", taps=kernel_h * kernel_w, in_c=inputs // window.groups, out_c=outputs)
    return b.ops(
        "conv_transpose2d",
        [operands.image, *weights],
        [(DType.F32, shape), (DType.U8, (scratch,))],
        ConvTranspose2dAttributes(
            kernel_h=kernel_h,
            kernel_w=kernel_w,
            stride_h=window.stride[0],
            stride_w=window.stride[1],
            pad_top=window.padding[0],
            pad_left=window.padding[1],
            dilation_h=window.dilation[0],
            dilation_w=window.dilation[1],
            groups=window.groups,
        ),
    )[0]


def _convolution3d(call: Call, b: Builder, x: Value, weight: Value, bias: Value) -> Value:
    """Sum over the kernel's depth: the depth of the output goes into the batch."""
    if call["transposed"]:
        return _convolution3d_transposed(call, b, x, weight, bias)
    (stride, *strides), (padding, *paddings), (dilation, *dilations) = (
        _many(call[name], 3) for name in ("stride", "padding", "dilation")
    )
    if weight.shape[4] == 1 and (strides[1], paddings[1]) == (1, 0):
        down = Window((stride, strides[0]), (padding, paddings[0]), (dilation, dilations[0]), int(call["groups"]))
        return _convolution_of_one_column(b, Operands(x, weight, bias), call.shape, down)
    window = Window(_pair(strides, 1), _pair(paddings, 0), _pair(dilations, 1), int(call["groups"]))
    n, c, depth, height, width = x.shape
    _, outputs, out_depth, *sizes = call.shape
    volume = b.permute(x, (0, 2, 3, 4, 1))
    if padding:
        margins = PadAttributes(before=(0, padding), after=(0, padding), mode=0, bits=0)
        depth += 2 * padding
        volume = b.op("pad", [volume], DType.F32, (n, depth, height, width, c), margins)
    result: Value | None = None
    for tap in range(weight.shape[2]):
        start = tap * dilation
        slices = b.slice(volume, 1, start, start + (out_depth - 1) * stride + 1, stride)
        image = b.reshape(slices, (n * out_depth, height, width, c))
        kernel = b.reshape(b.slice(weight, 2, tap, tap + 1), (*weight.shape[:2], *weight.shape[3:]))
        shape = (n * out_depth, *sizes, outputs)
        operands = Operands(image, kernel, b.zeros(outputs) if tap else bias)
        result = emit_conv2d(b, operands, shape, window, result)
    if result is None:
        raise Refused("a convolution with a kernel")
    return b.permute(b.reshape(result, (n, out_depth, *sizes, outputs)), (0, 4, 1, 2, 3))


def _convolution_of_one_column(b: Builder, operands: Operands, shape: Sequence[int], window: Window) -> Value:
    """Return the convolution of a volume whose columns do not meet: each is an image of depth and height."""
    x, weight = operands.image, operands.weight
    n, c, depth, height, width = x.shape
    _, outputs, out_depth, out_height, _ = shape
    images = b.reshape(b.permute(x, (0, 4, 2, 3, 1)), (n * width, depth, height, c))
    kernel = b.reshape(weight, weight.shape[:4])
    sizes = (n * width, out_depth, out_height, outputs)
    result = emit_conv2d(b, Operands(images, kernel, operands.bias), sizes, window)
    return b.permute(b.reshape(result, (n, width, out_depth, out_height, outputs)), (0, 4, 2, 3, 1))


def _convolution3d_transposed(call: Call, b: Builder, x: Value, weight: Value, bias: Value) -> Value:
    """Sum over the kernel's depth: each slice's images, spread over the depth of the output by the stride."""
    (stride, *strides), (padding, *paddings), (dilation, *dilations) = (
        _many(call[name], 3) for name in ("stride", "padding", "dilation")
    )
    window = Window(_pair(strides, 1), _pair(paddings, 0), _pair(dilations, 1), int(call["groups"]))
    n, c, depth, height, width = x.shape
    _, outputs, out_depth, *sizes = call.shape
    plane = (*sizes, outputs)
    image = b.reshape(b.permute(x, (0, 2, 3, 4, 1)), (n * depth, height, width, c))
    whole = largest(depth * stride + (weight.shape[2] - 1) * dilation, padding + out_depth)
    result: Value | None = None
    for tap in range(weight.shape[2]):
        kernel = b.reshape(b.slice(weight, 2, tap, tap + 1), (*weight.shape[:2], *weight.shape[3:]))
        operands = Operands(image, kernel, b.zeros(outputs))
        planes = b.reshape(
            _convolve_transposed(b, operands, (n * depth, *plane), window), (n, depth, 1, math.prod(plane))
        )
        if stride > 1:
            planes = _pad_depth(b, planes, 2, 0, stride - 1)
        volume = b.reshape(planes, (n, depth * stride, *plane))
        before = tap * dilation
        volume = _pad_depth(b, volume, 1, before, whole - depth * stride - before)
        result = volume if result is None else b.binary("add", result, volume)
    if result is None:
        raise Refused("a convolution with a kernel")
    cut = b.binary("add", b.slice(result, 1, padding, padding + out_depth), bias)
    return b.permute(cut, (0, 4, 1, 2, 3))


def _pad_depth(b: Builder, x: Value, axis: int, before: int, after: int) -> Value:
    """Return `x` with zeros before and after along a dimension."""
    if before == after == 0:
        return x
    shape = (*x.shape[:axis], before + x.shape[axis] + after, *x.shape[axis + 1 :])
    idle = (0,) * axis
    margins = PadAttributes(before=(*idle, before), after=(*idle, after), mode=0, bits=0)
    return b.op("pad", [x], x.dtype, shape, margins)


def _of_integers(call: Call, b: Builder, x: Value, weight: Value, bias: Value | None) -> Value:
    """Compose a convolution of its taps; a transposed one spreads its input and turns its kernel round."""
    rank = len(x.shape) - 2
    groups = int(call["groups"])
    stride, padding, dilation = (_many(call[name], rank) for name in ("stride", "padding", "dilation"))
    if call["transposed"]:
        x = windows.spread(b, x, stride)
        padding = [d * (k - 1) - p for d, k, p in zip(dilation, weight.shape[2:], padding, strict=True)]
        if min(padding) < 0:
            raise Refused("a convolution in float32; one of whole numbers has no more padding than its kernel")
        stride = [1] * rank
        inputs, outputs, *kernel = weight.shape
        parts = b.reshape(weight, (groups, inputs // groups, outputs, *kernel))
        swapped = b.permute(parts, (0, 2, 1, *range(3, rank + 3)))
        weight = b.reshape(swapped, (groups * outputs, inputs // groups, *kernel))
        strides = row_major_strides(weight.shape)
        turned = (*strides[:2], *(-step for step in strides[2:]))
        weight = b.copy_strided(weight, weight.shape, turned, math.prod(kernel) - 1)
    of = windows.Windows(x.shape[2:], call.shape[2:], weight.shape[2:], tuple(stride), tuple(padding), tuple(dilation))
    result = windows.convolution(b, x, weight, of, groups)
    return (
        result if bias is None else b.binary("add", result, b.reshape(bias, (bias.shape[0], *(1 for _ in range(rank)))))
    )


def _kernel(weight: Value) -> tuple[int, int, int, int]:
    """Return a weight's sizes with a kernel of rows and columns."""
    first, second, *sizes = weight.shape
    return first, second, sizes[0] if len(sizes) == 2 else 1, sizes[-1]


def _pair(argument: Sequence[int], default: int) -> tuple[int, int]:
    """Return (rows, columns) of what torch has for one or two dimensions."""
    return (default, int(argument[0])) if len(argument) == 1 else (int(argument[0]), int(argument[1]))


def _many(argument: Sequence[int], count: int) -> list[int]:
    return [int(argument[0])] * count if len(argument) == 1 else [int(size) for size in argument]


def _pack_constant(b: Builder, rows: Value, bias: Value) -> Value:
    """Return panels [groups, ceil(n/16), k + 1, 16] of rows [groups, n, k] and a bias [groups * n]."""
    groups, outputs, patch = rows.shape
    panels = -(-outputs // PANEL_COLUMNS)
    columns = b.concat([b.reshape(bias, (groups, outputs, 1)), rows], 2)
    missing = panels * PANEL_COLUMNS - outputs
    if missing:
        columns = b.concat([columns, b.scalar(0.0, DType.F32, (groups, missing, patch + 1))], 1)
    return b.permute(b.reshape(columns, (groups, panels, PANEL_COLUMNS, patch + 1)), (0, 1, 3, 2))


def _packed_transposed(b: Builder, operands: Operands, window: Window) -> Value:
    """Return the panels of every group and phase, one after the other."""
    inputs, outputs, kernel_h, kernel_w = operands.kernel
    channels = inputs // window.groups
    kernel, bias = b.reshape(operands.weight, operands.kernel), operands.bias
    parts = []
    for group in range(window.groups):
        mine = b.slice(kernel, 0, group * channels, (group + 1) * channels)
        start = b.slice(bias, 0, group * outputs, (group + 1) * outputs)
        for rows in phases(kernel_h, window.stride[0], window.dilation[0]):
            for columns in phases(kernel_w, window.stride[1], window.dilation[1]):
                if not rows or not columns:
                    count = -(-outputs // PANEL_COLUMNS) * PANEL_COLUMNS
                    parts.append(b.concat([start, b.zeros(count - outputs)], 0) if count > outputs else start)
                    continue
                taps = b.slice(mine, 2, rows.start, rows[-1] + 1, rows.step)
                taps = b.slice(taps, 3, columns.start, columns[-1] + 1, columns.step)
                patch = len(rows) * len(columns) * channels
                line = b.reshape(b.permute(taps, (1, 2, 3, 0)), (1, outputs, patch))
                packed = _pack_constant(b, line, start)
                parts.append(b.reshape(packed, (math.prod(packed.shape),)))
    return b.concat(parts, 0)


@packer("conv2d", form=lambda node: node.read(Conv2dAttributes).groups)
def _pack_conv2d(weight: Value, bias: Value, node: Node) -> Value:
    """Return PANEL16 of shape [n, k], k in the order of kernel row, kernel column, channel; groups apart as f32."""
    groups = node.read(Conv2dAttributes).groups
    mark = shape_mark(weight.shape)
    if shares_lanes(weight.shape, groups):
        array = shared_lanes(weight.array, bias.array)
        return Value("", mark, DType.F32, array.shape, constant=as_f32(array))
    array = convolution_panels(weight.array, bias.array, groups)
    if groups > 1:
        return Value("", mark, DType.F32, array.shape, constant=array)
    shape = (weight.shape[0], array.shape[2] - 1)
    return Value("", mark, DType.F32, shape, constant=array[0], layout=Layout.PANEL16)


@packer("depthwise_conv2d")
def _pack_depthwise(weight: Value, bias: Value, _node: Node) -> Value:
    """Return f32 [1 + kh * kw, outputs], the bias first."""
    outputs = weight.shape[0]
    rows = np.concatenate([bias.array[None], weight.array.reshape(outputs, -1).T])
    return Value("", shape_mark(weight.shape), DType.F32, rows.shape, constant=as_f32(rows))


@packer("conv_transpose2d", form=lambda node: node.attributes.numbers())
def _pack_transposed(weight: Value, bias: Value, node: Node) -> Value:
    """Return f32 [floats]: the panels of each group and phase."""
    attributes = node.read(ConvTranspose2dAttributes)
    strides, dilations = (attributes.stride_h, attributes.stride_w), (attributes.dilation_h, attributes.dilation_w)
    form = Transposed(_kernel(weight), attributes.groups, strides, dilations)
    packed = form.pack(weight.array, bias.array)
    return Value("", form.mark(weight.shape), DType.F32, packed.shape, constant=packed)
