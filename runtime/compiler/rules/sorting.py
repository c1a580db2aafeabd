"""Lowers sort, topk, and what a sorted row answers: medians, the most frequent value.

The kernels sort rows; another dimension is moved to the end and back.  NaN is greater than any number, and of equal
values the one with the lower index comes first.
"""

from collections.abc import Callable

from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules.reduction import fold, last_index
from alcove.runtime.compiler.rules.registry import Call, Refused, rule
from alcove.runtime.compiler.scratch import scratch_bytes
from alcove.runtime.compiler.sizes import whole
from alcove.runtime.format.attributes import (
    ArangeAttributes,
    GatherAttributes,
    IndexSelectAttributes,
    ScanExtremeAttributes,
    SortAttributes,
    TopkAttributes,
)
from alcove.runtime.format.spec import DTYPE_BYTES, DType

Ranking = Callable[[Value], tuple[Value, Value]]

_SORTED = frozenset({DType.F32, DType.I32, DType.I64, DType.U8, DType.BOOL})
_RANKED = frozenset({DType.F32, DType.I32, DType.I64})


def sort_rows(b: Builder, x: Value, *, descending: bool) -> tuple[Value, Value]:
    """Return each row of `x` sorted, and the indices that its values had."""
    wide = x if x.dtype in _SORTED else b.cast(x, DType.I32)
    scratch = scratch_bytes("sort", count=x.shape[-1], element_bytes=DTYPE_BYTES[wide.dtype])
    values, indices, _ = b.ops(
        "sort",
        [wide],
        [(wide.dtype, x.shape), (DType.I64, x.shape), (DType.U8, (scratch,))],
        SortAttributes(is_descending=int(descending)),
    )
    return b.cast(values, x.dtype), indices


@rule("aten.sort.default", "aten.sort.stable")
def sort(call: Call, b: Builder) -> tuple[Value, ...]:
    """Along any dimension; always stable."""
    return _along(call, b, lambda x: sort_rows(b, x, descending=bool(call["descending"])))


@rule("aten.topk.default")
def topk(call: Call, b: Builder) -> tuple[Value, ...]:
    """Along any dimension, greatest or least; always sorted."""
    k, is_largest = whole(call["k"]), int(call["largest"])
    if k == 0:
        raise Refused("topk with k of at least 1")

    def rank(x: Value) -> tuple[Value, Value]:
        wide = x if x.dtype in _RANKED else b.cast(x, DType.I32)
        shape = (*x.shape[:-1], k)
        attributes = TopkAttributes(k=k, is_largest=is_largest)
        values, indices = b.ops("topk", [wide], [(wide.dtype, shape), (DType.I64, shape)], attributes)
        return b.cast(values, x.dtype), indices

    return _along(call, b, rank)


@rule("aten.kthvalue.default")
def kth_value(call: Call, b: Builder) -> tuple[Value, ...]:
    """The k-th least of a dimension, k from 1."""
    return _along(call, b, lambda x: _pick(b, sort_rows(b, x, descending=False), whole(call["k"]) - 1))


@rule("aten.median.dim")
def median_of_dimension(call: Call, b: Builder) -> tuple[Value, ...]:
    """The lower of the middle two; a NaN wins."""
    return _along(call, b, lambda x: _median(b, x))


@rule("aten.median.default")
def median(call: Call, b: Builder) -> Value:
    """Of all elements."""
    return _of_all(call, b, _median)


@rule("aten.nanmedian.dim")
def median_of_numbers_of_dimension(call: Call, b: Builder) -> tuple[Value, ...]:
    """The lower of the middle two, NaN left out."""
    return _along(call, b, lambda x: _median_of_numbers(b, x))


@rule("aten.nanmedian.default")
def median_of_numbers(call: Call, b: Builder) -> Value:
    """Of all elements but NaN."""
    return _of_all(call, b, _median_of_numbers)


@rule("aten.mode.default")
def most_frequent(call: Call, b: Builder) -> tuple[Value, ...]:
    """The least of the most frequent values of a dimension, and the last place where it stands; NaN equal nothing."""
    return _along(call, b, lambda x: _most_frequent(b, x))


