"""Lowers movements: elements that change their place, and tensors made from nothing.

Nearly all are one `as_strided_copy` or a `reshape`, which costs nothing where the plan lets it share its input's bytes.
"""

import math
from collections.abc import Sequence

import numpy as np
from alcove.runtime.compiler.builder import NUMPY, Builder, row_major_strides
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules.registry import Call, Refused, rule
from alcove.runtime.compiler.sizes import Size, largest, smallest, whole
from alcove.runtime.format.attributes import (
    ArangeAttributes,
    AsStridedScatterAttributes,
    FillAttributes,
    IndexPutAttributes,
    IndexSelectAttributes,
    PadAttributes,
    TrilTriuAttributes,
)
from alcove.runtime.format.spec import DType

MAX_RANK = 8
CONSTANT, REFLECT, REPLICATE, CIRCULAR = range(4)
"""Modes of `pad`, kernels/microkernels/pad/pad.h."""
MAX_DIAGONAL = 2**31 - 1
_ADD = 1
"""Mode of `index_put`, kernels/microkernels/scatter/scatter.h."""


# -- what rules of this and other families are made of ----------------------------------------------------------------


def element_bits(number: float, dtype: DType) -> int:
    """Return the bits of `number` as one element of `dtype`, as `fill` and `pad` take them."""
    if dtype is not DType.F32:
        number = int(number)
    return int.from_bytes(np.array([number]).astype(NUMPY[dtype]).tobytes(), "little")


def fill_tensor(b: Builder, shape: Sequence[int], number: float, dtype: DType) -> Value:
    """Return a tensor with every element `number`, made in the run: it takes no room in the file."""
    return b.op("fill", [], dtype, shape, FillAttributes(bits=element_bits(number, dtype)))


def pad_with(
    b: Builder,
    x: Value,
    before: Sequence[int],
    after: Sequence[int],
    *,
    mode: int = CONSTANT,
    number: float = 0.0,
    varies: bool = False,
) -> Value:
    """Return `x` with margins, numbers of elements >= 0 for each dimension; `number` is for CONSTANT alone.

    Margins that vary are made where they are 0, too.
    """
    if not any(before) and not any(after) and not varies:
        return x
    shape = [front + size + back for front, size, back in zip(before, x.shape, after, strict=True)]
    bits = element_bits(number, x.dtype) if mode == CONSTANT else 0
    attributes = PadAttributes(before=tuple(before), after=tuple(after), mode=mode, bits=bits)
    return b.op("pad", [x], x.dtype, shape, attributes)


def scatter_strided(b: Builder, x: Value, source: Value, strides: Sequence[int], offset: int) -> Value:
    """Return `x` with `flat[offset + sum(i * stride)] = source[i...]`; strides in elements, any sign."""
    attributes = AsStridedScatterAttributes(offset=offset, strides=tuple(strides))
    return b.op("as_strided_scatter", [x, source], x.dtype, x.shape, attributes)


def section(call: Call, size: int) -> tuple[int, int, int]:
    """Return (start, stop, step) of a slice's arguments within a dimension of `size`, as Python counts them."""
    step = int(call["step"])
    start, stop = (_within(call[name], size, default) for name, default in (("start", 0), ("end", size)))
    return start, largest(start, stop), step


def _within(place: int | None, size: int, default: int) -> int:
    """Return a bound of a slice, counted from either end, within a dimension of `size`."""
    if place is None:
        return default
    return smallest(largest(place + size, 0) if place < 0 else whole(place), size)


# -- the same elements ------------------------------------------------------------------------------------------------


@rule(
    "aten.alias.default",
    "aten.alias_copy.default",
    "aten.clone.default",
    "aten.contiguous.default",
    "aten.detach.default",
    "aten.detach_copy.default",
    "aten.dropout.default",
    "aten.lift_fresh.default",
    "aten.lift_fresh_copy.default",
)
def same(call: Call, _b: Builder) -> Value:
    """Hand on the tensor: values are never written over while someone needs them."""
    return call.tensor("input" if "input" in call.arguments else "self")


