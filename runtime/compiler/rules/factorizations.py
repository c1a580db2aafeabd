"""Lowers factorizations of small matrices (Cholesky, LU, QR) and solutions by triangular ones.

Each is written out as LAPACK computes it without blocks, so that rows change places and signs come out as in eager
mode; all matrices of a batch take a step at once.  Where torch raises an error, the run ends.
"""

import math
from collections.abc import Sequence

import numpy as np
from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules.linear_algebra import (
    first_place,
    is_zero,
    matrices_of,
    refuse_where,
    spread,
    transpose,
)
from alcove.runtime.compiler.rules.reduction import fold
from alcove.runtime.compiler.rules.registry import Call, Refused, rule
from alcove.runtime.compiler.sizes import broadcast_shapes
from alcove.runtime.format.attributes import GatherAttributes
from alcove.runtime.format.spec import DType

_NO_PIVOTS = "LU with pivots (pivot=True), as the CPU has it alone"


def _mask(b: Builder, rows: int, columns: int, *, upper: bool, diagonal: int = 0) -> Value:
    """Return where a triangle is, bool [1, rows, columns]."""
    cut = np.triu if upper else np.tril
    return b.constant(cut(np.ones((rows, columns), "?"), diagonal)[None])


def _triangle(b: Builder, x: Value, *, upper: bool, diagonal: int = 0) -> Value:
    """Return `x` with zeros outside of a triangle."""
    mask = _mask(b, *x.shape[1:], upper=upper, diagonal=diagonal)
    return b.where(mask, x, b.scalar(0.0, DType.F32))


def _identity(b: Builder, rows: int, columns: int, batch: int) -> Value:
    return spread(b, b.constant(np.eye(rows, columns, dtype="<f4")[None]), (batch, rows, columns))


# -- triangular matrices ----------------------------------------------------------------------------------------------


def _substitute(b: Builder, a: Value, right: Value, *, upper: bool, is_unit: bool = False) -> Value:
    """Return the X for which `a @ X = right`, of [batch, n, n] and [batch, n, columns]; reads one triangle of `a`."""
    count = a.shape[1]
    solved: list[Value] = []
    for done in range(count):
        place = count - 1 - done if upper else done
        column = b.slice(a, 2, place, place + 1)
        rows = right.shape[1]
        row = b.slice(right, 1, rows - 1, rows) if upper else b.slice(right, 1, 0, 1)
        if not is_unit:
            row = b.binary("div", row, b.slice(column, 1, place, place + 1))
        solved.append(row)
        if rows > 1:
            others = b.slice(column, 1, 0, place) if upper else b.slice(column, 1, place + 1, count)
            rest = b.slice(right, 1, 0, rows - 1) if upper else b.slice(right, 1, 1, rows)
            right = b.binary("sub", rest, b.binary("mul", others, row))
    return b.concat(solved[::-1] if upper else solved, 1)


def _join_batches(b: Builder, a: Value, right: Value) -> tuple[Value, Value, tuple[int, ...]]:
    """Return both as [batch, ...], and the shape of the batches, broadcast.

    Raises:
        Refused: there are too many steps.
    """
    matrices_of(b, a)
    batch = broadcast_shapes(a.shape[:-2], right.shape[:-2])
    left = spread(b, a, (*batch, *a.shape[-2:]))
    right = spread(b, right, (*batch, *right.shape[-2:]))
    many = math.prod(batch)
    return b.reshape(left, (many, *a.shape[-2:])), b.reshape(right, (many, *right.shape[-2:])), batch


@rule("aten.linalg_solve_triangular.default")
def solve_triangular(call: Call, b: Builder) -> Value:
    """From the left or from the right; a 0 on the diagonal gives infinities, as in torch."""
    a, right, upper = call.tensor("self"), call.tensor("B"), bool(call["upper"])
    if not call["left"]:  # X A = B is A' X' = B'
        a, right, upper = transpose(b, a), transpose(b, right), not upper
    left, columns, batch = _join_batches(b, a, right)
    solved = _substitute(b, left, columns, upper=upper, is_unit=bool(call["unitriangular"]))
    result = b.reshape(solved, (*batch, *right.shape[-2:]))
    return result if call["left"] else transpose(b, result)


@rule("aten.triangular_solve.default")
def triangular_solve(call: Call, b: Builder) -> tuple[Value, ...]:
    """The older form, whose second result is the matrix."""
    a, right, upper = call.tensor("A"), call.tensor("self"), bool(call["upper"])
    left, columns, batch = _join_batches(b, a, right)
    turned = transpose(b, left) if call["transpose"] else left
    is_upper = upper is not bool(call["transpose"])
    solved = _substitute(b, turned, columns, upper=is_upper, is_unit=bool(call["unitriangular"]))
    return b.reshape(solved, (*batch, *right.shape[-2:])), b.reshape(left, (*batch, *a.shape[-2:]))