def _along(call: Call, b: Builder, ranking: Ranking) -> tuple[Value, ...]:
    """Return what `ranking` makes of the rows along the call's dimension, as torch shapes it.

    A result whose last dimension has the size 1 and that torch gives without it is one value a row.
    """
    x = call.tensor("self")
    rank = len(x.shape)
    if rank == 0:
        values, indices = ranking(b.reshape(x, (1,)))
        return b.reshape(values, ()), b.reshape(indices, ())
    axis = call.axis("dim", rank)
    order = [d for d in range(rank) if d != axis]
    results = ranking(b.permute(x, (*order, axis)))
    if len(call.shape) < rank:
        return tuple(b.reshape(value, call.shape) for value in results)
    back = [*range(axis), rank - 1, *range(axis, rank - 1)]
    return tuple(b.permute(value, back) for value in results)


def _of_all(call: Call, b: Builder, ranking: Callable[[Builder, Value], tuple[Value, Value]]) -> Value:
    x = call.tensor("self")
    count = 1
    for size in x.shape:
        count *= size
    return b.reshape(ranking(b, b.reshape(x, (count,)))[0], ())


def _pick(b: Builder, rank: tuple[Value, Value], index: int) -> tuple[Value, Value]:
    values, indices = rank
    axis = len(values.shape) - 1
    return b.slice(values, axis, index, index + 1), b.slice(indices, axis, index, index + 1)


def _median(b: Builder, x: Value) -> tuple[Value, Value]:
    rank = sort_rows(b, x, descending=False)
    count = x.shape[-1]
    middle = b.binary("floor_div", last_index(b, count), b.scalar(2, DType.I64))
    shape = (*x.shape[:-1], 1)
    axis = len(x.shape) - 1
    place = b.reshape(middle, (1,))
    row = IndexSelectAttributes(axis=axis, wraps=0)
    value, index = (b.op("index_select", [part, place], part.dtype, shape, row) for part in rank)
    if x.dtype is not DType.F32:
        return value, index
    greatest, _ = _pick(b, rank, count - 1)
    has_nan = b.unary("isnan", greatest, dtype=DType.BOOL)
    first = fold(b, x, "argmax", [axis], keeps=True)
    return b.where(has_nan, greatest, value), b.where(has_nan, first, index)


def _median_of_numbers(b: Builder, x: Value) -> tuple[Value, Value]:
    if x.dtype is not DType.F32:
        return _median(b, x)
    values, indices = sort_rows(b, x, descending=False)
    axis = len(x.shape) - 1
    is_nan = b.cast(b.unary("isnan", x, dtype=DType.BOOL), DType.I64)
    # (numbers - 1) // 2 is the lower middle; where all are NaN, the first.
    last = b.binary("sub", last_index(b, x.shape[-1]), fold(b, is_nan, "sum", [axis], keeps=True))
    at_least_none = b.binary("maximum", last, b.scalar(0, DType.I64))
    middle = b.binary("floor_div", at_least_none, b.scalar(2, DType.I64))
    along = GatherAttributes(axis=axis)
    value = b.op("gather", [values, middle], DType.F32, middle.shape, along)
    return value, b.op("gather", [indices, middle], DType.I64, middle.shape, along)


def _most_frequent(b: Builder, x: Value) -> tuple[Value, Value]:
    """In sorted rows the longest run of one value: the first place that is farthest from where its run begins."""
    values, indices = sort_rows(b, x, descending=False)
    axis, count = len(x.shape) - 1, x.shape[-1]
    places = b.expand(b.op("arange", [], DType.I64, (count,), ArangeAttributes(start=0.0, step=1.0)), x.shape)
    along, zero, one = GatherAttributes(axis=axis), b.scalar(0, DType.I64), b.scalar(1, DType.I64)
    before = b.binary("maximum", b.binary("sub", places, one), zero)
    is_new = b.binary("ne", values, b.op("gather", [values, before], values.dtype, x.shape, along), DType.BOOL)
    begin, _ = b.ops(
        "scan_extreme",
        [b.where(is_new, places, zero)],
        [(DType.I64, x.shape), (DType.I64, x.shape)],
        ScanExtremeAttributes(is_greatest=1, axis=axis),
    )
    last = fold(b, b.binary("sub", places, begin), "argmax", [axis], keeps=True)
    found = [b.op("gather", [part, last], part.dtype, last.shape, along) for part in (values, indices)]
    return found[0], found[1]
