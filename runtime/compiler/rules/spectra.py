"""Lowers singular values, eigenvalues of symmetric matrices, ranks and pseudoinverses of small matrices.

Hestenes' method, written out: every pair of columns is turned until both are orthogonal (one-sided Jacobi rotations);
half of the columns meet the other half at once, and then all change places, as in a tournament.  What is left are the
singular values, as lengths, and the right singular vectors, as all turns together.

Vectors by themselves are no results: their signs follow from no rule that eager mode keeps either.
"""

import math
from typing import Final

import numpy as np
from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules.linear_algebra import is_zero, matrices_of, refuse_where, spread, transpose
from alcove.runtime.compiler.rules.matmul import matmul
from alcove.runtime.compiler.rules.reduction import fold
from alcove.runtime.compiler.rules.registry import Call, Refused, rule
from alcove.runtime.compiler.rules.sorting import sort_rows
from alcove.runtime.format.attributes import IndexSelectAttributes
from alcove.runtime.format.spec import DType

MAX_COLUMNS: Final = 6
"""Of the lesser dimension: six columns take five rounds a sweep, each of about thirty steps of a program."""
_SWEEPS: Final = {2: 2, 4: 6, 6: 7}
"""By the number of columns, made even.  Convergence is quadratic; a test shows that two sweeps fewer are enough."""
VECTORS: Final = (
    "eigenvectors and singular vectors have signs that follow from no rule: use what has none (eigenvalues, singular "
    "values, pinv, matrix_rank), or compute them outside the program"
)


def _sum_rows(b: Builder, x: Value, y: Value) -> Value:
    return fold(b, b.binary("mul", x, y), "sum", [1], keeps=True)


def _turn(b: Builder, x: Value, rows: int) -> Value:
    """Return `x` with its left half of columns made orthogonal to its right half, as far as the first rows go."""
    half = x.shape[2] // 2
    left, right = b.slice(x, 2, 0, half), b.slice(x, 2, half, 2 * half)
    first, second = b.slice(left, 1, 0, rows), b.slice(right, 1, 0, rows)
    zero, one = b.scalar(0.0, DType.F32), b.scalar(1.0, DType.F32)
    product = _sum_rows(b, first, second)
    difference = b.binary("sub", _sum_rows(b, second, second), _sum_rows(b, first, first))
    is_done = is_zero(b, product)
    doubled = b.where(is_done, one, b.binary("add", product, product))
    ratio = b.binary("div", difference, doubled)
    root = b.unary("sqrt", b.binary("add", b.binary("mul", ratio, ratio), one))
    size = b.binary("div", one, b.binary("add", b.unary("abs", ratio), root))
    tangent = b.where(b.binary("lt", ratio, zero, DType.BOOL), b.unary("neg", size), size)
    tangent = b.where(is_done, zero, tangent)
    cosine = b.unary("rsqrt", b.binary("add", b.binary("mul", tangent, tangent), one))
    sine = b.binary("mul", cosine, tangent)
    turned = [
        b.binary("sub", b.binary("mul", cosine, left), b.binary("mul", sine, right)),
        b.binary("add", b.binary("mul", sine, left), b.binary("mul", cosine, right)),
    ]
    return b.concat(turned, 2)


def _change_partners(b: Builder, x: Value) -> Value:
    """Return `x` with columns in other places, so that each meets each other one in as many rounds as there are."""
    count = x.shape[2]
    half = count // 2
    left, right = list(range(half)), list(range(half, count))
    order = [left[0], right[0], *left[1:-1], *right[1:], left[-1]]
    attributes = IndexSelectAttributes(axis=2, wraps=0)
    return b.op("index_select", [x, b.constant(np.array(order))], x.dtype, x.shape, attributes)