# -- Cholesky ---------------------------------------------------------------------------------------------------------


@rule("aten.linalg_cholesky_ex.default")
@rule("aten.linalg_cholesky.default", "aten.cholesky.default", keep=True)
def cholesky(call: Call, b: Builder) -> Value | tuple[Value, ...]:
    """Reads one triangle; a matrix that is not positive definite ends the run, or is said to be none."""
    x, upper = call.tensor("self"), bool(call["upper"])
    matrices, count = matrices_of(b, x)
    rest = transpose(b, matrices) if upper else matrices
    columns, pivots = [], []
    for step in range(count):
        column = b.slice(rest, 2, step, step + 1)
        pivot = b.slice(column, 1, step, step + 1)
        pivots.append(pivot)
        below = b.constant(np.arange(count).reshape(1, count, 1) >= step)
        scaled = b.binary("div", column, b.unary("sqrt", pivot))
        columns.append(b.where(below, scaled, b.scalar(0.0, DType.F32)))
        if step + 1 < count:
            row = b.reshape(columns[-1], (matrices.shape[0], 1, count))
            rest = b.binary("sub", rest, b.binary("mul", columns[-1], row))
    is_positive = b.binary("gt", b.concat(pivots, 1), b.scalar(0.0, DType.F32), DType.BOOL)
    is_wrong = b.unary("logical_not", is_positive)  # of NaN too
    factor = b.concat(columns, 2)
    factor = transpose(b, factor) if upper else factor
    is_asked = call.target == "aten.linalg_cholesky_ex.default"
    if not is_asked or call["check_errors"]:
        factor = refuse_where(b, factor, is_wrong)
    result = b.reshape(factor, x.shape)
    return (result, b.reshape(first_place(b, is_wrong), x.shape[:-2])) if is_asked else result


def _solve_by_cholesky(b: Builder, factor: Value, right: Value, *, upper: bool) -> Value:
    turned = transpose(b, factor)
    half = _substitute(b, turned if upper else factor, right, upper=False)
    return _substitute(b, factor if upper else turned, half, upper=True)


@rule("aten.cholesky_solve.default")
def cholesky_solve(call: Call, b: Builder) -> Value:
    """By two triangular matrices."""
    right = call.tensor("self")
    factor, columns, batch = _join_batches(b, call.tensor("input2"), right)
    solved = _solve_by_cholesky(b, factor, columns, upper=bool(call["upper"]))
    return b.reshape(solved, (*batch, *right.shape[-2:]))


@rule("aten.cholesky_inverse.default")
def cholesky_inverse(call: Call, b: Builder) -> Value:
    """The solution for the columns of the identity; a 0 on the diagonal ends the run."""
    x = call.tensor("self")
    factor, count = matrices_of(b, x)
    identity = _identity(b, count, count, factor.shape[0])
    diagonal = b.copy_strided(factor, (factor.shape[0], count), (count * count, count + 1))
    solved = _solve_by_cholesky(b, factor, identity, upper=bool(call["upper"]))
    return b.reshape(refuse_where(b, solved, is_zero(b, diagonal)), x.shape)


# -- LU ---------------------------------------------------------------------------------------------------------------


def _take_row(b: Builder, x: Value, place: Value) -> tuple[Value, Value | None]:
    """Return the row of each [height, width] at `place` [batch, 1, 1], and the others; the first takes its place."""
    batch, height, width = x.shape
    spread_place = b.expand(place, (batch, 1, width))
    row = b.op("gather", [x, spread_place], x.dtype, (batch, 1, width), GatherAttributes(axis=1))
    if height == 1:
        return row, None
    is_row = b.binary("eq", b.constant(np.arange(height).reshape(1, height, 1)), place, DType.BOOL)
    return row, b.slice(b.where(is_row, b.slice(x, 1, 0, 1), x), 1, 1, height)