@rule(
    "aten._reshape_copy.default",
    "aten._unsafe_view.default",
    "aten.reshape.default",
    "aten.squeeze.default",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
    "aten.squeeze_copy.default",
    "aten.squeeze_copy.dim",
    "aten.squeeze_copy.dims",
    "aten.unsqueeze.default",
    "aten.unsqueeze_copy.default",
    "aten.view.default",
    "aten.view_copy.default",
)
def reshape(call: Call, b: Builder) -> Value:
    """Row-major order stays, the shape is torch's."""
    return b.reshape(call.tensor("self"), call.shape)


@rule("aten.copy.default")
def copy(call: Call, b: Builder) -> Value:
    """The source in the type and shape of what it overwrites."""
    return b.expand(b.cast(call.tensor("src"), call.dtype), call.shape)


# -- one strided copy -------------------------------------------------------------------------------------------------


@rule("aten.permute.default", "aten.permute_copy.default")
def permute(call: Call, b: Builder) -> Value:
    """Dimensions in another order."""
    x = call.tensor("self")
    return b.permute(x, [int(axis) % len(x.shape) for axis in call["dims"]])


@rule("aten.t.default", "aten.numpy_T.default")
def reverse(call: Call, b: Builder) -> Value:
    """Dimensions in reverse order."""
    x = call.tensor("self")
    return b.permute(x, tuple(reversed(range(len(x.shape)))))


@rule("aten.transpose.int", "aten.transpose_copy.int")
def transpose(call: Call, b: Builder) -> Value:
    """Two dimensions change places."""
    x = call.tensor("self")
    rank = len(x.shape)
    if rank == 0:
        return x
    first, second = call.axis("dim0", rank), call.axis("dim1", rank)
    order = list(range(rank))
    order[first], order[second] = second, first
    return b.permute(x, order)


@rule("aten.expand.default", "aten.expand_copy.default")
def expand(call: Call, b: Builder) -> Value:
    """Broadcast."""
    return b.expand(call.tensor("self"), call.shape)


@rule("aten.repeat.default")
def repeat(call: Call, b: Builder) -> Value:
    """Copies side by side, dimension by dimension."""
    x = call.tensor("self")
    counts = [whole(count) for count in call["repeats"]]
    x = b.reshape(x, (1,) * (len(counts) - len(x.shape)) + x.shape)
    for axis, count in enumerate(counts):
        outer, row = math.prod(x.shape[:axis]), math.prod(x.shape[axis:])
        shape = (*x.shape[:axis], x.shape[axis] * count, *x.shape[axis + 1 :])
        x = b.reshape(b.expand(b.reshape(x, (outer, 1, row)), (outer, count, row)), shape)
    return x


@rule("aten.repeat_interleave.self_int", keep=True)
def repeat_interleave(call: Call, b: Builder) -> Value:
    """Each element several times in a row."""
    x, count = call.tensor("self"), whole(call["repeats"])
    end = len(x.shape) if call["dim"] is None else call.axis("dim", len(x.shape)) + 1
    outer, row = math.prod(x.shape[:end]), math.prod(x.shape[end:])
    return b.reshape(b.expand(b.reshape(x, (outer, 1, row)), (outer, count, row)), call.shape)


@rule("aten.slice.Tensor", "aten.slice_copy.Tensor")
def slice_(call: Call, b: Builder) -> Value:
    """Every `step`-th position of one dimension."""
    x = call.tensor("self")
    axis = call.axis("dim", len(x.shape))
    return b.slice(x, axis, *section(call, x.shape[axis]))


@rule("aten.narrow_copy.default")
def narrow(call: Call, b: Builder) -> Value:
    """Positions in a row of one dimension."""
    x = call.tensor("self")
    axis = call.axis("dim", len(x.shape))
    start = whole(call["start"]) % x.shape[axis]
    return b.slice(x, axis, start, start + whole(call["length"]))


