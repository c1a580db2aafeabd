"""Lowers the exponential of matrices, by scaling and squaring."""

import math
from typing import Final

import numpy as np
from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules.matmul import FLOAT_ONLY, matmul
from alcove.runtime.compiler.rules.reduction import fold
from alcove.runtime.compiler.rules.registry import Call, Refused, rule
from alcove.runtime.compiler.sizes import Size
from alcove.runtime.format.spec import DType

_DEGREE: Final = 15
_NORM: Final = 2.0
"""Up to this norm the polynomial of that degree is exact in float32: the rest is below 2**16 / 16! = 3e-9."""
_SQUARINGS: Final = 22
"""Of a matrix whose norm is 2**23 the exponential has no digit in float32: rounding its elements changes it as much."""


@rule("aten.linalg_matrix_exp.default")
def matrix_exponential(call: Call, b: Builder) -> Value:
    """Taylor's polynomial of the matrix halved s times, squared s times; NaN where the norm is above 2**23."""
    x = call.tensor("self")
    count = x.shape[-1]
    if x.dtype is not DType.F32:
        raise Refused(FLOAT_ONLY)
    if isinstance(count, Size):
        raise Refused("matrices of a size that is fixed")
    many = math.prod(x.shape[:-2])
    matrices = b.reshape(x, (many, count, count))
    norm = fold(b, fold(b, b.unary("abs", matrices), "sum", [1]), "max", [1], keeps=True)  # the greatest column's
    limits = b.constant((_NORM * 2.0 ** np.arange(_SQUARINGS + 1)).astype("<f4").reshape(1, -1))
    is_above = b.binary("gt", norm, limits, DType.BOOL)
    halves = b.where(is_above, b.scalar(0.5, DType.F32), b.scalar(1.0, DType.F32))
    small = b.binary("mul", matrices, b.reshape(fold(b, halves, "prod", [1]), (many, 1, 1)))
    identity = b.constant(np.eye(count, dtype="<f4")[None])
    result = b.binary("add", b.binary("mul", small, b.scalar(1 / _DEGREE, DType.F32)), identity)
    for degree in reversed(range(1, _DEGREE)):
        product = matmul(b, small, result)
        scaled = product if degree == 1 else b.binary("mul", product, b.scalar(1 / degree, DType.F32))
        result = b.binary("add", scaled, identity)
    for step in range(_SQUARINGS):
        is_squared = b.reshape(b.slice(is_above, 1, step, step + 1), (many, 1, 1))
        result = b.where(is_squared, matmul(b, result, result), result)
    is_known = b.binary("le", norm, b.slice(limits, 1, _SQUARINGS, _SQUARINGS + 1), DType.BOOL)
    nothing = b.scalar(math.nan, DType.F32)
    return b.reshape(b.where(b.reshape(is_known, (many, 1, 1)), result, nothing), x.shape)
