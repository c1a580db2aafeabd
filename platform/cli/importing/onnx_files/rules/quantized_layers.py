"""Rules of layers on levels and on packed weights, as ONNX Runtime fuses them."""

from typing import Any, Final

import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch uses
from alcove.platform.cli.importing.onnx_files.errors import UnsupportedError
from alcove.platform.cli.importing.onnx_files.node import Call, Function, Node, normalize_axis, rule
from alcove.platform.cli.importing.onnx_files.rules.attention import pick
from alcove.platform.cli.importing.onnx_files.rules.convolutions import conv
from alcove.platform.cli.importing.onnx_files.rules.pools import average_pool, max_pool
from alcove.platform.cli.importing.onnx_files.rules.quantization import level, qlinear_conv, range_of
from torch import Tensor

TINY: Final = 1e-37
"""The least scale: zeros alone have no range."""


def round_to_levels(x: Tensor) -> Tensor:
    """Return a tensor rounded to 256 levels between its least and greatest element, zero among them."""
    low, high = torch.clamp(x.amin(), max=0.0), torch.clamp(x.amax(), min=0.0)
    scale = torch.clamp((high - low) / 255, min=TINY)
    zero = torch.round(-low / scale)
    return (torch.clamp(torch.round(x / scale) + zero, 0, 255) - zero) * scale


