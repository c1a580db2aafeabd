"""Lowers pooling: greatest and mean, of fixed windows and adaptive, in one, two and three dimensions.

One dimension is an image of one row.  Three are pooled rows and columns first, then depth: of greatest and mean alike
the second pooling finishes what the first began.
"""

from collections.abc import Sequence
from typing import Final, TypedDict

from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules import windows
from alcove.runtime.compiler.rules.convolution import from_channels_last, image_shape, to_channels_last
from alcove.runtime.compiler.rules.reduction import FOLDS
from alcove.runtime.compiler.rules.registry import Call, Refused, rule
from alcove.runtime.format.attributes import (
    AdaptivePool2dAttributes,
    MaxPool2dIndicesAttributes,
    Pool2dAttributes,
    ReduceAttributes,
)
from alcove.runtime.format.spec import DType

_MAX, _AVERAGE = 0, 1


class _WindowNumbers(TypedDict):
    """The attributes that the window of every pooling has."""

    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    pad_h: int
    pad_w: int
    dilation_h: int
    dilation_w: int
    ceil_mode: int


@rule("aten.max_pool2d_with_indices.default")
@rule("aten.max_pool1d_with_indices.default", keep=True)
def max_pool(call: Call, b: Builder) -> tuple[Value, ...]:
    """Values, and where each stood in its image."""
    if call.tensor("self").dtype is not DType.F32:
        return windows.greatest(b, call.tensor("self"), _windows(call, _many(call["dilation"], _rank(call))))
    image = _image(call, b)
    rank = _rank(call)
    window = _window(call, rank, _many(call["dilation"], rank))
    shape = image_shape(_batch_shape(call.shape, rank))
    pool = Pool2dAttributes(mode=_MAX, **window, count_include_pad=0, divisor=0)
    values = b.op("pool2d", [image], DType.F32, shape, pool)
    indices = b.op("max_pool2d_indices", [image], DType.I64, shape, MaxPool2dIndicesAttributes(adaptive=0, **window))
    return _back(call, b, values), _back(call, b, indices)


@rule("aten.max_pool3d_with_indices.default")
def max_pool3d(call: Call, b: Builder) -> tuple[Value, ...]:
    """Values as of two dimensions; what finds their places disappears where nothing needs it."""
    dilation = _many(call["dilation"], 3)
    if call.tensor("self").dtype is not DType.F32:
        return windows.greatest(b, call.tensor("self"), _windows(call, dilation))
    values = _pool3d(call, b, _MAX, dilation, counts_padding=False, divisor=0)
    try:
        _, places = windows.greatest(b, call.tensor("self"), _windows(call, dilation))
    except Refused as refused:
        (places,) = b.add_refused(call.target, [values], [(DType.I64, call.shape)], (), str(refused))
    return values, places


@rule("aten.avg_pool2d.default")
@rule("aten.avg_pool1d.default", keep=True)
def average_pool(call: Call, b: Builder) -> Value:
    """With or without the padding in the count, or another divisor."""
    divisor = int(call.arguments.get("divisor_override") or 0)
    rank = _rank(call)
    if call.tensor("self").dtype is not DType.F32:
        return _mean(call, b, divisor)
    image = _image(call, b)
    window = _window(call, rank, [1] * rank)
    shape = image_shape(_batch_shape(call.shape, rank))
    counts_padding = int(call["count_include_pad"])
    attributes = Pool2dAttributes(mode=_AVERAGE, **window, count_include_pad=counts_padding, divisor=divisor)
    return _back(call, b, b.op("pool2d", [image], DType.F32, shape, attributes))


@rule("aten.avg_pool3d.default")
def average_pool3d(call: Call, b: Builder) -> Value:
    """The mean over depth of means over rows and columns; another divisor divides at last."""
    divisor = int(call["divisor_override"] or 0)
    if call.tensor("self").dtype is not DType.F32:
        return _mean(call, b, divisor)
    counts_padding = bool(call["count_include_pad"])
    return _pool3d(call, b, _AVERAGE, [1, 1, 1], counts_padding=counts_padding, divisor=divisor)