def _eliminate(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """Return LU of [batch, rows, columns] in one, the order of the rows (f32 [batch, rows, 1]) and LAPACK's pivots."""
    batch, rows, columns = x.shape
    numbers = b.constant(np.arange(rows, dtype="<f4").reshape(1, rows, 1))
    x = b.concat([x, spread(b, numbers, (batch, rows, 1))], 2)  # the numbers of the rows change places with them
    made: list[Value] = []
    pivots: list[Value] = []
    for step in range(min(rows, columns)):
        place = fold(b, b.unary("abs", b.slice(x, 2, step, step + 1)), "argmax", [1], keeps=True)
        pivots.append(b.binary("add", place, b.scalar(step + 1, DType.I64)))
        row, others = _take_row(b, x, place)
        made.append(row)
        if others is None:
            break
        pivot = b.slice(row, 2, step, step + 1)
        # All below a pivot of 0 is 0.
        divisor = b.where(is_zero(b, pivot), b.scalar(1.0, DType.F32), pivot)
        factors = b.binary("div", b.slice(others, 2, step, step + 1), divisor)
        parts = [b.slice(others, 2, 0, step)] if step else []
        parts.append(factors)
        if step + 1 < columns:
            rest = b.binary("mul", factors, b.slice(row, 2, step + 1, columns))
            parts.append(b.binary("sub", b.slice(others, 2, step + 1, columns), rest))
        x = b.concat([*parts, b.slice(others, 2, columns, columns + 1)], 2)
    else:
        made.append(x)  # what has more rows than columns
    whole = b.concat(made, 1)
    order = b.slice(whole, 2, columns, columns + 1)
    return b.slice(whole, 2, 0, columns), order, b.cast(b.concat(pivots, 1), DType.I32)


def _permutation(b: Builder, order: Value, shape: Sequence[int]) -> Value:
    """Return the matrices that put rows in this order [batch, rows, 1] back to where they were."""
    rows = order.shape[1]
    turned = b.reshape(order, (order.shape[0], 1, rows))
    numbers = b.constant(np.arange(rows, dtype="<f4").reshape(1, rows, 1))
    return b.reshape(b.cast(b.binary("eq", numbers, turned, DType.BOOL), DType.F32), shape)


def _both(b: Builder, packed: Value, batch: Sequence[int]) -> tuple[Value, Value]:
    """Return L and U of both in one."""
    _, rows, columns = packed.shape
    count = min(rows, columns)
    lower = b.where(
        _mask(b, rows, count, upper=False, diagonal=-1),
        b.slice(packed, 2, 0, count),
        b.constant(np.eye(rows, count, dtype="<f4")[None]),
    )
    upper = _triangle(b, b.slice(packed, 1, 0, count), upper=True)
    return b.reshape(lower, (*batch, rows, count)), b.reshape(upper, (*batch, count, columns))


@rule("aten.linalg_lu.default")
def lu(call: Call, b: Builder) -> tuple[Value, ...]:
    """P, L and U."""
    x = call.tensor("A")
    if not call["pivot"]:
        raise Refused(_NO_PIVOTS)
    matrices, _ = matrices_of(b, x)
    packed, order, _ = _eliminate(b, matrices)
    batch = x.shape[:-2]
    return _permutation(b, order, (*batch, x.shape[-2], x.shape[-2])), *_both(b, packed, batch)


@rule("aten.linalg_lu_factor_ex.default")
@rule("aten.linalg_lu_factor.default", keep=True)
def lu_factor(call: Call, b: Builder) -> tuple[Value, ...]:
    """L and U in one, and which rows changed places; a pivot of 0 ends the run, or is said to be there."""
    x = call.tensor("A")
    if not call["pivot"]:
        raise Refused(_NO_PIVOTS)
    matrices, count = matrices_of(b, x)
    packed, _, pivots = _eliminate(b, matrices)
    columns = x.shape[-1]
    diagonal = b.copy_strided(packed, (matrices.shape[0], count, 1), (matrices.shape[1] * columns, columns + 1, 0))
    is_wrong = is_zero(b, diagonal)
    is_asked = call.target == "aten.linalg_lu_factor_ex.default"
    if not is_asked or call["check_errors"]:
        packed = refuse_where(b, packed, is_wrong)
    result = b.reshape(packed, x.shape), b.reshape(pivots, (*x.shape[:-2], count))
    return (*result, b.reshape(first_place(b, is_wrong), x.shape[:-2])) if is_asked else result


def _change_places(b: Builder, x: Value, pivots: Value) -> Value:
    """Return [batch, rows, columns] with rows changed as LAPACK's pivots [batch, count] say, in their order."""
    places = b.cast(pivots, DType.I64)
    made: list[Value] = []
    for step in range(pivots.shape[1]):
        mine = b.reshape(b.slice(places, 1, step, step + 1), (x.shape[0], 1, 1))
        row, others = _take_row(b, x, b.binary("sub", mine, b.scalar(step + 1, DType.I64)))
        made.append(row)
        if others is None:
            return b.concat(made, 1)
        x = others
    return b.concat([*made, x], 1)


@rule("aten.lu_unpack.default")
def lu_unpack(call: Call, b: Builder) -> tuple[Value, ...]:
    """P, L and U of what `lu_factor` gives."""
    x, pivots = call.tensor("LU_data"), call.tensor("LU_pivots")
    if not call["unpack_data"] or not call["unpack_pivots"]:
        raise Refused("lu_unpack of both: leave out unpack_data and unpack_pivots, and use what you need")
    matrices, count = matrices_of(b, x)
    batch, rows = x.shape[:-2], x.shape[-2]
    numbers = spread(b, b.constant(np.arange(rows, dtype="<f4").reshape(1, rows, 1)), (matrices.shape[0], rows, 1))
    order = _change_places(b, numbers, b.reshape(pivots, (matrices.shape[0], count)))
    return _permutation(b, order, (*batch, rows, rows)), *_both(b, matrices, batch)


@rule("aten.linalg_lu_solve.default")
def lu_solve(call: Call, b: Builder) -> Value:
    """By both triangles."""
    if not call["left"] or call["adjoint"]:
        raise Refused("lu_solve from the left, without adjoint; torch.linalg.solve takes all forms")
    packed, right, pivots = call.tensor("LU"), call.tensor("B"), call.tensor("pivots")
    left, columns, batch = _join_batches(b, packed, right)
    places = b.reshape(b.expand(pivots, (*batch, pivots.shape[-1])), (left.shape[0], pivots.shape[-1]))
    half = _substitute(b, left, _change_places(b, columns, places), upper=False, is_unit=True)
    return b.reshape(_substitute(b, left, half, upper=True), (*batch, *right.shape[-2:]))


# -- QR ---------------------------------------------------------------------------------------------------------------


def _reflect(b: Builder, x: Value, direction: Value, factor: Value) -> Value:
    """Return `x - direction (factor direction' x)`: Householder's reflection of every column."""
    along = b.binary("mul", factor, fold(b, b.binary("mul", direction, x), "sum", [1], keeps=True))
    return b.binary("sub", x, b.binary("mul", direction, along))


def _reflections(b: Builder, x: Value) -> tuple[Value, list[tuple[Value, Value]]]:
    """Return [batch, rows, columns] made upper triangular (what is below means nothing), and the reflections."""
    _, rows, columns = x.shape
    nothing, one = b.scalar(0.0, DType.F32), b.scalar(1.0, DType.F32)
    made = []
    for step in range(min(rows - 1, columns)):
        numbers = np.arange(rows).reshape(1, rows, 1)
        column = b.slice(x, 2, step, step + 1)
        alpha = b.slice(column, 1, step, step + 1)
        below = b.where(b.constant(numbers > step), column, nothing)
        squares = fold(b, b.binary("mul", below, below), "sum", [1], keeps=True)
        is_done = is_zero(b, squares)
        norm = b.unary("sqrt", b.binary("add", b.binary("mul", alpha, alpha), squares))
        is_negative = b.binary("lt", alpha, nothing, DType.BOOL)
        beta = b.where(is_negative, norm, b.unary("neg", norm))
        divisor = b.where(is_done, one, b.binary("sub", alpha, beta))
        ends = b.where(b.constant(numbers == step), one, b.binary("div", below, divisor))
        safe_beta = b.where(is_done, one, beta)
        factor = b.where(is_done, nothing, b.binary("div", b.binary("sub", beta, alpha), safe_beta))
        made.append((ends, factor))
        x = _reflect(b, x, ends, factor)
    return x, made


@rule("aten.linalg_qr.default")
def qr(call: Call, b: Builder) -> tuple[Value, ...]:
    """By Householder's reflections, in every mode."""
    x, mode = call.tensor("A"), str(call["mode"])
    matrices, count = matrices_of(b, x)
    many, rows, columns = matrices.shape
    # Squares of numbers far from 1 would leave the range.
    largest = fold(b, b.reshape(b.unary("abs", matrices), (many, rows * columns)), "max", [1])
    largest = b.reshape(largest, (many, 1, 1))
    scale = b.where(is_zero(b, largest), b.scalar(1.0, DType.F32), largest)
    made, reflections = _reflections(b, b.binary("div", matrices, scale))
    height = rows if mode == "complete" else count
    upper = b.binary("mul", _triangle(b, b.slice(made, 1, 0, height), upper=True), scale)
    upper = b.reshape(upper, (*x.shape[:-2], height, columns))
    if mode == "r":
        return b.constant(np.empty(call.shape, "<f4")), upper
    turned = _identity(b, rows, height, many)
    for direction, factor in reversed(reflections):
        turned = _reflect(b, turned, direction, factor)
    return b.reshape(turned, (*x.shape[:-2], rows, height)), upper
