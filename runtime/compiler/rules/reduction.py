"""Lowers reductions: sums, means, products, extremes and their places, variances, norms, running totals.

Dimensions that lie side by side are one step, others one step for each group; places (argmax) are asked of one
dimension or of all.
"""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Final

import numpy as np
from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules.registry import Call, Refused, rule
from alcove.runtime.format.attributes import (
    IndexSelectAttributes,
    RavelMultiIndexAttributes,
    ReduceAttributes,
    ScanAttributes,
    ScanExtremeAttributes,
)
from alcove.runtime.format.spec import DType

FOLDS: Final = {"sum": 0, "mean": 1, "prod": 2, "max": 3, "min": 4, "argmax": 5, "argmin": 6}
"""Numbers of the op `reduce`, kernels/microkernels/reduce/reduce.h."""
_RUNNING: Final = {"cumsum": 0, "cumprod": 1, "logcumsumexp": 2}  # functions of the op scan


def fold(b: Builder, x: Value, function: str, axes: Sequence[int], *, keeps: bool = False) -> Value:
    """Return `x` with the dimensions `axes` folded into one element.

    Args:
        b: takes the nodes.
        x: any; F32 or I64 for "sum" and "prod", F32 for "mean".
        function: a key of `FOLDS`; "argmax" and "argmin" give I64 and want adjacent `axes`.
        axes: rising, in [0, rank); empty leaves `x` as it is, and so does a scalar.
        keeps: leave a dimension of 1 for each.
    """
    groups: list[list[int]] = []
    for axis in axes if x.shape else ():
        if groups and groups[-1][-1] == axis - 1:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    shape = list(x.shape)
    value = x
    for group in reversed(groups):
        del shape[group[0] : group[-1] + 1]
        dtype = DType.I64 if function.startswith("arg") else x.dtype
        attributes = ReduceAttributes(function=FOLDS[function], first_axis=group[0], axis_count=len(group))
        value = b.op("reduce", [value], dtype, shape, attributes)
    kept = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    return b.reshape(value, kept) if keeps else value


def last_index(b: Builder, size: int) -> Value:
    """Return the I64 scalar `size - 1`, which follows the sizes where they vary, as a constant could not.

    It is the index -1, brought into [0, size).
    """
    return b.op(
        "ravel_multi_index", [b.scalar(-1, DType.I64)], DType.I64, (), RavelMultiIndexAttributes(bounds=(size,))
    )


def summable(b: Builder, x: Value, dtype: DType) -> Value:
    """Return `x` in the type in which results of `dtype` are summed up: F32 or I64."""
    return b.cast(b.cast(x, dtype), DType.F32 if dtype is DType.F32 else DType.I64)


@rule("aten.sum.dim_IntList", "aten.mean.dim")
@rule("aten.sum.default", "aten.mean.default", "aten.prod.default", keep=True)
def total(call: Call, b: Builder) -> Value:
    """Over some dimensions or all."""
    x = call.tensor("self")
    axes = call.axes("dim", len(x.shape)) if "dim" in call.arguments else tuple(range(len(x.shape)))
    keeps = bool(call.arguments.get("keepdim", False))
    name = call.target.split(".")[1]
    return b.cast(fold(b, summable(b, x, call.dtype), name, axes, keeps=keeps), call.dtype)


@rule("aten.prod.dim_int")
def product(call: Call, b: Builder) -> Value:
    """Over one dimension."""
    x = call.tensor("self")
    folded = fold(b, summable(b, x, call.dtype), "prod", _one_axis(call, x), keeps=call["keepdim"])
    return b.cast(folded, call.dtype)


@rule("aten.amax.default", "aten.amin.default", "aten.max.default", "aten.min.default")
def extreme(call: Call, b: Builder) -> Value:
    """Over some dimensions or all; NaN wins."""
    x = call.tensor("self")
    axes = call.axes("dim", len(x.shape)) if "dim" in call.arguments else tuple(range(len(x.shape)))
    return fold(b, x, call.target.split(".")[1].removeprefix("a"), axes, keeps=call.arguments.get("keepdim", False))


@rule("aten.max.dim", "aten.min.dim")
def extreme_and_place(call: Call, b: Builder) -> tuple[Value, ...]:
    """Values and first places over one dimension."""
    x = call.tensor("self")
    axes, name = _one_axis(call, x), call.target.split(".")[1]
    if not axes:
        return x, b.scalar(0, DType.I64)
    return (
        fold(b, x, name, axes, keeps=call["keepdim"]),
        fold(b, x, "arg" + name, axes, keeps=call["keepdim"]),
    )