@rule("aten.select.int", "aten.select_copy.int")
def select(call: Call, b: Builder) -> Value:
    """One position of one dimension, which goes."""
    x = call.tensor("self")
    axis = call.axis("dim", len(x.shape))
    if isinstance(call["index"], Value):  # x[i] where i is a tensor of one number
        place = b.reshape(call.tensor("index"), (1,))
        place = place if place.dtype in (DType.I32, DType.I64) else b.cast(place, DType.I64)
        shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        row = b.op("index_select", [x, place], x.dtype, shape, IndexSelectAttributes(axis=axis, wraps=1))
        return b.reshape(row, call.shape)
    index = whole(call["index"]) % x.shape[axis]
    return b.reshape(b.slice(x, axis, index, index + 1), call.shape)


@rule(
    "aten.split.Tensor", "aten.split_copy.Tensor", "aten.split_with_sizes.default", "aten.split_with_sizes_copy.default"
)
def split(call: Call, b: Builder) -> tuple[Value, ...]:
    """Parts of one dimension, one after the other."""
    x = call.tensor("self")
    axis = call.axis("dim", len(x.shape))
    parts, start = [], 0
    for result in call.results:
        stop = start + result.shape[axis]
        empty = np.empty(result.shape, NUMPY[x.dtype])
        parts.append(b.constant(empty) if start == stop else b.slice(x, axis, start, stop))
        start = stop
    return tuple(parts)


@rule("aten.unbind.int", "aten.unbind_copy.int")
def unbind(call: Call, b: Builder) -> tuple[Value, ...]:
    """Each position of one dimension, which goes."""
    x = call.tensor("self")
    axis = call.axis("dim", len(x.shape))
    return tuple(b.reshape(b.slice(x, axis, i, i + 1), result.shape) for i, result in enumerate(call.results))


@rule("aten.flip.default")
def flip(call: Call, b: Builder) -> Value:
    """Backwards in some dimensions: negative strides."""
    x = call.tensor("self")
    strides = list(row_major_strides(x.shape))
    offset = 0
    for axis in {int(axis) % max(len(x.shape), 1) for axis in call["dims"]} if x.shape else set():
        offset += (x.shape[axis] - 1) * strides[axis]
        strides[axis] = -strides[axis]
    return b.copy_strided(x, x.shape, strides, offset)


@rule("aten.unfold.default", "aten.unfold_copy.default")
def unfold(call: Call, b: Builder) -> Value:
    """Windows of one dimension, which may overlap; the window is the last dimension."""
    x = call.tensor("self")
    strides = list(row_major_strides(x.shape))
    if not x.shape:
        return b.reshape(x, call.shape)
    axis = call.axis("dimension", len(x.shape))
    step = strides[axis]
    strides[axis] = step * whole(call["step"])
    return b.copy_strided(x, call.shape, [*strides, step])


@rule("aten.as_strided.default", "aten.as_strided_copy.default")
def as_strided(call: Call, b: Builder) -> Value:
    """Any view; `lower` has refused inputs that torch doesn't hold row-major."""
    return b.copy_strided(
        call.tensor("self"), call.shape, [whole(s) for s in call["stride"]], whole(call["storage_offset"] or 0)
    )


@rule("aten.diagonal.default", "aten.diagonal_copy.default")
def diagonal(call: Call, b: Builder) -> Value:
    """A diagonal of two dimensions, which go, as the last one."""
    x = call.tensor("self")
    strides, offset = _diagonal(call, x)
    return b.copy_strided(x, call.shape, strides, offset)


def _diagonal(call: Call, x: Value) -> tuple[list[int], int]:
    rank = len(x.shape)
    first, second, shift = call.axis("dim1", rank), call.axis("dim2", rank), whole(call["offset"])
    strides = row_major_strides(x.shape)
    rest = [strides[axis] for axis in range(rank) if axis not in (first, second)]
    offset = shift * strides[second] if shift >= 0 else -shift * strides[first]
    return [*rest, strides[first] + strides[second]], offset


# -- parts that are written -------------------------------------------------------------------------------------------


