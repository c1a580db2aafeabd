"""Lowers matrix products: everything that is a sum of products becomes `linear` or `matmul`.

`linear` is for a constant right operand, whose panels are packed at export; `matmul` packs its right operand in each
run.
"""

import math
from collections.abc import Sequence

import numpy as np
from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules.movement import fill_tensor
from alcove.runtime.compiler.rules.reduction import fold
from alcove.runtime.compiler.rules.registry import Call, Refused, rule
from alcove.runtime.compiler.scratch import scratch_bytes
from alcove.runtime.format.attributes import LinearAttributes, MatmulAttributes
from alcove.runtime.format.spec import DType

PANEL = 16
MAX_INTEGER_PRODUCTS = 2**22
"""An integer product is computed as all its factors at once, which take eight bytes each."""

FLOAT_ONLY = "float32 operands: cast with .float() before"


# -- what rules of this and other families are made of ----------------------------------------------------------------


def emit_linear(b: Builder, x: Value, weight: Value, bias: Value, residual: Value | None = None) -> Value:
    """Return `x @ weight.T + bias + residual`; `weight` [n, k] and `bias` [n] are constants, `residual` computed."""
    inputs = [x, weight, bias] if residual is None else [x, weight, bias, residual]
    attributes = LinearAttributes(has_residual=int(residual is not None), activation=0, low=0.0, high=0.0)
    return b.op("linear", inputs, DType.F32, (*x.shape[:-1], weight.shape[0]), attributes)


def matmul(b: Builder, x: Value, y: Value, *, is_transposed: bool = False) -> Value:
    """Return `x @ y` for f32 operands of rank 2 or more, broadcast; with `is_transposed`, y is [..., n, k]."""
    k, n = y.shape[-2:] if not is_transposed else (y.shape[-1], y.shape[-2])
    shape = (*_broadcast(x.shape[:-2], y.shape[:-2]), x.shape[-2], n)
    if k == 0:
        return fill_tensor(b, shape, 0.0, DType.F32)
    if y.constant is not None and math.prod(y.shape) == n * k and len(y.shape) <= len(x.shape):
        right = b.reshape(y, y.shape[-2:])
        return emit_linear(b, x, right if is_transposed else b.permute(right, (1, 0)), b.zeros(n))
    scratch = scratch_bytes("matmul", n=n, k=k)
    outputs = [(DType.F32, shape), (DType.U8, (scratch,))]
    return b.ops("matmul", [x, y], outputs, MatmulAttributes(is_transposed=int(is_transposed)))[0]


def add(b: Builder, x: Value, y: Value, beta: float = 1, alpha: float = 1) -> Value:
    """Return `beta * x + alpha * y`, broadcast; an operand times 0 is left out, whatever it holds (as torch does)."""
    scaled = y if alpha == 1 else b.binary("mul", y, b.scalar(alpha, y.dtype))
    if beta == 0:
        return scaled
    return b.binary("add", x if beta == 1 else b.binary("mul", x, b.scalar(beta, x.dtype)), scaled)


def _broadcast(left: Sequence[int], right: Sequence[int]) -> tuple[int, ...]:
    rank = max(len(left), len(right))
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in (left, right)]
    return tuple(a if c == 1 else c for a, c in zip(*padded, strict=True))


def _is_float(*values: Value) -> bool:
    return all(value.dtype is DType.F32 for value in values)


def _product(b: Builder, x: Value, y: Value) -> Value:
    """Return torch's `x @ y` for operands of rank 1 or more and any type that torch multiplies."""
    left = b.reshape(x, (1, *x.shape)) if len(x.shape) == 1 else x
    right = b.reshape(y, (*y.shape, 1)) if len(y.shape) == 1 else y
    result = matmul(b, left, right) if _is_float(x, y) else _integer_product(b, left, right)
    shape = list(result.shape)
    if len(y.shape) == 1:
        shape.pop()
    if len(x.shape) == 1:
        shape.pop(len(result.shape) - 2)
    return b.reshape(result, shape)


def _integer_product(b: Builder, x: Value, y: Value) -> Value:
    """Return `x @ y` of integers, which wrap around: every product, then their sums."""
    batch = _broadcast(x.shape[:-2], y.shape[:-2])
    m, k, n = *x.shape[-2:], y.shape[-1]
    if x.dtype is not y.dtype or x.dtype not in {DType.I32, DType.I64}:
        raise Refused(FLOAT_ONLY)
    if k == 0 or math.prod((*batch, m, k, n)) > MAX_INTEGER_PRODUCTS or len(batch) > 5:
        raise Refused(f"an integer product of 1 to {MAX_INTEGER_PRODUCTS} factors, or {FLOAT_ONLY}")
    left = b.reshape(b.cast(x, DType.I64), (*x.shape, 1))
    right = b.reshape(b.cast(y, DType.I64), (*y.shape[:-2], 1, k, n))
    factors = b.binary("mul", left, right)
    return b.cast(fold(b, factors, "sum", [len(batch) + 1]), x.dtype)


# -- products of two --------------------------------------------------------------------------------------------------


@rule("aten.linear.default", keep=True)
def linear(call: Call, b: Builder) -> Value:
    """A dense layer; weights and biases that are computed are taken too."""
    x, weight, bias = call.tensor("input"), call.tensor("weight"), call.optional("bias")
    if not _is_float(x, weight) or len(weight.shape) != 2:  # a weight of rank 1 has one output less
        result = _product(b, x, b.permute(weight, (1, 0)) if len(weight.shape) == 2 else weight)
        return result if bias is None else b.binary("add", result, bias)
    return _dense(b, x, weight, bias)