@rule("aten.aminmax.default", keep=True)
def least_and_greatest(call: Call, b: Builder) -> tuple[Value, ...]:
    """Over one dimension or all."""
    x = call.tensor("self")
    axes = call.axes("dim", len(x.shape))
    return fold(b, x, "min", axes, keeps=call["keepdim"]), fold(b, x, "max", axes, keeps=call["keepdim"])


@rule("aten.argmax.default", "aten.argmin.default")
def place(call: Call, b: Builder) -> Value:
    """The first place over one dimension, or in the flattened tensor."""
    x = call.tensor("self")
    if not x.shape:
        return b.scalar(0, DType.I64)
    axes = call.axes("dim", len(x.shape))
    return b.reshape(fold(b, x, call.target.split(".")[1], axes), call.shape)


@rule("aten.any.default", "aten.any.dim", "aten.any.dims")
@rule("aten.all.default", "aten.all.dim", "aten.all.dims", keep=True)
def truth(call: Call, b: Builder) -> Value:
    """Whether any, or all, are not zero."""
    x = call.tensor("self")
    axes = call.axes("dim", len(x.shape)) if call.arguments.get("dim") is not None else tuple(range(len(x.shape)))
    if x.dtype is not DType.BOOL:
        x = b.binary("ne", x, b.scalar(0, x.dtype), DType.BOOL)
    function = "max" if call.target.startswith("aten.any") else "min"
    return b.cast(fold(b, x, function, axes, keeps=bool(call.arguments.get("keepdim", False))), call.dtype)


# -- spread -------------------------------------------------------------------------------------------------------


@rule("aten.var.correction", "aten.var.dim", "aten.var_mean.correction")
@rule("aten.std.correction", "aten.std_mean.correction", keep=True)
def spread(call: Call, b: Builder) -> Value | tuple[Value, ...]:
    """Variance or deviation, alone or with the mean; any correction."""
    x = call.tensor("self")
    axes = call.axes("dim", len(x.shape))
    count = math.prod(x.shape[axis] for axis in axes)
    if "unbiased" in call.arguments:
        correction = 1.0 if call["unbiased"] else 0.0
    else:
        correction = 1.0 if call["correction"] is None else float(call["correction"])
    mean = fold(b, x, "mean", axes, keeps=True)
    squares = fold(b, b.unary("square", b.binary("sub", x, mean)), "sum", axes, keeps=True)
    variance = b.binary("div", squares, _degrees(b, count, correction))
    name = call.target.split(".")[1]
    result = b.unary("sqrt", variance) if name.startswith("std") else variance
    if not call["keepdim"]:
        result, mean = (b.reshape(value, call.shape) for value in (result, mean))
    return (result, mean) if name.endswith("_mean") else result


def _degrees(b: Builder, count: int, correction: float) -> Value:
    """Return max(0, count - correction) as an F32 scalar."""
    last = b.cast(last_index(b, count), DType.F32)
    if correction == 1:
        return last
    return b.binary("maximum", b.binary("add", last, b.scalar(1 - correction, DType.F32)), b.scalar(0, DType.F32))


# -- norms and distances ------------------------------------------------------------------------------------------


def norm(b: Builder, x: Value, order: float, axes: Sequence[int], *, keeps: bool) -> Value:
    """Return (sum |x|^order)^(1/order) over `axes`.

    Order 0 counts the elements that are not 0; an infinite one gives the greatest or the least |x|.
    """
    if order == 0:
        nonzero = b.cast(b.binary("ne", x, b.scalar(0, x.dtype), DType.BOOL), DType.F32)
        return fold(b, nonzero, "sum", axes, keeps=keeps)
    if order == 2:
        return b.unary("sqrt", fold(b, b.unary("square", x), "sum", axes, keeps=keeps))
    size = b.unary("abs", x)
    if math.isinf(order):
        return fold(b, size, "max" if order > 0 else "min", axes, keeps=keeps)
    if order == 1:
        return fold(b, size, "sum", axes, keeps=keeps)
    powers = b.binary("pow", size, b.scalar(order, DType.F32))
    return b.binary("pow", fold(b, powers, "sum", axes, keeps=keeps), b.scalar(1 / order, DType.F32))


@rule("aten.linalg_vector_norm.default")
def vector_norm(call: Call, b: Builder) -> Value:
    """Of any order."""
    x = b.cast(call.tensor("self"), DType.F32)
    return norm(b, x, float(call["ord"]), call.axes("dim", len(x.shape)), keeps=call["keepdim"])


@rule("aten.norm.Scalar", "aten.norm.ScalarOpt_dim", "aten.norm.ScalarOpt_dim_dtype", keep=True)
def old_norm(call: Call, b: Builder) -> Value:
    """Torch's older name of the same."""
    x = b.cast(call.tensor("self"), DType.F32)
    axes = call.axes("dim", len(x.shape)) if "dim" in call.arguments else tuple(range(len(x.shape)))
    order = 2.0 if call["p"] is None else float(call["p"])
    return norm(b, x, order, axes, keeps=bool(call.arguments.get("keepdim", False)))


