"""Lowers solutions of linear equations, inverses and determinants of small matrices.

Gaussian elimination with partial pivoting, written out: each step takes the row with the largest first element (the
first of several, as LAPACK does), puts the first row in its place, and subtracts multiples of it from the rows below.
All matrices of a batch take the step at once.  A pivot of 0 ends the run where torch raises an error; elsewhere what
is divided by it means nothing, as in torch.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules.reduction import fold
from alcove.runtime.compiler.rules.registry import Call, Refused, rule
from alcove.runtime.compiler.sizes import Size, broadcast_shapes
from alcove.runtime.format.attributes import GatherAttributes, IndexSelectAttributes
from alcove.runtime.format.spec import DType

MAX_ROWS: Final = 64
"""Of a matrix; each row is about twenty steps, and ten kilobytes, of a program."""


@dataclass(frozen=True)
class _Eliminated:
    """A batch of matrices [batch, n, width] after elimination in their first n columns.

    Attributes:
        rows: the row of each step [batch, 1, width - step]; its first element is the pivot.
        swaps: for each step but the last whether two rows changed places, bool [batch, 1, 1].
    """

    rows: list[Value]
    swaps: list[Value]

    def pivots(self, b: Builder) -> Value:
        """Return [batch, n, 1]."""
        return b.concat([b.slice(row, 2, 0, 1) for row in self.rows], 1)


def _eliminate(b: Builder, x: Value, count: int) -> _Eliminated:
    rows, swaps = [], []
    for _ in range(count - 1):
        _, height, width = x.shape
        first = b.slice(x, 2, 0, 1)
        place = fold(b, b.unary("abs", first), "argmax", [1], keeps=True)
        row = b.op(
            "gather",
            [x, b.expand(place, (x.shape[0], 1, width))],
            DType.F32,
            (x.shape[0], 1, width),
            GatherAttributes(axis=1),
        )
        is_row = b.binary("eq", b.constant(np.arange(height).reshape(1, height, 1)), place, DType.BOOL)
        others = b.slice(b.where(is_row, b.slice(x, 1, 0, 1), x), 1, 1, height)
        pivot = b.slice(row, 2, 0, 1)
        # All below a pivot of 0 is 0: torch leaves the rows as they are.
        divisor = b.where(is_zero(b, pivot), b.scalar(1.0, DType.F32), pivot)
        factors = b.binary("div", b.slice(others, 2, 0, 1), divisor)
        swaps.append(b.binary("ne", place, b.scalar(0, DType.I64), DType.BOOL))
        rows.append(row)
        rest = b.binary("mul", factors, b.slice(row, 2, 1, width))
        x = b.binary("sub", b.slice(others, 2, 1, width), rest)
    return _Eliminated([*rows, x], swaps)


def _substitute(b: Builder, eliminated: _Eliminated, count: int) -> Value:
    """Return the solution [batch, n, columns] for the columns behind the first n."""
    last = eliminated.rows[-1]
    solved = b.binary("div", b.slice(last, 2, 1, last.shape[2]), b.slice(last, 2, 0, 1))
    for step in reversed(range(count - 1)):
        row = eliminated.rows[step]
        known = b.permute(b.slice(row, 2, 1, count - step), (0, 2, 1))
        right = b.slice(row, 2, count - step, row.shape[2])
        right = b.binary("sub", right, fold(b, b.binary("mul", known, solved), "sum", [1], keeps=True))
        solved = b.concat([b.binary("div", right, b.slice(row, 2, 0, 1)), solved], 1)
    return solved


def is_zero(b: Builder, x: Value) -> Value:
    """Return where `x` is 0."""
    return b.binary("eq", x, b.scalar(0.0, DType.F32), DType.BOOL)


def first_place(b: Builder, is_wrong: Value) -> Value:
    """Return what LAPACK says of a batch, int32 [batch]: the first place where [batch, n, 1] holds, from 1, or 0."""
    batch, count, _ = is_wrong.shape
    marks = b.constant(np.arange(count, 0, -1).reshape(1, count, 1))
    last = fold(b, b.where(is_wrong, marks, b.scalar(0, DType.I64)), "max", [1])
    is_none = b.binary("eq", last, b.scalar(0, DType.I64), DType.BOOL)
    first = b.binary("sub", b.scalar(count + 1, DType.I64), last)
    return b.cast(b.reshape(b.where(is_none, b.scalar(0, DType.I64), first), (batch,)), DType.I32)


def matrices_of(b: Builder, x: Value) -> tuple[Value, int]:
    """Return the matrices as [batch, rows, columns], and the lesser of both numbers.

    Raises:
        Refused: they vary, or there are too many steps.
    """
    rows, columns = x.shape[-2:]
    count = min(rows, columns)
    if x.dtype is not DType.F32:
        raise Refused("matrices in float32; convert them first")
    if isinstance(rows, Size) or isinstance(columns, Size) or count > MAX_ROWS:
        raise Refused(
            f"of an input, matrices of a size that is fixed and at most {MAX_ROWS}; of a parameter or buffer, any: "
            "programs hold what follows from those alone"
        )
    return b.reshape(x, (math.prod(x.shape[:-2]), rows, columns)), count


def _solve(b: Builder, left: Value, right: Value) -> tuple[Value, _Eliminated]:
    """Return the X for which `left @ X = right`, of [batch, n, n] and [batch, n, columns]."""
    count = left.shape[1]
    eliminated = _eliminate(b, b.concat([left, right], 2), count)
    return _substitute(b, eliminated, count), eliminated


def refuse_where(b: Builder, x: Value, is_wrong: Value) -> Value:
    """Return `x`, by an index that ends the run where something holds."""
    count, places = math.prod(x.shape), math.prod(is_wrong.shape)
    place = b.cast(fold(b, b.reshape(is_wrong, (places,)), "max", [0], keeps=True), DType.I64)
    attributes = IndexSelectAttributes(axis=0, wraps=0)
    return b.reshape(b.op("index_select", [b.reshape(x, (1, count)), place], x.dtype, (1, count), attributes), x.shape)


@rule("aten.linalg_inv_ex.default")
@rule("aten.linalg_inv.default", "aten.inverse.default", keep=True)
def inverse(call: Call, b: Builder) -> Value | tuple[Value, ...]:
    """The solution for the columns of the identity; a singular matrix ends the run, or is said to be one."""
    x = call.tensor("self" if call.target.startswith("aten.inverse") else "A")
    matrices, count = matrices_of(b, x)
    identity = spread(b, b.constant(np.eye(count, dtype="<f4").reshape(1, count, count)), matrices.shape)
    solved, eliminated = _solve(b, matrices, identity)
    if call.target != "aten.linalg_inv_ex.default" or call["check_errors"]:
        solved = refuse_where(b, solved, is_zero(b, eliminated.pivots(b)))
    result = b.reshape(solved, x.shape)
    if len(call.results) == 1:
        return result
    return result, b.reshape(first_place(b, is_zero(b, eliminated.pivots(b))), x.shape[:-2])


@rule("aten._linalg_solve_ex.default")
@rule("aten.linalg_solve.default", keep=True)
def solve(call: Call, b: Builder) -> Value | tuple[Value, ...]:
    """Of equations from the left or from the right; a singular matrix ends the run, or is said to be one."""
    a, right = call.tensor("A"), call.tensor("B")
    is_vector = len(right.shape) == 1 or (len(right.shape) + 1 == len(a.shape) and right.shape == a.shape[:-1])
    _, count = matrices_of(b, a)
    right = b.reshape(right, (*right.shape, 1)) if is_vector else right
    is_turned = not call["left"] and not is_vector
    if is_turned:  # X A = B is A' X' = B'
        a, right = transpose(b, a), transpose(b, right)
    batch = broadcast_shapes(a.shape[:-2], right.shape[:-2])
    left = spread(b, a, (*batch, count, count))
    right = spread(b, right, (*batch, *right.shape[-2:]))
    many = math.prod(batch)
    solved, eliminated = _solve(b, b.reshape(left, (many, count, count)), b.reshape(right, (many, *right.shape[-2:])))
    if call.target == "aten.linalg_solve.default" or call["check_errors"]:
        solved = refuse_where(b, solved, is_zero(b, eliminated.pivots(b)))
    solved = b.reshape(solved, right.shape)
    result = b.reshape(transpose(b, solved) if is_turned else solved, call.shape)
    if len(call.results) == 1:
        return result
    unknown = [(DType.F32, left.shape), (DType.I32, left.shape[:-1])]
    unused = b.add_refused(call.target, [a], unknown, (), "the solution alone is in a program, without LU and pivots")
    return result, *unused, b.reshape(first_place(b, is_zero(b, eliminated.pivots(b))), batch)


@rule("aten._linalg_det.default")
def determinant(call: Call, b: Builder) -> tuple[Value, ...]:
    """The product of the pivots, with the sign of their order."""
    matrices, count = matrices_of(b, call.tensor("A"))
    eliminated = _eliminate(b, matrices, count)
    result = fold(b, eliminated.pivots(b), "prod", [1], keeps=True)
    return (b.reshape(_with_sign(b, result, eliminated), call.shape),)


@rule("aten._linalg_slogdet.default")
def logarithm_of_determinant(call: Call, b: Builder) -> tuple[Value, ...]:
    """The sign, and the sum of the logarithms."""
    matrices, count = matrices_of(b, call.tensor("A"))
    eliminated = _eliminate(b, matrices, count)
    pivots = eliminated.pivots(b)
    sign = fold(b, b.unary("sign", pivots), "prod", [1], keeps=True)
    logarithm = fold(b, b.unary("log", b.unary("abs", pivots)), "sum", [1])
    return b.reshape(_with_sign(b, sign, eliminated), call.shape), b.reshape(logarithm, call.shape)


def _with_sign(b: Builder, x: Value, eliminated: _Eliminated) -> Value:
    """Return [batch, 1, 1] with another sign for each pair of rows that changed places."""
    for is_swapped in eliminated.swaps:
        x = b.where(is_swapped, b.unary("neg", x), x)
    return x


def spread(b: Builder, x: Value, shape: Sequence[int]) -> Value:
    """Return `x` broadcast to `shape`, in the run: a constant stays as small as it is."""
    if x.constant is None or x.shape == tuple(shape):
        return b.expand(x, shape)
    return b.expand(b.op("reshape", [x], x.dtype, x.shape), shape)


def transpose(b: Builder, x: Value) -> Value:
    """Return the transpose of each matrix."""
    rank = len(x.shape)
    return b.permute(x, (*range(rank - 2), rank - 1, rank - 2))