def _decompose(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """Return what is left of tall matrices [batch, rows, n] with orthogonal columns, all turns [batch, n, n], lengths.

    The matrix is the first times the transpose of the second; n is made even by a column of zeros, and the lengths are
    [batch, 1, n].
    """
    batch, rows, columns = x.shape
    count = columns + columns % 2
    zeros = [spread(b, b.scalar(0.0, DType.F32, (1, rows, 1)), (batch, rows, 1))] if columns % 2 else []
    turns = spread(b, b.constant(np.eye(count, dtype="<f4")[None]), (batch, count, count))
    both = b.concat([b.concat([x, *zeros], 2), turns], 1)
    for _ in range(_SWEEPS[count] * (count - 1)):
        both = _turn(b, both, rows)
        both = _change_partners(b, both) if count > 2 else both
    left = b.slice(both, 1, 0, rows)
    return left, b.slice(both, 1, rows, rows + count), b.unary("sqrt", _sum_rows(b, left, left))


def _scale(b: Builder, x: Value) -> tuple[Value, Value]:
    """Return tall matrices [batch, rows, columns] by their largest elements, and those [batch, 1, 1]; all are finite.

    Squares of numbers far from 1 would leave the range.
    """
    matrices, _ = matrices_of(b, x)
    if min(matrices.shape[1:]) > MAX_COLUMNS:
        raise Refused(f"of an input, matrices of at most {MAX_COLUMNS} rows or columns; of a parameter or buffer, any")
    is_wrong = b.unary("logical_not", b.unary("isfinite", matrices, dtype=DType.BOOL))
    matrices = refuse_where(b, matrices, is_wrong)
    tall = transpose(b, matrices) if matrices.shape[1] < matrices.shape[2] else matrices
    many = matrices.shape[0]
    flat = b.reshape(b.unary("abs", tall), (many, math.prod(tall.shape[1:])))
    largest = b.reshape(fold(b, flat, "max", [1]), (many, 1, 1))
    scale = b.where(is_zero(b, largest), b.scalar(1.0, DType.F32), largest)
    return b.binary("div", tall, scale), scale


def _symmetric(b: Builder, x: Value, *, upper: bool) -> Value:
    """Return matrices made symmetric by one of their triangles."""
    count = x.shape[-1]
    turned = transpose(b, x)
    mask = np.triu(np.ones((count, count), "?")) if upper else np.tril(np.ones((count, count), "?"))
    return b.where(b.constant(mask), x, turned)


def _descending(b: Builder, lengths: Value, count: int) -> Value:
    """Return the greatest of [batch, 1, n] first, [batch, count]."""
    flat = b.reshape(lengths, (lengths.shape[0], lengths.shape[2]))
    return b.slice(sort_rows(b, flat, descending=True)[0], 1, 0, count)


@rule("aten._linalg_svd.default")
def singular_values(call: Call, b: Builder) -> tuple[Value, ...]:
    """The greatest first; vectors are refused where they are used."""
    x = call.tensor("A")
    scaled, scale = _scale(b, x)
    _, _, lengths = _decompose(b, scaled)
    count = min(x.shape[-2:])
    values = _descending(b, b.binary("mul", lengths, scale), count)
    vectors = [(DType.F32, result.shape) for result in (call.results[0], call.results[2])]
    left, right = b.add_refused(call.target, [x], vectors, (), VECTORS)
    return left, b.reshape(values, call.results[1].shape), right


@rule("aten._linalg_eigh.default")
def eigenvalues(call: Call, b: Builder) -> tuple[Value, ...]:
    """The least first: singular values of what is made positive by a multiple of the identity, less it."""
    x = call.tensor("A")
    symmetric = _symmetric(b, x, upper=str(call["UPLO"]).upper() == "U")
    scaled, scale = _scale(b, symmetric)
    count = x.shape[-1]
    shift = fold(b, fold(b, b.unary("abs", scaled), "sum", [1], keeps=True), "max", [2], keeps=True)
    identity = b.constant(np.eye(count, dtype="<f4")[None])
    _, _, lengths = _decompose(b, b.binary("add", scaled, b.binary("mul", shift, identity)))
    many = scaled.shape[0]
    greatest = b.reshape(_descending(b, lengths, count), (many, 1, count))
    values = b.binary("mul", b.binary("sub", greatest, shift), scale)
    ascending = b.copy_strided(values, (many, count), (count, -1), count - 1)
    (vectors,) = b.add_refused(call.target, [x], [(DType.F32, call.results[1].shape)], (), VECTORS)
    return b.reshape(ascending, call.shape), vectors


def _tolerance(call: Call, b: Builder, greatest: Value) -> Value:
    """Return which lengths count as 0, for [batch, 1, 1] greatest ones."""
    x = call.tensor("self" if "self" in call.arguments else "input")
    given = {name: call.arguments.get(name) for name in ("atol", "rtol")}
    parts = {
        name: b.cast(value, DType.F32) if isinstance(value, Value) else b.scalar(float(value), DType.F32)
        for name, value in given.items()
        if value is not None
    }
    if any(math.prod(part.shape) != 1 for part in parts.values()):
        raise Refused("one tolerance for all matrices")
    if "rtol" not in parts and "atol" not in parts:
        parts["rtol"] = b.scalar(float(np.finfo("f4").eps) * max(x.shape[-2:]), DType.F32)
    parts = {name: b.reshape(part, (1, 1, 1)) for name, part in parts.items()}
    if "rtol" not in parts:
        return parts["atol"]
    relative = b.binary("mul", greatest, parts["rtol"])
    return b.binary("maximum", relative, parts["atol"]) if "atol" in parts else relative


def _lengths_that_count(call: Call, b: Builder) -> tuple[Value, Value, Value, Value, Value]:
    """Return the decomposition of the call's matrices, their scale, and which lengths are above the tolerance."""
    x = call.tensor("self" if "self" in call.arguments else "input")
    scaled, scale = _scale(b, _symmetric(b, x, upper=False) if call["hermitian"] else x)
    left, turns, lengths = _decompose(b, scaled)
    real = b.binary("mul", lengths, scale)
    limit = _tolerance(call, b, fold(b, real, "max", [2], keeps=True))
    return left, turns, lengths, scale, b.binary("gt", real, limit, DType.BOOL)


@rule("aten.linalg_pinv.atol_rtol_tensor")
def pseudoinverse(call: Call, b: Builder) -> Value:
    """Directions whose singular value is within the tolerance are left out."""
    x = call.tensor("self")
    left, turns, lengths, scale, counts = _lengths_that_count(call, b)
    squares = b.where(counts, b.binary("mul", lengths, lengths), b.scalar(1.0, DType.F32))
    factors = b.where(counts, b.binary("div", b.scalar(1.0, DType.F32), squares), b.scalar(0.0, DType.F32))
    made = matmul(b, b.binary("mul", turns, factors), left, is_transposed=True)
    rows, columns = x.shape[-2:]
    made = b.binary("div", b.slice(made, 1, 0, min(rows, columns)), scale)
    return b.reshape(transpose(b, made) if rows < columns else made, call.shape)


@rule("aten.linalg_matrix_rank.atol_rtol_tensor", "aten.linalg_matrix_rank.atol_rtol_float", keep=True)
def matrix_rank(call: Call, b: Builder) -> Value:
    """How many singular values are above the tolerance."""
    *_, counts = _lengths_that_count(call, b)
    return b.reshape(fold(b, b.cast(counts, DType.I64), "sum", [2]), call.shape)
