"""Lowers reads and writes at places that data names: rows, elements, boundaries.

Indices are compared with their bounds in the run: one that is out of range is an `InputError`, as it is one in torch.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules.movement import MAX_RANK, fill_tensor
from alcove.runtime.compiler.rules.registry import Call, Refused, rule, usable
from alcove.runtime.compiler.sizes import broadcast_shapes
from alcove.runtime.format.attributes import (
    GatherAttributes,
    IndexPutAttributes,
    IndexSelectAttributes,
    RavelMultiIndexAttributes,
    ScanAttributes,
    ScatterAttributes,
    SearchsortedAttributes,
)
from alcove.runtime.format.spec import DType

SET, ADD, MUL, AMAX, AMIN = range(5)
"""Modes of the scatters, kernels/microkernels/scatter/scatter.h."""
_MODES = {"sum": ADD, "add": ADD, "prod": MUL, "multiply": MUL, "amax": AMAX, "amin": AMIN}
RUNNING_SUM = 0
"""Function of `scan`, kernels/microkernels/scan/scan.h."""
_COMBINED = (DType.F32, DType.I32, DType.I64)
"""Types that the scatters can combine; others take the way through int64."""


# -- what the rules are made of ---------------------------------------------------------------------------------------


def select_rows(b: Builder, x: Value, indices: Value, axis: int, *, wraps: bool) -> Value:
    """Return `x` with dimension `axis` replaced by the rows that `indices` name, and by their shape."""
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    if len(shape) > MAX_RANK:
        flat = b.reshape(indices, (math.prod(indices.shape),))
        return b.reshape(select_rows(b, x, flat, axis, wraps=wraps), shape)
    return b.op("index_select", [x, indices], x.dtype, shape, IndexSelectAttributes(axis=axis, wraps=int(wraps)))


@dataclass(frozen=True)
class _Form:
    """What a scatter does: the runtime's op, its dimension, whether the input takes part, and whether indices wrap."""

    op: str
    axis: int
    includes_self: bool = True
    wraps: bool = False

    def attributes(self, mode: int) -> ScatterAttributes | IndexPutAttributes:
        """Return the op's attributes."""
        includes_self = int(self.includes_self)
        if self.op == "scatter":
            return ScatterAttributes(axis=self.axis, mode=mode, includes_self=includes_self)
        return IndexPutAttributes(axis=self.axis, mode=mode, includes_self=includes_self, wraps=int(self.wraps))


def _combine(b: Builder, form: _Form, mode: int, tensors: tuple[Value, Value, Value]) -> Value:
    """Return the first tensor with the third written or combined where the second says."""
    x, indices, source = tensors
    if mode != SET and x.dtype not in _COMBINED:
        return b.cast(_combine(b, form, mode, (b.cast(x, DType.I64), indices, b.cast(source, DType.I64))), x.dtype)
    source = b.cast(source, x.dtype)
    return b.op(form.op, [x, indices, source], x.dtype, x.shape, form.attributes(mode))


def _reduce(b: Builder, form: _Form, reduce: str, tensors: tuple[Value, Value, Value]) -> Value:
    """Combine by torch's name: the mean is a sum and a count."""
    if reduce != "mean":
        return _combine(b, form, _MODES[reduce], tensors)
    x, indices, source = tensors
    total = _combine(b, form, ADD, tensors)
    start, ones = fill_tensor(b, x.shape, form.includes_self, x.dtype), fill_tensor(b, source.shape, 1, x.dtype)
    count = _combine(b, replace(form, includes_self=True), ADD, (start, indices, ones))
    count = b.binary("maximum", count, fill_tensor(b, (), 1, x.dtype))
    return b.binary("div" if x.dtype is DType.F32 else "floor_div", total, count)


def _with_rank(b: Builder, value: Value) -> Value:
    """Return a scalar as a vector of one, anything else as it is."""
    return b.reshape(value, (1,)) if not value.shape else value


# -- along one dimension ----------------------------------------------------------------------------------------------


