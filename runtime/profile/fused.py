"""Lists the steps of a model that one operator does at once, from its attributes and operands."""

from typing import Final

from alcove.runtime import _native
from alcove.runtime.format.spec import OpSpec

__all__ = ["parts_of"]

_ACTIVATIONS: Final = {1: "clamp", 2: "hardswish", 3: "hardsigmoid"}
_INFO: Final = {op.name: [name for name, _ in op.attributes] for op in _native.manifest()}
_UNARY: Final = {number: name for name, number in _native.functions("unary").items()}
_BINARY: Final = {number: name for name, number in _native.functions("binary").items()}


def parts_of(op: OpSpec) -> list[str]:
    """Return the steps, in order; one for an operator that does one thing."""
    numbers = dict(zip(_INFO[op.name], op.attributes, strict=True))
    if op.name == "separable_conv2d":
        expand = ["conv2d 1x1", *_activation(numbers, "expand_activation")] if numbers["has_expand"] else []
        middle = f"depthwise_conv2d {numbers['kernel_h']}x{numbers['kernel_w']}"
        parts = [*expand, middle, *_activation(numbers, "depthwise_activation"), "conv2d 1x1"]
    elif op.name == "squeeze_excite_conv2d":
        squeeze = [
            "mean",
            "linear",
            *_activation(numbers, "squeeze_activation"),
            *_function(numbers, "squeeze_function"),
        ]
        excite = ["linear", *_activation(numbers, "excite_activation"), *_function(numbers, "excite_function"), "mul"]
        parts = [*squeeze, *excite, "conv2d 1x1"]
    elif "kernel_h" in numbers:
        parts = [f"{op.name} {numbers['kernel_h']}x{numbers['kernel_w']}"]
    elif op.name in {"unary", "binary"}:
        functions = _UNARY if op.name == "unary" else _BINARY
        parts = [functions.get(int(numbers["function"]), op.name)]
    else:
        parts = [op.name]
    if numbers.get("has_residual"):
        parts.append("add")
    parts += _activation(numbers, "activation")
    if op.name.endswith("_i8") and "low" in numbers and (numbers["low"], numbers["high"]) != (-128, 127):
        parts.append("clamp")
    return parts


def _activation(numbers: dict[str, int | float], name: str) -> list[str]:
    number = int(numbers.get(name, 0))
    return [_ACTIVATIONS.get(number, "activation")] if number else []


def _function(numbers: dict[str, int | float], name: str) -> list[str]:
    number = int(numbers.get(name, 0))
    return [_UNARY.get(number, "function")] if number else []
