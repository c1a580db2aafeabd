"""Lowers modules that were quantized outside: torch's reference form of PT2E, quantize and dequantize between layers.

Each is arithmetic of float32, in torch's steps, so that a program gives the quantized module's own numbers; weights are
dequantized at export.
"""

from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules.registry import Call, Refused, rule
from alcove.runtime.format.spec import DType


@rule("quantized_decomposed.quantize_per_tensor.default")
def quantize(call: Call, b: Builder) -> Value:
    """clamp(round(x * (1 / scale)) + zero point), as integers."""
    x = b.cast(call.tensor("input"), DType.F32)
    scaled = b.unary("round", b.binary("mul", x, b.scalar(1.0 / float(call["scale"]), DType.F32)))
    moved = b.binary("add", scaled, b.scalar(float(call["zero_point"]), DType.F32))
    return b.cast(b.unary("clamp", moved, float(call["quant_min"]), float(call["quant_max"])), call.dtype)


@rule("quantized_decomposed.dequantize_per_tensor.default")
def dequantize(call: Call, b: Builder) -> Value:
    """(q - zero point) * scale."""
    if call.dtype is not DType.F32:
        raise Refused("dequantize to float32")
    x = b.cast(call.tensor("input"), DType.F32)
    moved = b.binary("sub", x, b.scalar(float(call["zero_point"]), DType.F32))
    return b.binary("mul", moved, b.scalar(float(call["scale"]), DType.F32))
