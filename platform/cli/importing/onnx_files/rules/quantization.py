"""Rules of quantized operators: levels are whole numbers in float32 where they depend on inputs.

The arithmetic is that of the definition: what an integer operator computes is exact in float32 up to 2**24.
"""

from collections.abc import Callable
from typing import Any, Final

import torch
from alcove.platform.cli.importing.onnx_files.errors import OnnxError, UnsupportedError
from alcove.platform.cli.importing.onnx_files.node import Function, Node, Rule, normalize_axis, rule
from alcove.platform.cli.importing.onnx_files.rules.convolutions import conv
from alcove.platform.cli.importing.onnx_files.tensors import dtype_of
from onnx import TensorProto
from torch import Tensor

_RANGES: Final[dict[int, tuple[int, int]]] = {
    TensorProto.INT8: (-128, 127),
    TensorProto.UINT8: (0, 255),
    TensorProto.INT16: (-32768, 32767),
    TensorProto.UINT16: (0, 65535),
    TensorProto.INT4: (-8, 7),
    TensorProto.UINT4: (0, 15),
}
_TYPES: Final[dict[torch.dtype, int]] = {
    torch.int8: TensorProto.INT8,
    torch.uint8: TensorProto.UINT8,
    torch.int16: TensorProto.INT16,
    torch.int32: TensorProto.UINT16,
}
"""By the type in which the file's tensors are read."""


def _along(parameter: Tensor, rank: int, axis: int) -> Tensor:
    """Return scales or zero points as they are broadcast along an axis."""
    if parameter.dim() == 0 or parameter.numel() == 1:
        return parameter.reshape(())
    return parameter.reshape([-1 if each == axis else 1 for each in range(rank)])


def range_of(node: Node, index: int) -> tuple[int, int]:
    """Return the least and the greatest level, by the type of a zero point or by an attribute."""
    number = node.int_of("output_dtype")
    if not number:
        number = TensorProto.UINT8 if not node.has(index) else _TYPES.get(_declared_type(node, index), 0)
    if number not in _RANGES:
        raise UnsupportedError("levels of another type than int8, uint8, int16 or 4 bits")
    return _RANGES[number]


def _declared_type(node: Node, index: int) -> torch.dtype:
    return node.constant(index, "zero point").dtype


def _axis(node: Node) -> int:
    """Return the axis of scales; one scale has none, whatever the attribute says."""
    return normalize_axis(node.int_of("axis", 1), node.rank()) if node.tensor(1).numel() > 1 else 0


def _repeat(node: Node, parameter: Tensor, axis: int) -> Tensor:
    """Return parameters of blocks, one for each element along the axis."""
    block = node.int_of("block_size")
    return parameter.repeat_interleave(block, axis).narrow(axis, 0, node.shape()[axis]) if block else parameter


def level(x: Tensor, scale: Tensor, zero: Tensor | float, bounds: tuple[int, int]) -> Tensor:
    """Return the nearest level of each element, halves to even."""
    return torch.clamp(torch.round(x / scale) + zero, bounds[0], bounds[1])