@rule("aten.index_select.default")
def index_select(call: Call, b: Builder) -> Value:
    """Rows by number."""
    x = _with_rank(b, call.tensor("self"))
    axis = call.axis("dim", len(x.shape))
    return b.reshape(select_rows(b, x, _with_rank(b, call.tensor("index")), axis, wraps=False), call.shape)


@rule("aten.embedding.default")
def embedding(call: Call, b: Builder) -> Value:
    """Rows of a table; `padding_idx` is for training."""
    return select_rows(b, call.tensor("weight"), call.tensor("indices"), 0, wraps=False)


@rule("aten.gather.default")
def gather(call: Call, b: Builder) -> Value:
    """One element for each index, at the index's own place but for `dim`."""
    x, indices = _with_rank(b, call.tensor("self")), _with_rank(b, call.tensor("index"))
    along = GatherAttributes(axis=call.axis("dim", len(x.shape)))
    result = b.op("gather", [x, indices], x.dtype, indices.shape, along)
    return b.reshape(result, call.shape)


@rule("aten.take.default", keep=True)
def take_flat(call: Call, b: Builder) -> Value:
    """Elements by their number in row-major order."""
    x = call.tensor("self")
    return select_rows(b, b.reshape(x, (math.prod(x.shape),)), call.tensor("index"), 0, wraps=True)


@rule(
    "aten.scatter.src",
    "aten.scatter.value",
    "aten.scatter.reduce",
    "aten.scatter.value_reduce",
    "aten.scatter_add.default",
    "aten.scatter_reduce.two",
)
def scatter(call: Call, b: Builder) -> Value:
    """One element for each index is written or combined, at the index's own place but for `dim`."""
    indices = call.tensor("index")
    if 0 in indices.shape:
        return call.tensor("self")
    x, indices = _with_rank(b, call.tensor("self")), _with_rank(b, indices)
    if "src" in call.arguments:
        source = _with_rank(b, call.tensor("src"))
    else:
        source = fill_tensor(b, indices.shape, call["value"], x.dtype)
    form = _Form("scatter", call.axis("dim", len(x.shape)), call.arguments.get("include_self", True))
    if "reduce" in call.arguments:
        result = _reduce(b, form, call["reduce"], (x, indices, source))
    else:
        mode = ADD if "scatter_add" in call.target else SET
        result = _combine(b, form, mode, (x, indices, source))
    return b.reshape(result, call.shape)


@rule(
    "aten.index_add.default",
    "aten.index_copy.default",
    "aten.index_fill.int_Scalar",
    "aten.index_fill.int_Tensor",
    "aten.index_reduce.default",
    keep=True,
)
def index_write(call: Call, b: Builder) -> Value:
    """Rows by number are written or combined."""
    indices = call.tensor("index")
    if 0 in indices.shape:
        return call.tensor("self")
    x, indices = _with_rank(b, call.tensor("self")), _with_rank(b, indices)
    axis = call.axis("dim", len(x.shape))
    shape = (*x.shape[:axis], indices.shape[0], *x.shape[axis + 1 :])
    is_fill = "index_fill" in call.target
    if not is_fill:
        source = b.reshape(call.tensor("source"), shape)
    elif isinstance(call["value"], Value):
        source = b.expand(b.cast(call.tensor("value"), x.dtype), shape)
    else:
        source = fill_tensor(b, shape, call["value"], x.dtype)
    if (alpha := call.arguments.get("alpha", 1)) != 1:
        source = b.binary("mul", source, fill_tensor(b, (), alpha, source.dtype))
    form = _Form("index_put", axis, call.arguments.get("include_self", True), is_fill)
    if "reduce" in call.arguments:
        result = _reduce(b, form, call["reduce"], (x, indices, source))
    else:
        mode = ADD if "index_add" in call.target else SET
        result = _combine(b, form, mode, (x, indices, source))
    return b.reshape(result, call.shape)


