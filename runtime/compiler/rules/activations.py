"""Lowers activations of torch.nn that the runtime has as one function; the others torch takes apart."""

import math
from typing import Final

from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules.registry import Call, Refused, rule
from alcove.runtime.format.spec import DType

_SELU_ALPHA: Final = 1.6732632423543772848170429916717
_SELU_SCALE: Final = 1.0507009873554804934193349852946
"""Klambauer and others 2017, as torch has them."""


def _float(call: Call, form: str) -> Value:
    x = call.tensor("self")
    if x.dtype is not DType.F32:
        raise Refused(f"{form} of float32")
    return x


@rule("aten.relu.default")
@rule("aten.silu.default", "aten.mish.default", "aten.hardswish.default", "aten.hardsigmoid.default", keep=True)
def plain(call: Call, b: Builder) -> Value:
    """Functions without parameters."""
    name = call.target.split(".")[1]
    x = call.tensor("self")
    return b.unary(name, x) if name == "relu" else b.unary(name, _float(call, name))


@rule("aten.gelu.default")
def gelu(call: Call, b: Builder) -> Value:
    """Exact, or by tanh."""
    return b.unary("gelu_tanh" if call["approximate"] == "tanh" else "gelu", _float(call, "gelu"))


@rule("aten.elu.default")
def elu(call: Call, b: Builder) -> Value:
    """With torch's three factors."""
    return b.unary("elu", _float(call, "elu"), call["alpha"], call["scale"], call["input_scale"])


@rule("aten.celu.default", keep=True)
def celu(call: Call, b: Builder) -> Value:
    """An elu whose argument is divided by alpha."""
    return b.unary("elu", _float(call, "celu"), call["alpha"], 1.0, 1.0 / call["alpha"])


@rule("aten.selu.default", keep=True)
def selu(call: Call, b: Builder) -> Value:
    """An elu with two constants."""
    return b.unary("elu", _float(call, "selu"), _SELU_ALPHA, _SELU_SCALE, 1.0)


@rule("aten.leaky_relu.default")
def leaky_relu(call: Call, b: Builder) -> Value:
    """A line of its own below zero."""
    return b.unary("leaky_relu", _float(call, "leaky_relu"), call["negative_slope"])


@rule("aten.rrelu_with_noise_functional.default")
def rrelu(call: Call, b: Builder) -> tuple[Value, Value]:
    """In inference a leaky_relu with the middle of the slopes; the noise stays as it is."""
    if call["training"]:
        raise Refused("rrelu for inference: module.eval() before export")
    slope = (call["lower"] + call["upper"]) / 2
    return b.unary("leaky_relu", _float(call, "rrelu"), slope), call.tensor("noise")


@rule("aten._prelu_kernel.default", keep=True)
def prelu(call: Call, b: Builder) -> Value:
    """A slope for each channel; torch has shaped them like the input."""
    return b.binary("prelu", _float(call, "prelu"), call.tensor("weight"))


@rule("aten.softplus.default", keep=True)
def softplus(call: Call, b: Builder) -> Value:
    """A line above the threshold."""
    return b.unary("softplus", _float(call, "softplus"), call["beta"], call["threshold"])


@rule("aten.log_sigmoid_forward.default", keep=True)
def log_sigmoid(call: Call, b: Builder) -> tuple[Value, ...]:
    """The logarithm; what torch keeps for training is refused if anything needs it."""
    y = b.unary("log_sigmoid", _float(call, "log_sigmoid"))
    kept = [(result.dtype, result.shape) for result in call.results[1:]]
    return y, *b.add_refused(call.target, [y], kept, (), "log_sigmoid for inference")


@rule("aten.softshrink.default", "aten.hardshrink.default", keep=True)
def shrink(call: Call, b: Builder) -> Value:
    """Zero between -lambda and lambda."""
    name = call.target.split(".")[1]
    return b.unary(name, _float(call, name), call["lambd"])


@rule("aten.threshold.default", keep=True)
def threshold(call: Call, b: Builder) -> Value:
    """A number for all that is not above the threshold."""
    x = call.tensor("self")
    if x.dtype is DType.F32:
        return b.unary("threshold", x, call["threshold"], call["value"])
    # No integer is above a threshold that its floor is not above.
    is_low = b.binary("le", x, b.scalar(math.floor(call["threshold"]), x.dtype), DType.BOOL)
    return b.where(is_low, b.scalar(call["value"], x.dtype), x)


@rule("aten.native_dropout.default", keep=True)
def dropout(call: Call, b: Builder) -> tuple[Value, ...]:
    """What comes in, and a mask that keeps all; in training it is refused."""
    x = call.tensor("input")
    if call["train"] and call["p"] != 0:
        raise Refused("call module.eval() before export")
    return x, b.scalar(1, DType.BOOL, x.shape)
