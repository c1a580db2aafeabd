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
    given = dict(zip(_INFO[op.name], op.attributes, strict=True))
    if op.name == "separable_conv2d":
        expand = ["conv2d 1x1", *_activation(given, "expand_activation")] if given["has_expand"] else []
        middle = f"depthwise_conv2d {given['kernel_h']}x{given['kernel_w']}"
        parts = [*expand, middle, *_activation(given, "depthwise_activation"), "conv2d 1x1"]
    elif op.name == "squeeze_excite_conv2d":
        squeeze = ["mean", "linear", *_activation(given, "squeeze_activation"), *_function(given, "squeeze_function")]
        excite = ["linear", *_activation(given, "excite_activation"), *_function(given, "excite_function"), "mul"]
        parts = [*squeeze, *excite, "conv2d 1x1"]
    elif "kernel_h" in given:
        parts = [f"{op.name} {given['kernel_h']}x{given['kernel_w']}"]
    elif op.name in {"unary", "binary"}:
        functions = _UNARY if op.name == "unary" else _BINARY
        parts = [functions.get(int(given["function"]), op.name)]
    else:
        parts = [op.name]
    if given.get("has_residual"):
        parts.append("add")
    parts += _activation(given, "activation")
    if op.name.endswith("_i8") and "low" in given and (given["low"], given["high"]) != (-128, 127):
        parts.append("clamp")
    return parts


def _activation(given: dict[str, int | float], name: str) -> list[str]:
    number = int(given.get(name, 0))
    return [_ACTIVATIONS.get(number, "activation")] if number else []


def _function(given: dict[str, int | float], name: str) -> list[str]:
    number = int(given.get(name, 0))
    return [_UNARY.get(number, "function")] if number else []