@rule("aten.slice_scatter.default")
def slice_scatter(call: Call, b: Builder) -> Value:
    """Every `step`-th position of one dimension is the source's."""
    x, source = call.tensor("self"), call.tensor("src")
    if 0 in source.shape:
        return x
    axis = call.axis("dim", len(x.shape))
    start, _, step = section(call, x.shape[axis])
    strides = list(row_major_strides(x.shape))
    offset = start * strides[axis]
    strides[axis] *= step
    return scatter_strided(b, x, b.cast(source, x.dtype), strides, offset)


@rule("aten.select_scatter.default", keep=True)
def select_scatter(call: Call, b: Builder) -> Value:
    """One position of one dimension is the source's."""
    x, source = call.tensor("self"), call.tensor("src")
    axis = call.axis("dim", len(x.shape))
    if isinstance(call["index"], Value):  # x[i] = source where i is a tensor of one number
        place = b.reshape(call.tensor("index"), (1,))
        place = place if place.dtype in (DType.I32, DType.I64) else b.cast(place, DType.I64)
        row = b.reshape(b.cast(source, x.dtype), (*x.shape[:axis], 1, *x.shape[axis + 1 :]))
        write = IndexPutAttributes(axis=axis, mode=0, includes_self=1, wraps=1)
        return b.op("index_put", [x, place, row], x.dtype, x.shape, write)
    strides = list(row_major_strides(x.shape))
    offset = whole(call["index"]) % x.shape[axis] * strides[axis]
    del strides[axis]
    return scatter_strided(b, x, b.cast(source, x.dtype), strides, offset)


@rule("aten.diagonal_scatter.default")
def diagonal_scatter(call: Call, b: Builder) -> Value:
    """A diagonal is the source's."""
    x, source = call.tensor("self"), call.tensor("src")
    if 0 in source.shape:
        return x
    strides, offset = _diagonal(call, x)
    return scatter_strided(b, x, b.cast(source, x.dtype), strides, offset)


@rule("aten.as_strided_scatter.default")
def as_strided_scatter(call: Call, b: Builder) -> Value:
    """Any view is the source's; `lower` has refused inputs that torch doesn't hold row-major."""
    x, source = call.tensor("self"), call.tensor("src")
    source = b.reshape(b.cast(source, x.dtype), [whole(size) for size in call["size"]])
    return scatter_strided(b, x, source, [whole(s) for s in call["stride"]], whole(call["storage_offset"] or 0))


# -- joined, shifted, with margins ------------------------------------------------------------------------------------


@rule("aten.cat.default")
def cat(call: Call, b: Builder) -> Value:
    """One after the other; torch lets empty vectors of any rank take part."""
    parts = [b.cast(part, call.dtype) for part in call.tensors("tensors") if 0 not in part.shape]
    return b.concat(parts, call.axis("dim", len(call.shape)))


@rule("aten.roll.default", keep=True)
def roll(call: Call, b: Builder) -> Value:
    """Two slices change places in each dimension; without dimensions the elements as one row."""
    x = call.tensor("self")
    shifts = call["shifts"] if isinstance(call["shifts"], Sequence) else [call["shifts"]]
    dims = list(call["dims"])
    if not dims:
        x, dims = b.reshape(x, (math.prod(x.shape),)), [0]
    for shift, dim in zip(shifts, dims, strict=True):
        axis = int(dim) % len(x.shape)
        size = x.shape[axis]
        cut = -whole(shift) % size
        if isinstance(cut, Size) and cut.term.low == 0:  # at some sizes nothing moves, and no slice is empty
            x = b.slice(b.concat([x, x], axis), axis, cut, cut + size)
        elif cut:
            x = b.concat([b.slice(x, axis, cut, size), b.slice(x, axis, 0, cut)], axis)
    return b.reshape(x, call.shape)