@rule("aten._adaptive_avg_pool2d.default")
@rule("aten.adaptive_avg_pool1d.default", "aten.adaptive_avg_pool2d.default", keep=True)
def adaptive_average_pool(call: Call, b: Builder) -> Value:
    """Torch's windows, which overlap where sizes don't divide; one window is a mean like any other."""
    image = _image(call, b)
    shape = image_shape(_batch_shape(call.shape, _rank(call)))
    if shape[1:3] == (1, 1):
        pixels = ReduceAttributes(function=FOLDS["mean"], first_axis=1, axis_count=2)
        mean = b.op("reduce", [image], DType.F32, (shape[0], shape[3]), pixels)
        return _back(call, b, b.reshape(mean, shape))
    return _back(call, b, b.op("adaptive_pool2d", [image], DType.F32, shape, AdaptivePool2dAttributes(mode=_AVERAGE)))


@rule("aten.adaptive_max_pool2d.default")
@rule("aten.adaptive_max_pool1d.default", keep=True)
def adaptive_max_pool(call: Call, b: Builder) -> tuple[Value, ...]:
    """Values, and where each stood in its image."""
    image = _image(call, b)
    shape = image_shape(_batch_shape(call.shape, _rank(call)))
    values = b.op("adaptive_pool2d", [image], DType.F32, shape, AdaptivePool2dAttributes(mode=_MAX))
    indices = b.op(
        "max_pool2d_indices", [image], DType.I64, shape, MaxPool2dIndicesAttributes(adaptive=1, **_NO_WINDOW)
    )
    return _back(call, b, values), _back(call, b, indices)


@rule("aten._adaptive_avg_pool3d.default")
def adaptive_average_pool3d(call: Call, b: Builder) -> Value:
    """The mean over depth of means over rows and columns: windows of one depth have one size."""
    return _adaptive3d(call, b, _AVERAGE)


def _adaptive3d(call: Call, b: Builder, mode: int) -> Value:
    x = _float(call)
    *outer, depth, height, width = x.shape
    *_, out_depth, out_h, out_w = call.shape
    count = _product(outer)
    flat = b.reshape(x, (count * depth, height, width, 1))
    window = AdaptivePool2dAttributes(mode=mode)
    planes = b.op("adaptive_pool2d", [flat], DType.F32, (count * depth, out_h, out_w, 1), window)
    lines = b.reshape(planes, (count, depth, 1, out_h * out_w))
    result = b.op("adaptive_pool2d", [lines], DType.F32, (count, out_depth, 1, out_h * out_w), window)
    return b.reshape(result, call.shape)


@rule("aten.adaptive_max_pool3d.default")
def adaptive_max_pool3d(call: Call, b: Builder) -> tuple[Value, ...]:
    """The greatest over depth of the greatest over rows and columns; places are refused where anything needs them."""
    values = _adaptive3d(call, b, _MAX)
    kept = [(result.dtype, result.shape) for result in call.results[1:]]
    refusal = "adaptive_max_pool3d without return_indices; max_pool3d gives the places of its windows"
    return values, *b.add_refused(call.target, [values], kept, (), refusal)