@rule("aten.dist.default")
def distance(call: Call, b: Builder) -> Value:
    """The norm of a difference."""
    difference = b.binary("sub", call.tensor("self"), call.tensor("other"))
    return norm(b, difference, float(call["p"]), range(len(difference.shape)), keeps=False)


@rule("aten._cdist_forward.default")
@rule("aten.cdist.default", keep=True)
def distances(call: Call, b: Builder) -> Value:
    """From each of some vectors to each of others: [..., p, m], [..., r, m] → [..., p, r]."""
    x, y = call.tensor("x1"), call.tensor("x2")
    rows = b.reshape(x, (*x.shape[:-1], 1, x.shape[-1]))
    columns = b.reshape(y, (*y.shape[:-2], 1, *y.shape[-2:]))
    difference = b.binary("sub", rows, columns)
    return norm(b, difference, float(call["p"]), [len(difference.shape) - 1], keeps=False)


@rule("aten._pdist_forward.default")
def pair_distances(call: Call, b: Builder) -> Value:
    """From each row to each later row."""
    x = call.tensor("self")
    pairs = np.array(list(combinations(range(x.shape[0]), 2)), np.int64).reshape(-1, 2)
    rows, shape = IndexSelectAttributes(axis=0, wraps=0), (len(pairs), x.shape[1])
    first, second = (
        b.op("index_select", [x, b.constant(np.ascontiguousarray(pairs[:, end]))], x.dtype, shape, rows)
        for end in (0, 1)
    )
    return norm(b, b.binary("sub", first, second), float(call["p"]), [1], keeps=False)


# -- running ------------------------------------------------------------------------------------------------------


@rule("aten.cumsum.default", "aten.cumprod.default", "aten.logcumsumexp.default")
def running_total(call: Call, b: Builder) -> Value:
    """Sums, products or logarithms of sums of exponentials so far."""
    x = summable(b, call.tensor("self"), call.dtype)
    axes = _one_axis(call, x)
    if not axes:
        return b.cast(x, call.dtype)
    attributes = ScanAttributes(function=_RUNNING[call.target.split(".")[1]], axis=axes[0])
    return b.cast(b.op("scan", [x], x.dtype, x.shape, attributes), call.dtype)


@rule("aten.cummax.default", "aten.cummin.default")
def running_extreme(call: Call, b: Builder) -> tuple[Value, ...]:
    """The greatest or least so far and its place."""
    x = call.tensor("self")
    axes = _one_axis(call, x)
    if not axes:
        return x, b.scalar(0, DType.I64)
    wide = b.cast(x, DType.F32 if x.dtype is DType.F32 else DType.I64)
    attributes = ScanExtremeAttributes(is_greatest=int(call.target.startswith("aten.cummax")), axis=axes[0])
    values, places = b.ops("scan_extreme", [wide], [(wide.dtype, x.shape), (DType.I64, x.shape)], attributes)
    return b.cast(values, x.dtype), places


def _one_axis(call: Call, x: Value) -> tuple[int, ...]:
    """Return the dimension `dim` as a list of one; of none for a scalar."""
    return (call.axis("dim", len(x.shape)),) if x.shape else ()


# -- counts -------------------------------------------------------------------------------------------------------


@rule("aten.histc.default")
def histogram(call: Call, b: Builder) -> Value:
    """How many elements lie in each of equal intervals between two numbers; the last one holds its upper end."""
    x, bins, low, high = call.tensor("self"), int(call["bins"]), float(call["min"]), float(call["max"])
    if low >= high:
        raise Refused("histc with min < max given: bounds that are found in the data are not known at export")
    flat = b.cast(b.reshape(x, (1, math.prod(x.shape))), DType.F32)
    lower, upper, last = (b.scalar(number, DType.F32) for number in (low, high, bins - 1))
    scaled = b.binary("mul", b.binary("sub", flat, lower), b.scalar(bins, DType.F32))
    share = b.binary("div", scaled, b.scalar(high - low, DType.F32))
    place = b.binary("minimum", b.unary("floor", share), last)
    from_lower, to_upper = b.binary("ge", flat, lower, DType.BOOL), b.binary("le", flat, upper, DType.BOOL)
    within = b.binary("bitwise_and", from_lower, to_upper)
    intervals = b.constant(np.arange(bins, dtype="<f4").reshape(bins, 1))
    hits = b.binary("bitwise_and", b.binary("eq", place, intervals, DType.BOOL), within)
    return b.cast(b.reshape(fold(b, b.cast(hits, DType.F32), "sum", [1]), (bins,)), call.dtype)