def _columns(levels: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    """Return what a matrix of levels stands for, with one scale or one for each column."""
    return (levels.float() if zero is None else levels.float() - zero.float()) * scale.float()


@rule("com.microsoft.DynamicQuantizeMatMul")
def dynamic_quantize_matmul(_node: Node) -> Function:
    """Of an input that is rounded to levels of its own range."""

    def function(x: Tensor, levels: Tensor, scale: Tensor, *rest: Any) -> Tensor:
        y = torch.matmul(round_to_levels(x), _columns(levels, scale, pick(rest, 0)))
        bias = pick(rest, 1)
        return y if bias is None else y + bias

    return function


@rule("com.microsoft.MatMulIntegerToFloat")
def integer_matmul_to_float(_node: Node) -> Function:
    """Of levels, times both scales."""

    def function(x: Tensor, levels: Tensor, x_scale: Tensor, scale: Tensor, *rest: Any) -> Tensor:
        x_zero, zero, bias = pick(rest, 0), pick(rest, 1), pick(rest, 2)
        left = x.float() if x_zero is None else x.float() - x_zero.float()
        right = levels.float() if zero is None else levels.float() - zero.float()
        y = torch.matmul(left, right) * (x_scale * scale)
        return y if bias is None else y + bias

    return function


@rule("com.microsoft.QGemm")
def qgemm(node: Node) -> Function:
    """A linear layer on levels; its answer has levels too where a scale for them is given."""
    alpha = node.float_of("alpha", 1.0)
    flips_a, flips_b = bool(node.int_of("transA")), bool(node.int_of("transB"))
    has_scale = node.has(7)
    bounds = range_of(node, 8) if has_scale else (0, 0)

    def function(*given: Any) -> Tensor:
        a, a_scale, a_zero, b, b_scale, b_zero = given[:6]
        left = a.float() - a_zero.float()
        right = b.float().T if flips_b else b.float()
        right = right - (0.0 if b_zero is None else b_zero.float())
        y = torch.matmul(left.T if flips_a else left, right)
        bias = pick(given, 6)
        y = (y if bias is None else y + bias.float()) * (alpha * a_scale * b_scale)
        if not has_scale:
            found: Tensor = y
            return found
        zero = pick(given, 8)
        return level(y, given[7], 0.0 if zero is None else zero.float(), bounds)

    return function


@rule("com.microsoft.QLinearAveragePool", "com.microsoft.QLinearSoftmax", "com.microsoft.QLinearReduceMean")
def qlinear_window(node: Node) -> Function:
    """A pool, a softmax or a mean of what the levels of one input stand for."""
    bounds = range_of(node, 4)
    compute = _plain(node)

    def function(*given: Any) -> Tensor:
        x, x_scale, x_zero, scale = given[:4]
        zero = pick(given, 4)
        x = (x.float() if x_zero is None else x.float() - x_zero.float()) * x_scale
        return level(compute(x), scale, 0.0 if zero is None else zero.float(), bounds)

    return function


def _plain(node: Node) -> Function:
    if node.kind.endswith("AveragePool"):
        return _channels_last(node, average_pool)
    if node.kind.endswith("Softmax"):
        axis, shape = node.axis(-1), node.shape()
        if node.int_of("opset", 13) >= 13:
            return lambda x: torch.softmax(x, axis)
        return lambda x: torch.softmax(x.flatten(axis), -1).reshape(shape)
    axes = [normalize_axis(axis, node.rank()) for axis in node.ints("axes", list(range(node.rank())))]
    keeps = bool(node.int_of("keepdims", 1))
    return lambda x: x.mean(axes, keepdim=keeps)


def _channels_last(node: Node, make: Any) -> Function:
    """Return the function of a node whose channels come last, where it says so."""
    if not node.int_of("channels_last") and not node.kind.startswith("com.microsoft.Nhwc"):
        found: Function = make(node)
        return found
    order = [0, node.rank() - 1, *range(1, node.rank() - 1)]
    back = [0, *range(2, node.rank()), 1]
    inner: Function = make(node.permute(order))
    return lambda x, *rest: inner(x.permute(order), *rest).permute(back)


@rule("com.microsoft.NhwcMaxPool", "com.microsoft.NhwcConv", "com.microsoft.NhwcFusedConv")
def channels_last(node: Node) -> Function:
    """A pool or a convolution of a tensor whose channels come last."""
    if node.kind.endswith("Pool"):
        return _channels_last(node, max_pool)
    if node.kind.endswith("NhwcFusedConv") and node.has(3):
        raise UnsupportedError("a sum in it")
    return _channels_last(node, conv)


@rule("com.microsoft.QLinearConv")
def qlinear_conv_channels_last(node: Node) -> Function:
    """A convolution on levels, whose channels may come last."""
    return _channels_last(node, qlinear_conv)


@rule("com.microsoft.QLinearWhere")
def qlinear_where(node: Node) -> Function:
    """A choice between what levels stand for."""
    bounds = range_of(node, 8)

    def function(*given: Any) -> Tensor:
        left = (given[1].float() - given[3].float()) * given[2]
        right = (given[4].float() - given[6].float()) * given[5]
        return level(torch.where(given[0].bool(), left, right), given[7], given[8].float(), bounds)

    return function


@rule("com.microsoft.MatMulNBits")
def matmul_nbits(node: Node) -> Call:
    """A linear layer whose weights are packed in blocks, each with a scale; they become float32."""
    rows, columns = node.int_of("N"), node.int_of("K")
    bits, block = node.int_of("bits", 4), node.int_of("block_size")
    if node.has(4) or bits not in {2, 4, 8} or block <= 0:
        raise UnsupportedError(f"{bits} bits in blocks of {block}, or columns in another order")
    blocks = -(-columns // block)
    levels = _unpack(node.constant(1, "weights").reshape(rows, -1), bits)[:, : blocks * block]
    scale = node.constant(2, "scales").float().reshape(rows, blocks, 1)
    zero: Tensor | float = float(1 << (bits - 1))
    if node.has(3):
        points = node.constant(3, "zero points")
        if points.is_floating_point():
            zero = points.float().reshape(rows, blocks, 1)
        else:
            zero = _unpack(points.reshape(rows, -1), bits)[:, :blocks].reshape(rows, blocks, 1)
    weight = ((levels.reshape(rows, blocks, block) - zero) * scale).reshape(rows, -1)[:, :columns].contiguous()
    count = len(node.inputs)

    def function(x: Tensor, *rest: Any) -> Tensor:
        return F.linear(x, rest[-1], pick(rest, 4) if count > 5 else None)

    return Call(function, (weight,), frozenset({1, 2, 3}))


def _unpack(packed: Tensor, bits: int) -> Tensor:
    """Return the numbers in bytes [rows, bytes], low bits first, f32 [rows, numbers]."""
    parts = [(packed.to(torch.int32) >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return torch.stack(parts, -1).flatten(1).float()
