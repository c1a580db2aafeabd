"""Rules of operators that compute each element by itself."""

from collections.abc import Callable
from functools import partial, reduce
from typing import Any, Final

import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch uses
from alcove.platform.cli.importing.onnx_files.errors import OnnxError, UnsupportedError
from alcove.platform.cli.importing.onnx_files.node import RULES, Function, Node, rule
from alcove.platform.cli.importing.onnx_files.tensors import computed_dtype, dtype_of
from torch import Tensor

UNARY: Final[dict[str, Function]] = {
    "Abs": torch.abs,
    "Acos": torch.acos,
    "Acosh": torch.acosh,
    "Asin": torch.asin,
    "Asinh": torch.asinh,
    "Atan": torch.atan,
    "Atanh": torch.atanh,
    "BitwiseNot": torch.bitwise_not,
    "Ceil": torch.ceil,
    "Cos": torch.cos,
    "Cosh": torch.cosh,
    "Erf": torch.erf,
    "Exp": torch.exp,
    "Floor": torch.floor,
    "HardSwish": F.hardswish,
    "IsNaN": torch.isnan,
    "Log": torch.log,
    "Mish": F.mish,
    "Neg": torch.neg,
    "Not": torch.logical_not,
    "Reciprocal": torch.reciprocal,
    "Relu": torch.relu,
    "Round": torch.round,
    "Sigmoid": torch.sigmoid,
    "Sign": torch.sign,
    "Sin": torch.sin,
    "Sinh": torch.sinh,
    "Softplus": F.softplus,
    "Softsign": F.softsign,
    "Sqrt": torch.sqrt,
    "Tan": torch.tan,
    "Tanh": torch.tanh,
}
BINARY: Final[dict[str, Function]] = {
    "Add": torch.add,
    "And": torch.logical_and,
    "BitwiseAnd": torch.bitwise_and,
    "BitwiseOr": torch.bitwise_or,
    "BitwiseXor": torch.bitwise_xor,
    "Equal": torch.eq,
    "Greater": torch.gt,
    "GreaterOrEqual": torch.ge,
    "Less": torch.lt,
    "LessOrEqual": torch.le,
    "Mul": torch.mul,
    "Or": torch.logical_or,
    "Sub": torch.sub,
    "Xor": torch.logical_xor,
}


def _plain(function: Function) -> Callable[[Node], Function]:
    """Return the rule that takes a function of torch as it is."""
    return lambda _node: function


for _kind, _function in UNARY.items():
    RULES[_kind] = _plain(_function)


def broadcast(node: Node, function: Function) -> Function:
    """Return a function of two tensors with the broadcast of the file's version, which was by an axis before 7."""
    if node.opset >= 7 or not node.int_of("broadcast"):
        return function
    left, right = node.rank(0), node.rank(1)
    axis = node.int_of("axis", left - right)
    after = left - right - (axis + left if axis < 0 else axis)
    if after <= 0 or right == 0 or not _fits(node.shape(0), node.shape(1) + (1,) * after):
        return function
    return lambda a, b: function(a, b.reshape(b.shape + (1,) * after))


def _fits(left: tuple[int, ...], right: tuple[int, ...]) -> bool:
    """Return whether the right shape is broadcast to the left one."""
    pairs = zip(reversed(left), reversed(right), strict=False)
    return len(right) <= len(left) and all(size in {1, other} for other, size in pairs)


for _kind, _function in BINARY.items():
    RULES[_kind] = partial(broadcast, function=_function)


@rule("Div")
def div(node: Node) -> Function:
    """Integers are rounded toward zero."""
    if node.tensor(0).is_floating_point():
        return broadcast(node, torch.div)
    return broadcast(node, partial(torch.div, rounding_mode="trunc"))


@rule("Pow")
def pow_(node: Node) -> Function:
    """The result has the type of the base; an exponent that is known and small is a number."""
    exponent = node.value(1)
    dtype = node.tensor(0).dtype
    if exponent is not None and exponent.is_constant and exponent.tensor.numel() == 1 and node.rank(1) <= node.rank(0):
        number = exponent.tensor.item()
        return lambda x, _exponent: torch.pow(x, number).to(dtype)
    return broadcast(node, lambda x, power: torch.pow(x, power).to(dtype))


@rule("Mod")
def mod(node: Node) -> Function:
    """By the sign of the divisor, or of the dividend with `fmod`."""
    return torch.fmod if node.int_of("fmod") else torch.remainder


@rule("BitShift")
def bit_shift(node: Node) -> Function:
    """To the left or to the right."""
    if node.text_of("direction", "") == "LEFT":
        return torch.bitwise_left_shift
    return torch.bitwise_right_shift


def _variadic(function: Function) -> Callable[[Node], Function]:
    return lambda _node: lambda *tensors: reduce(function, tensors)


RULES.update({"Max": _variadic(torch.maximum), "Min": _variadic(torch.minimum), "Sum": _variadic(torch.add)})


@rule("Mean")
def mean(node: Node) -> Function:
    """Of several tensors, element by element."""
    count = len(node.inputs)
    return lambda *tensors: reduce(torch.add, tensors) / count


@rule("Where")
def where(_node: Node) -> Function:
    """Both branches have one type."""
    return lambda condition, x, y: torch.where(condition.bool(), x, y)


@rule("Identity", "Dropout")
def identity(node: Node) -> Function:
    """Dropout passes everything in inference; the mask that it may give is all true."""
    if node.kind == "Dropout" and node.has(2) and any(node.integers(2, "training_mode")):
        raise UnsupportedError("it is in training mode; export the model in evaluation mode")
    if node.kind == "Dropout" and len(node.outputs) > 1 and node.outputs[1]:
        return lambda x, *_rest: (x, torch.ones_like(x, dtype=torch.bool))
    return lambda x, *_rest: x