def _dense(b: Builder, x: Value, weight: Value, bias: Value | None) -> Value:
    """Return `x @ weight.T + bias`, in one op if the weight is constant and the bias fits it."""
    outputs, inputs = weight.shape
    if weight.constant is not None and inputs > 0:
        if bias is None:
            return emit_linear(b, x, weight, b.zeros(outputs))
        if bias.constant is not None and bias.dtype is DType.F32 and bias.shape in {(outputs,), (1, outputs), (1,), ()}:
            shaped = bias if bias.shape == (outputs,) else b.expand(bias, (1, outputs))
            return emit_linear(b, x, weight, b.reshape(shaped, (outputs,)))
        if bias.constant is None and bias.shape == (*x.shape[:-1], outputs):
            return emit_linear(b, x, weight, b.zeros(outputs), bias)
    rows = b.reshape(x, (1, *x.shape)) if len(x.shape) == 1 else x
    result = b.reshape(matmul(b, rows, weight, is_transposed=True), (*x.shape[:-1], outputs))
    return result if bias is None else b.binary("add", result, bias)


@rule("aten.matmul.default", keep=True)
def matmul_rule(call: Call, b: Builder) -> Value:
    """`@`, in all combinations of ranks."""
    return _product(b, call.tensor("self"), call.tensor("other"))


@rule("aten.mm.default", "aten.bmm.default")
def mm(call: Call, b: Builder) -> Value:
    """Two matrices, or two batches of them."""
    return _product(b, call.tensor("self"), call.tensor("mat2"))


@rule("aten.mv.default", keep=True)
def mv(call: Call, b: Builder) -> Value:
    """A matrix and a vector."""
    return _product(b, call.tensor("self"), call.tensor("vec"))


@rule("aten.dot.default", "aten.vdot.default", keep=True)
def dot(call: Call, b: Builder) -> Value:
    """Two vectors."""
    return _product(b, call.tensor("self"), call.tensor("tensor" if "tensor" in call.arguments else "other"))


# -- products that are added ------------------------------------------------------------------------------------------


def _add_scaled(call: Call, b: Builder, x: Value, y: Value) -> Value:
    """Return `beta * self + alpha * (x @ y)`."""
    base, beta, alpha = call.tensor("self"), call["beta"], call["alpha"]
    if _is_float(base, x, y) and beta == alpha == 1 and y.constant is not None and len(y.shape) == len(x.shape) == 2:
        return _dense(b, x, b.permute(y, (1, 0)), base)
    return add(b, base, _product(b, x, y), beta, alpha)


@rule("aten.addmm.default", "aten.addmv.default", "aten.baddbmm.default", "aten.addbmm.default", keep=True)
def addmm(call: Call, b: Builder) -> Value:
    """A product of matrices, vectors or batches, added to something; `addbmm` sums over its batch."""
    names = ("mat", "vec") if "vec" in call.arguments else ("mat1", "mat2")
    if "batch1" in call.arguments:
        names = ("batch1", "batch2")
    x, y = (call.tensor(name) for name in names)
    if call.target == "aten.addbmm.default":
        batch, m, k = x.shape
        x = b.reshape(b.permute(x, (1, 0, 2)), (m, batch * k))
        y = b.reshape(y, (batch * k, y.shape[2]))
    return _add_scaled(call, b, x, y)


@rule("aten.bilinear.default", keep=True)
def bilinear(call: Call, b: Builder) -> Value:
    """`x1 @ weight[o] @ x2 + bias[o]` for each output o."""
    x1, x2, weight = call.tensor("input1"), call.tensor("input2"), call.tensor("weight")
    bias = call.optional("bias")
    if not _is_float(x1, x2, weight):
        raise Refused(FLOAT_ONLY)
    outputs, inputs, others = weight.shape
    rows = math.prod(x1.shape[:-1])
    half = matmul(b, b.reshape(x1, (1, rows, inputs)), weight)  # [outputs, rows, others]
    result = matmul(b, b.permute(half, (1, 0, 2)), b.reshape(x2, (rows, others, 1)))
    shaped = b.reshape(result, (*x1.shape[:-1], outputs))
    return shaped if bias is None else b.binary("add", shaped, bias)


@rule("transformers.grouped_mm_fallback.default")
def grouped_mm(call: Call, b: Builder) -> Value:
    """Rows sorted by group, each group with its own matrix: mixtures of experts in transformers.

    Every row meets every matrix, and keeps the product of its own group; rows after the last group are 0.
    """
    x, weight, ends = call.tensor("input"), call.tensor("weight"), call.tensor("offs")
    rows = b.reshape(b.cast(b.constant(np.arange(x.shape[0])), ends.dtype), (x.shape[0], 1))
    result = b.scalar(0.0, DType.F32, (1, 1))
    for group in reversed(range(weight.shape[0])):
        end = b.reshape(b.slice(ends, 0, group, group + 1), (1, 1))
        matrix = b.reshape(b.slice(weight, 0, group, group + 1), weight.shape[1:])
        result = b.where(b.binary("lt", rows, end, DType.BOOL), matmul(b, x, matrix), result)
    return result