@rule("aten.put.default")
def put(call: Call, b: Builder) -> Value:
    """Elements by their number in row-major order are written or added."""
    x, indices = call.tensor("self"), call.tensor("index")
    flat, places = (b.reshape(value, (math.prod(value.shape),)) for value in (x, indices))
    source = b.reshape(call.tensor("source"), places.shape)
    mode = ADD if call["accumulate"] else SET
    form = _Form("index_put", 0, wraps=True)
    return b.reshape(_combine(b, form, mode, (flat, places, source)), x.shape)


@rule("aten.one_hot.default", keep=True)
def one_hot(call: Call, b: Builder) -> Value:
    """Zeros with a one where the class is."""
    x, classes = call.tensor("self"), int(call["num_classes"])
    if classes < 1:
        raise Refused("one_hot with num_classes: without it the size of the result depends on data")
    count = math.prod(x.shape)
    inputs = [
        fill_tensor(b, (count, classes), 0, DType.I64),
        b.reshape(x, (count, 1)),
        fill_tensor(b, (count, 1), 1, DType.I64),
    ]
    attributes = ScatterAttributes(axis=1, mode=SET, includes_self=1)
    return b.reshape(b.op("scatter", inputs, DType.I64, (count, classes), attributes), call.shape)


# -- along several dimensions -----------------------------------------------------------------------------------------


class _Places:
    """The elements that a list of index tensors, some of them None, names.

    The indexed dimensions are made one, in which `indices` count; where they don't stand together they come first, as
    torch puts them.
    """

    def __init__(self, b: Builder, x: Value, argument: Sequence[Any]) -> None:
        axes = [axis for axis, value in enumerate(argument) if value is not None]
        tensors = [usable(argument[axis]) for axis in axes]
        if any(value.dtype not in (DType.I32, DType.I64) for value in tensors):
            raise Refused("indices of int64 or int32; how many elements a mask picks depends on data: use torch.where")
        together = axes == list(range(axes[0], axes[0] + len(axes)))
        rest = [axis for axis in range(len(x.shape)) if axis not in axes]
        self.order = [*range(len(x.shape))] if together else [*axes, *rest]
        self.axis = axes[0] if together else 0
        moved = b.permute(x, self.order)
        end = self.axis + len(axes)
        self.moved_shape = moved.shape
        self.outer, self.row = moved.shape[: self.axis], moved.shape[end:]
        bounds = moved.shape[self.axis : end]
        self.rows = b.reshape(moved, (*self.outer, math.prod(bounds), *self.row))
        self.shape = broadcast_shapes(*(value.shape for value in tensors))
        spread = [b.expand(value, self.shape) for value in tensors]
        self.indices = spread[0] if len(spread) == 1 else _linear(b, spread, bounds)


def _linear(b: Builder, indices: Sequence[Value], bounds: Sequence[int]) -> Value:
    return b.op(
        "ravel_multi_index", indices, DType.I64, indices[0].shape, RavelMultiIndexAttributes(bounds=tuple(bounds))
    )