@rule("IsInf")
def is_inf(node: Node) -> Function:
    """Of either sign, as asked."""
    negative, positive = node.int_of("detect_negative", 1), node.int_of("detect_positive", 1)
    if negative and positive:
        return torch.isinf
    if negative:
        return torch.isneginf
    return torch.isposinf if positive else partial(torch.zeros_like, dtype=torch.bool)


@rule("Elu", "Celu", "Selu")
def elu(node: Node) -> Function:
    """Exponential below zero."""
    if node.kind == "Selu":
        alpha, gamma = node.float_of("alpha", 1.6732631921768188), node.float_of("gamma", 1.0507010221481323)
        return lambda x: gamma * F.elu(x, alpha)
    alpha = node.float_of("alpha", 1.0)
    return partial(F.elu if node.kind == "Elu" else F.celu, alpha=alpha)


@rule("LeakyRelu")
def leaky_relu(node: Node) -> Function:
    """A slope below zero."""
    return partial(F.leaky_relu, negative_slope=node.float_of("alpha", 0.01))


@rule("ThresholdedRelu")
def thresholded_relu(node: Node) -> Function:
    """Zero up to the threshold."""
    return partial(F.threshold, threshold=node.float_of("alpha", 1.0), value=0.0)


@rule("PRelu")
def prelu(node: Node) -> Function:
    """A slope for each channel, or one that is broadcast."""
    shape, slope = node.shape(0), node.shape(1)
    inner = [size for size in slope if size != 1]
    is_of_channels = len(slope) == len(shape) - 1 and len(shape) > 1 and slope[0] == shape[1] and len(inner) <= 1
    if len(shape) > 1 and (slope in {(1,), ()} or (is_of_channels and all(size == 1 for size in slope[1:]))):
        return lambda x, weight: F.prelu(x, weight.reshape(-1))
    if len(slope) == 1 and len(shape) > 1 and slope[0] == shape[1] and (node.opset < 7 or slope[0] != shape[-1]):
        return F.prelu  # Old files, and newer ones that keep their form: one slope for each channel.
    return lambda x, weight: torch.where(x >= 0, x, x * weight)


@rule("HardSigmoid")
def hard_sigmoid(node: Node) -> Function:
    """A straight line between 0 and 1; of a sixth a step it is torch's."""
    alpha, beta = node.float_of("alpha", 0.2), node.float_of("beta", 0.5)
    if abs(alpha - 1 / 6) < 1e-6 and beta == 0.5:
        return F.hardsigmoid
    return lambda x: torch.clamp(x * alpha + beta, 0.0, 1.0)


@rule("Shrink")
def shrink(node: Node) -> Function:
    """Toward zero by `bias` outside of `lambd`."""
    bias, bound = node.float_of("bias"), node.float_of("lambd", 0.5)
    return lambda x: torch.where(x < -bound, x + bias, torch.where(x > bound, x - bias, torch.zeros_like(x))).to(
        x.dtype
    )


@rule("Gelu", "com.microsoft.Gelu", "com.microsoft.FastGelu", "com.microsoft.QuickGelu", "com.microsoft.BiasGelu")
def gelu(node: Node) -> Function:
    """By the error function, by tanh, or by a sigmoid; a bias before it."""
    if node.kind.endswith("QuickGelu"):
        alpha = node.float_of("alpha", 1.702)
        return lambda x: x * torch.sigmoid(alpha * x)
    is_tanh = node.kind.endswith("FastGelu") or node.text_of("approximate", "none") == "tanh"
    form = "tanh" if is_tanh else "none"
    return lambda x, bias=None: F.gelu(x if bias is None else x + bias, approximate=form)


@rule("Swish")
def swish(node: Node) -> Function:
    """Times its own sigmoid."""
    alpha = node.float_of("alpha", 1.0)
    return F.silu if alpha == 1 else lambda x: x * torch.sigmoid(alpha * x)


@rule("Clip")
def clip(node: Node) -> Function:
    """Bounds that are known become numbers."""
    is_whole = not node.tensor(0).is_floating_point()

    def number(value: Any) -> Any:
        return int(value) if is_whole else float(value)

    if node.opset < 11 and not (node.has(1) or node.has(2)):
        bounds = [node.attributes.get(name) for name in ("min", "max")]
        low, high = (None if bound is None else number(bound) for bound in bounds)
        return lambda x: x if low is None and high is None else torch.clamp(x, low, high)
    values = [node.value(1), node.value(2)]
    if all(value is None or value.is_constant for value in values):
        low, high = (None if value is None else number(value.tensor.item()) for value in values)
        return lambda x, *_bounds: x if low is None and high is None else torch.clamp(x, low, high)

    def between(x: Tensor, least: Tensor | None = None, most: Tensor | None = None) -> Tensor:
        x = x if least is None else torch.maximum(x, least)
        return x if most is None else torch.minimum(x, most)

    return between


@rule("Cast", "CastLike")
def cast(node: Node) -> Function:
    """To a type that programs compute in, where the elements depend on inputs."""
    try:
        wanted = node.tensor(1).dtype if node.kind == "CastLike" else dtype_of(_type_number(node.attributes.get("to")))
    except OnnxError as error:
        raise UnsupportedError(str(error)) from None
    dtype = wanted if node.is_folded else computed_dtype(wanted)
    return lambda x, _like=None: x.to(dtype)


def _type_number(given: Any) -> int:
    """Return the number of an element type, which was a text in the first version."""
    from onnx import TensorProto  # noqa: PLC0415 - its names, for files of version 1

    if isinstance(given, str):
        return dict(TensorProto.DataType.items()).get(given.upper(), 0)
    return int(given or 0)