def _pool3d(call: Call, b: Builder, mode: int, dilation: Sequence[int], *, counts_padding: bool, divisor: int) -> Value:
    x = _float(call)
    *outer, depth, height, width = x.shape
    *_, out_depth, out_h, out_w = call.shape
    kernel = _many(call["kernel_size"], 3)
    stride = _many(call["stride"] or kernel, 3)
    padding = _many(call["padding"], 3)
    ceil = int(call["ceil_mode"])
    count = _product(outer)
    # Rows and columns are summed with a divisor of 1, so that the other divisor stays whole.
    window = _numbers([tuple(size[1:]) for size in (kernel, stride, padding, dilation)], ceil)
    flat = b.reshape(x, (count * depth, height, width, 1))
    counts = int(counts_padding)
    first = Pool2dAttributes(mode=mode, **window, count_include_pad=counts, divisor=1 if divisor else 0)
    planes = b.op("pool2d", [flat], DType.F32, (count * depth, out_h, out_w, 1), first)
    window = _numbers([(kernel[0], 1), (stride[0], 1), (padding[0], 0), (dilation[0], 1)], ceil)
    lines = b.reshape(planes, (count, depth, 1, out_h * out_w))
    second = Pool2dAttributes(mode=mode, **window, count_include_pad=counts, divisor=divisor)
    result = b.op("pool2d", [lines], DType.F32, (count, out_depth, 1, out_h * out_w), second)
    return b.reshape(result, call.shape)


def _mean(call: Call, b: Builder, divisor: int) -> Value:
    """Return the mean of whole numbers."""
    of = _windows(call, [1] * _rank(call))
    counts_padding = bool(call["count_include_pad"])
    return windows.mean(b, call.tensor("self"), of, counts_padding=counts_padding, divisor=divisor)


def _windows(call: Call, dilation: Sequence[int]) -> windows.Windows:
    """Return the windows of a call, for what is composed of their taps."""
    rank = _rank(call)
    kernel = _many(call["kernel_size"], rank)
    numbers = (kernel, _many(call["stride"] or kernel, rank), _many(call["padding"], rank), dilation)
    sizes = call.tensor("self").shape[-rank:]
    return windows.Windows(sizes, call.shape[-rank:], *(tuple(number) for number in numbers))


def _rank(call: Call) -> int:
    """Return 1, 2 or 3, from the operator's name."""
    return next(rank for rank in (1, 2, 3) if f"{rank}d" in call.target)


def _float(call: Call) -> Value:
    x = call.tensor("self")
    if x.dtype is not DType.F32:
        raise Refused("pooling of float32")
    return x


def _image(call: Call, b: Builder) -> Value:
    x = _float(call)
    return to_channels_last(b, b.reshape(x, _batch_shape(x.shape, _rank(call))))


def _batch_shape(shape: Sequence[int], rank: int) -> tuple[int, ...]:
    """Return a shape with a batch of one if it has none."""
    return tuple(shape) if len(shape) == rank + 2 else (1, *shape)


def _back(call: Call, b: Builder, image: Value) -> Value:
    return b.reshape(from_channels_last(b, image, _batch_shape(call.shape, _rank(call))), call.shape)


def _numbers(pairs: Sequence[Sequence[int]], ceil_mode: int) -> _WindowNumbers:
    """Return the attributes of a window from (rows, columns) of kernel, stride, padding and dilation."""
    kernel, stride, padding, dilation = pairs
    return {
        "kernel_h": kernel[0],
        "kernel_w": kernel[1],
        "stride_h": stride[0],
        "stride_w": stride[1],
        "pad_h": padding[0],
        "pad_w": padding[1],
        "dilation_h": dilation[0],
        "dilation_w": dilation[1],
        "ceil_mode": ceil_mode,
    }


_NO_WINDOW: Final = _numbers([(0, 0)] * 4, 0)
"""Of max_pool2d_indices for an adaptive window."""


def _window(call: Call, rank: int, dilation: Sequence[int]) -> _WindowNumbers:
    """Return the attributes of a call's window."""
    kernel = _many(call["kernel_size"], rank)
    stride = _many(call["stride"] or kernel, rank)
    sizes = ((kernel, 1), (stride, 1), (_many(call["padding"], rank), 0), (dilation, 1))
    pairs = [size if rank == 2 else (idle, size[0]) for size, idle in sizes]
    return _numbers(pairs, int(call["ceil_mode"]))


def _many(argument: Sequence[int] | int, count: int) -> list[int]:
    sizes = [argument] if isinstance(argument, int) else list(argument)
    return [int(size) for size in sizes] if len(sizes) == count else [int(sizes[0])] * count


def _product(sizes: Sequence[int]) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product