def _margins(numbers: Sequence[int], rank: int) -> tuple[list[int], list[int]]:
    """Return torch's list (last dimension first, before and after) as two lists, first dimension first."""
    before, after = [0] * rank, [0] * rank
    for i in range(len(numbers) // 2):
        before[rank - 1 - i], after[rank - 1 - i] = whole(numbers[2 * i]), whole(numbers[2 * i + 1])
    return before, after


def _crop(b: Builder, x: Value, before: list[int], after: list[int]) -> Value:
    """Return `x` without what negative margins take away."""
    strides, offset = row_major_strides(x.shape), 0
    shape = list(x.shape)
    for axis, size in enumerate(x.shape):
        start, stop = largest(0, -before[axis]), size + smallest(0, after[axis])
        if stop <= start:
            raise Refused("margins that leave some of the input")
        shape[axis] = stop - start
        offset += start * strides[axis]
    return x if tuple(shape) == x.shape else b.copy_strided(x, shape, strides, offset)


def _pad(call: Call, b: Builder, margins: str, mode: int, number: float = 0.0) -> Value:
    x = call.tensor("self")
    before, after = _margins(call[margins], len(x.shape))
    if 0 in x.shape:
        return fill_tensor(b, call.shape, number, x.dtype)
    varies = any(map(b.varies, call[margins]))
    x = _crop(b, x, before, after)
    before, after = ([largest(0, size) for size in sizes] for sizes in (before, after))
    return pad_with(b, x, before, after, mode=mode, number=number, varies=varies)


@rule("aten.constant_pad_nd.default")
def constant_pad(call: Call, b: Builder) -> Value:
    """Margins of one number; negative ones crop."""
    return _pad(call, b, "pad", CONSTANT, call["value"])


@rule(
    "aten.reflection_pad1d.default",
    "aten.reflection_pad2d.default",
    "aten.reflection_pad3d.default",
    keep=True,
)
def reflection_pad(call: Call, b: Builder) -> Value:
    """Margins that mirror the input."""
    return _pad(call, b, "padding", REFLECT)


@rule(
    "aten.replication_pad1d.default",
    "aten.replication_pad2d.default",
    "aten.replication_pad3d.default",
    keep=True,
)
def replication_pad(call: Call, b: Builder) -> Value:
    """Margins of the edge."""
    return _pad(call, b, "padding", REPLICATE)


@rule("aten._pad_circular.default", keep=True)
def circular_pad(call: Call, b: Builder) -> Value:
    """Margins from the other end."""
    return _pad(call, b, "pad", CIRCULAR)


@rule("aten.tril.default", "aten.triu.default", keep=True)
def tril_triu(call: Call, b: Builder) -> Value:
    """The lower or upper triangle of each matrix, zeros elsewhere."""
    x = call.tensor("self")
    shift = smallest(largest(whole(call["diagonal"]), -MAX_DIAGONAL), MAX_DIAGONAL)
    return b.op(
        "tril_triu", [x], x.dtype, x.shape, TrilTriuAttributes(diagonal=shift, is_upper=int("triu" in call.target))
    )


# -- patches of images ------------------------------------------------------------------------------------------------


def _pair(call: Call, name: str) -> tuple[int, int]:
    inputs = [int(number) for number in call[name]]
    return inputs[0], inputs[-1]


@rule("aten.im2col.default", keep=True)
def im2col(call: Call, b: Builder) -> Value:
    """[N, C, H, W] to [N, C * kh * kw, places]: one strided copy of the padded image."""
    x = call.tensor("self")
    batch = x.shape[:-3]
    (kh, kw), (dh, dw) = _pair(call, "kernel_size"), _pair(call, "dilation")
    (ph, pw), (sh, sw) = _pair(call, "padding"), _pair(call, "stride")
    x = pad_with(b, b.reshape(x, (math.prod(batch), *x.shape[-3:])), (0, 0, ph, pw), (0, 0, ph, pw))
    n, channels, height, width = x.shape
    rows, columns = (height - dh * (kh - 1) - 1) // sh + 1, (width - dw * (kw - 1) - 1) // sw + 1
    strides = (channels * height * width, height * width, dh * width, dw, sh * width, sw)
    return b.reshape(b.copy_strided(x, (n, channels, kh, kw, rows, columns), strides), call.shape)


@rule("aten.col2im.default", keep=True)
def col2im(call: Call, b: Builder) -> Value:
    """[N, C * kh * kw, places] to [N, C, H, W]: each patch is added where it came from."""
    x = call.tensor("self")
    (kh, kw), (dh, dw) = _pair(call, "kernel_size"), _pair(call, "dilation")
    (ph, pw), (sh, sw) = _pair(call, "padding"), _pair(call, "stride")
    height, width = (size + 2 * pad for size, pad in zip(_pair(call, "output_size"), (ph, pw), strict=True))
    rows = np.arange(kh)[:, None] * dh + np.arange((height - dh * (kh - 1) - 1) // sh + 1) * sh
    columns = np.arange(kw)[:, None] * dw + np.arange((width - dw * (kw - 1) - 1) // sw + 1) * sw
    places = rows[:, None, :, None] * width + columns[None, :, None, :]  # [kh, kw, rows, columns]
    planes = math.prod(call.shape[:-2])
    image = fill_tensor(b, (planes, height * width), 0, x.dtype)
    patches = b.reshape(x, (planes, places.size))
    indices = b.constant(places.reshape(-1).astype(np.int32))
    attributes = IndexPutAttributes(axis=1, mode=_ADD, includes_self=1, wraps=0)
    image = b.op("index_put", [image, indices, patches], x.dtype, image.shape, attributes)
    image = b.reshape(image, (planes, height, width))
    image = b.slice(b.slice(image, 1, ph, height - ph), 2, pw, width - pw)
    return b.reshape(image, call.shape)


# -- from nothing -----------------------------------------------------------------------------------------------------


@rule("aten.arange.start_step")
def arange(call: Call, b: Builder) -> Value:
    """Numbers at equal distance; only where a size varies, else it is a constant."""
    start, step = call["start"], call["step"]
    if type(start) in {int, float}:
        return b.op("arange", [], call.dtype, call.shape, ArangeAttributes(start=float(start), step=float(step)))
    # It follows from a size.
    steps = b.op("arange", [], call.dtype, call.shape, ArangeAttributes(start=0.0, step=float(step)))
    return b.binary("add", steps, b.scalar(start, call.dtype))


@rule("aten.full.default", "aten.full_like.default", "aten.new_full.default")
def full(call: Call, b: Builder) -> Value:
    """One number everywhere; only where a size varies, else it is a constant."""
    return _fill(b, call, call["fill_value"])


def _fill(b: Builder, call: Call, number: float) -> Value:
    """Return `number` in the call's type and shape; one that follows from sizes is computed."""
    if b.varies(number):
        return b.scalar(number, call.dtype, call.shape)
    return fill_tensor(b, call.shape, number, call.dtype)


@rule("aten.scalar_tensor.default")
def scalar_tensor(call: Call, b: Builder) -> Value:
    """A size as a tensor."""
    return _fill(b, call, call["s"])


@rule("aten.fill.Scalar", "aten.fill.Tensor")
def fill(call: Call, b: Builder) -> Value:
    """One number in place of every element."""
    if isinstance(call["value"], Value):
        return b.expand(b.cast(call.tensor("value"), call.dtype), call.shape)
    return _fill(b, call, call["value"])


@rule("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def ones(call: Call, b: Builder) -> Value:
    """One everywhere; only where a size varies, else it is a constant."""
    return fill_tensor(b, call.shape, 1, call.dtype)


@rule(
    "aten.empty.memory_format",
    "aten.empty_like.default",
    "aten.empty_strided.default",
    "aten.new_empty.default",
    "aten.new_zeros.default",
    "aten.zeros.default",
    "aten.zeros_like.default",
)
def zeros(call: Call, b: Builder) -> Value:
    """Zero everywhere, also where torch leaves open what there is."""
    return fill_tensor(b, call.shape, 0, call.dtype)