@rule("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index(call: Call, b: Builder) -> Value:
    """What `x[i, j, ...]` gives, indices broadcast against each other."""
    places = _Places(b, call.tensor("self"), call["indices"])
    return b.reshape(select_rows(b, places.rows, places.indices, places.axis, wraps=True), call.shape)


@rule("aten.index_put.default", "aten._unsafe_index_put.default")
def index_put(call: Call, b: Builder) -> Value:
    """What `x[i, j, ...] = values` leaves; a mask of bools as the one index chooses with `where`."""
    x, values, argument = call.tensor("self"), call.tensor("values"), call["indices"]
    masks = [value for value in argument if isinstance(value, Value) and value.dtype in (DType.BOOL, DType.U8)]
    if masks:
        return _put_where(call, b, x, masks)
    if any(isinstance(value, Value) and 0 in value.shape for value in argument):
        return x
    places = _Places(b, x, argument)
    shape = (*places.outer, *places.shape, *places.row)
    # Torch puts the broadcast indices first where the indexed dimensions don't stand together: so stands `rows`.
    source = b.expand(b.cast(values, x.dtype), shape)
    flat = b.reshape(places.indices, (math.prod(places.shape),))
    source = b.reshape(source, (*places.outer, *flat.shape, *places.row))
    mode = ADD if call["accumulate"] else SET
    result = _combine(b, _Form("index_put", places.axis, wraps=True), mode, (places.rows, flat, source))
    back = [places.order.index(axis) for axis in range(len(places.order))]
    return b.permute(b.reshape(result, places.moved_shape), back)


def _put_where(call: Call, b: Builder, x: Value, masks: Sequence[Value]) -> Value:
    values, argument = call.tensor("values"), call["indices"]
    mask = masks[0]
    if argument[0] is not mask or len([value for value in argument if value is not None]) > 1:
        raise Refused("a mask as the only index, over the first dimensions")
    row = x.shape[len(mask.shape) :]
    shape = values.shape
    if len(shape) == len(row) + 1 and shape[0] == 1:
        shape = shape[1:]
    if len(shape) > len(row):
        raise Refused("with a mask, one value for all places that it names: how many they are depends on data")
    values = b.reshape(b.cast(values, x.dtype), shape)
    if call["accumulate"]:
        values = b.binary("bitwise_or" if x.dtype is DType.BOOL else "add", x, values)
    mask = b.reshape(b.cast(mask, DType.BOOL), mask.shape + (1,) * len(row))
    return b.expand(b.where(mask, values, x), x.shape)


@rule("aten.masked_scatter.default")
def masked_scatter(call: Call, b: Builder) -> Value:
    """The source's elements in order, where the mask holds: the number of holds so far says which one."""
    x, source = call.tensor("self"), call.tensor("source")
    if 0 in source.shape:
        raise Refused("a source with elements")
    mask, x = b.expand(b.cast(call.tensor("mask"), DType.BOOL), call.shape), b.expand(x, call.shape)
    flat = b.reshape(b.cast(mask, DType.I64), (math.prod(call.shape),))
    held = b.op("scan", [flat], DType.I64, flat.shape, ScanAttributes(function=RUNNING_SUM, axis=0))
    which = b.binary(
        "maximum", b.binary("sub", held, fill_tensor(b, (), 1, DType.I64)), fill_tensor(b, (), 0, DType.I64)
    )
    elements = select_rows(b, b.reshape(source, (math.prod(source.shape),)), which, 0, wraps=False)
    return b.where(mask, b.reshape(b.cast(elements, x.dtype), x.shape), x)


# -- between boundaries -----------------------------------------------------------------------------------------------


@rule(
    "aten.bucketize.Tensor",
    "aten.bucketize.Scalar",
    "aten.searchsorted.Tensor",
    "aten.searchsorted.Scalar",
)
def search_sorted(call: Call, b: Builder) -> Value:
    """The first boundary that a value doesn't exceed, or (right) the first that exceeds it."""
    boundaries = call.tensor("boundaries" if "boundaries" in call.arguments else "sorted_sequence")
    if (sorter := call.optional("sorter") if "sorter" in call.arguments else None) is not None:
        along = GatherAttributes(axis=len(sorter.shape) - 1)
        boundaries = b.op("gather", [boundaries, sorter], boundaries.dtype, sorter.shape, along)
    argument = call["self"]
    if isinstance(argument, Value):
        values = call.tensor("self")
    else:
        is_real = isinstance(argument, float) or boundaries.dtype is DType.F32
        values = fill_tensor(b, (), argument, DType.F32 if is_real else boundaries.dtype)
    kinds = {boundaries.dtype, values.dtype}
    common = DType.F32 if DType.F32 in kinds else DType.I64
    boundaries, values = b.cast(boundaries, common), b.cast(values, common)
    if len(boundaries.shape) > 1 and len(values.shape) != len(boundaries.shape):
        raise Refused("values of the boundaries' rank, or boundaries of rank 1")
    is_right = bool(call["right"]) or call.arguments.get("side") == "right"
    result = b.op(
        "searchsorted", [boundaries, values], DType.I64, values.shape, SearchsortedAttributes(is_right=int(is_right))
    )
    return b.cast(result, call.dtype)