@rule("QuantizeLinear", "com.microsoft.QuantizeLinear")
def quantize(node: Node) -> Function:
    """To the nearest level, halves to even."""
    bounds = range_of(node, 2)
    rank = node.rank()
    axis = _axis(node)
    try:
        dtype = dtype_of(node.int_of("output_dtype")) if node.int_of("output_dtype") else None
    except OnnxError as error:
        raise UnsupportedError(str(error)) from None
    if dtype is None:
        dtype = _declared_type(node, 2) if node.has(2) else torch.uint8

    def function(x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
        both = [scale, torch.zeros(()) if zero is None else zero.float()]
        if node.int_of("block_size"):
            both = [_repeat(node, each, axis) for each in both]
        else:
            both = [_along(each, rank, axis) for each in both]
        found = level(x.float(), both[0].float(), both[1], bounds)
        return found.to(dtype) if node.is_folded else found

    return function


@rule("DequantizeLinear", "com.microsoft.DequantizeLinear")
def dequantize(node: Node) -> Function:
    """Level minus zero point, times scale."""
    rank = node.rank()
    axis = _axis(node)

    def function(x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
        if node.int_of("block_size"):
            scale = _repeat(node, scale, axis)
            zero = zero if zero is None else _repeat(node, zero, axis)
        else:
            scale = _along(scale, rank, axis)
            zero = zero if zero is None else _along(zero, rank, axis)
        level = x.float() if zero is None else x.float() - zero.float()
        return level * scale

    return function


@rule("DynamicQuantizeLinear")
def dynamic_quantize(_node: Node) -> Function:
    """To 256 levels between the least and the greatest element, zero among them."""

    def function(x: Tensor) -> tuple[Tensor, ...]:
        low, high = torch.clamp(x.amin(), max=0.0), torch.clamp(x.amax(), min=0.0)
        scale = torch.where(high > low, (high - low) / 255, torch.ones_like(high))
        zero = torch.clamp(torch.round(-low / scale), 0, 255)
        return torch.clamp(torch.round(x / scale) + zero, 0, 255), scale, zero

    return function


def _shift(node: Node, value: int, zero: int) -> Function:
    """Return what takes the zero point from an input; one for each row or channel is broadcast."""
    if not node.has(zero):
        return lambda x, _zero: x.float()
    rank = node.rank(value)

    def function(x: Tensor, point: Tensor) -> Tensor:
        if point.numel() == 1:
            return x.float() - point.float().reshape(())
        if node.kind == "ConvInteger":
            return x.float() - _along(point.float(), rank, 0)
        if point.dim() > 1:
            return x.float() - point.float()
        return x.float() - _along(point.float(), rank, rank - 2 if value == 0 else rank - 1)

    return function


def _pick_input(tensors: tuple[Any, ...], index: int) -> Any:
    return tensors[index] if index < len(tensors) else None


@rule("MatMulInteger", "ConvInteger")
def integer_product(node: Node) -> Function:
    """Of levels without their zero points."""
    left, right = _shift(node, 0, 2), _shift(node, 1, 3)
    product = conv(node) if node.kind == "ConvInteger" else torch.matmul
    if not callable(product):
        raise UnsupportedError("a convolution of this kind")

    def function(*tensors: Tensor) -> Tensor:
        found = product(left(tensors[0], _pick_input(tensors, 2)), right(tensors[1], _pick_input(tensors, 3)))
        return found.to(torch.int32) if node.is_folded else found

    return function


@rule("QLinearConv")
def qlinear_conv(node: Node) -> Function:
    """A convolution of what the levels stand for; scales of the weight may be one for each channel."""
    bounds = range_of(node, 7)
    inner = Node(node.kind, node.name, node.opset, node.attributes, (node.value(0), node.value(3)))
    convolve = conv(inner)
    rank = node.rank(3)
    if not callable(convolve):
        raise UnsupportedError("a convolution of this kind")

    def function(*given: Any) -> Tensor:
        x, x_scale, x_zero, weight, w_scale, w_zero, scale, zero = given[:8]
        bias = _pick_input(given, 8)
        weights = (weight.float() - _along(w_zero.float(), rank, 0)) * _along(w_scale, rank, 0)
        shift = None if bias is None else bias.float() * x_scale.reshape(()) * w_scale.reshape(-1)
        y = convolve((x.float() - x_zero.float().reshape(())) * x_scale.reshape(()), weights, shift)
        return level(y, scale.reshape(()), zero.float().reshape(()), bounds)

    return function


def _of_levels(product: Callable[..., Tensor], places: tuple[int, ...]) -> Rule:
    """Return the rule of an operator on levels of two inputs; `places` are x, scale, zero twice, then the result's."""

    def make(node: Node) -> Function:
        bounds = range_of(node, places[7])
        ranks = node.rank(places[0]), node.rank(places[3])

        def function(*given: Any) -> Tensor:
            parts = [_pick_input(given, place) for place in places]
            left = _real(parts[0], parts[1], parts[2], ranks[0] - 2, ranks[0])
            right = _real(parts[3], parts[4], parts[5], ranks[1] - 1, ranks[1])
            zero = 0.0 if parts[7] is None else parts[7].float().reshape(())
            return level(product(left, right), parts[6].reshape(()), zero, bounds)

        return function

    return make


def _real(x: Tensor, scale: Tensor, zero: Tensor | None, axis: int, rank: int) -> Tensor:
    level = x.float() if zero is None else x.float() - _along(zero.float(), rank, axis)
    return level * _along(scale.float(), rank, axis)


rule("QLinearMatMul")(_of_levels(torch.matmul, tuple(range(8))))
rule("com.microsoft.QLinearAdd")(_of_levels(torch.add, tuple(range(8))))
rule("com.microsoft.QLinearMul")(_of_levels(torch.mul, tuple(range(8))))


@rule("com.microsoft.QLinearGlobalAveragePool", "com.microsoft.QLinearSigmoid", "com.microsoft.QLinearLeakyRelu")
def qlinear_unary(node: Node) -> Function:
    """An operator on what the levels of one input stand for."""
    bounds = range_of(node, 4)
    axes = list(range(2, node.rank()))
    if node.kind.endswith("Pool") and node.int_of("channels_last"):
        axes = list(range(1, node.rank() - 1))
    slope = node.float_of("alpha", 0.01)
    name = node.kind.rpartition("QLinear")[2]
    functions: dict[str, Function] = {
        "GlobalAveragePool": lambda x: x.mean(axes, keepdim=True),
        "Sigmoid": torch.sigmoid,
        "LeakyRelu": lambda x: torch.where(x >= 0, x, x * slope),
    }
    compute = functions[name]

    def function(*given: Any) -> Tensor:
        x, x_scale, x_zero, scale = given[:4]
        zero = _pick_input(given, 4)
        shift = 0.0 if x_zero is None else x_zero.float().reshape(())
        found = compute((x.float() - shift) * x_scale.reshape(()))
        return level(found, scale.reshape(()), 0.0 if zero is None else zero.float().reshape(()), bounds)

    return function


@rule("com.microsoft.QLinearConcat")
def qlinear_concat(node: Node) -> Function:
    """Levels of several inputs, one after the other, on one scale."""
    bounds = range_of(node, 1)
    axis = normalize_axis(node.int_of("axis"), node.rank(2))

    def function(scale: Tensor, zero: Tensor, *given: Tensor) -> Tensor:
        parts = [
            (given[i].float() - given[i + 2].float().reshape(())) * given[i + 1].reshape(())
            for i in range(0, len(given), 3)
        ]
        return level(torch.cat(parts, axis), scale.reshape(()), zero.float().reshape(()), bounds)

    return function
