"""Computes quantized programs in numpy, bit for bit, beside the kernels that must agree.

Written from docs/format.md and not from the kernels' loops, so that either finds the mistakes of the other.  It runs
whole programs of quantized operators and of those that only move elements; it is slow and for tests.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from alcove.runtime import _native
from alcove.runtime.compiler.quantize import packing
from alcove.runtime.compiler.quantize.scales import Scale, requantize
from alcove.runtime.format.halves import widen_constants
from alcove.runtime.format.spec import DType, OpSpec, ProgramSpec, Storage, TensorSpec
from numpy.typing import NDArray

Array = NDArray[Any]
Attributes = Mapping[str, Any]

_NUMPY: Final = {DType.F32: "<f4", DType.I8: "i1", DType.I32: "<i4", DType.I64: "<i8", DType.U8: "u1", DType.BOOL: "?"}
_ATTRIBUTES: Final = {op.name: [name for name, _ in op.attributes] for op in _native.manifest()}


def run(spec: ProgramSpec, inputs: Sequence[Array]) -> list[Array]:
    """Return the outputs of a program without labels, texts and varying sizes.

    Args:
        spec: of a verified program.
        inputs: one for each port, of its type and shape.

    Raises:
        KeyError: it has an operator that this reference does not know, by name.
    """
    values: dict[int, Array] = {
        index: np.frombuffer(tensor.data, _NUMPY[tensor.dtype]).reshape(tensor.shape)
        for index, tensor in enumerate(widen_constants(spec).tensors)
        if tensor.storage is Storage.CONSTANT
    }
    values |= {port.tensor: array for port, array in zip(spec.inputs, inputs, strict=True)}
    for op in spec.ops:
        values[op.outputs[0]] = _apply(op, [values[index] for index in op.inputs], spec.tensors[op.outputs[0]])
    return [values[port.tensor] for port in spec.outputs]


def _apply(op: OpSpec, inputs: Sequence[Array], output: TensorSpec) -> Array:
    attributes = dict(zip(_ATTRIBUTES[op.name], op.attributes, strict=True))
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(OPERATORS[op.name](inputs, attributes, output.shape))


def fma(x: Array, y: Array, z: Array) -> Array:
    """Return f32 x * y + z, rounded once.

    The product of two f32 is exact in f64.  Their sum is rounded to odd there (the error term of Knuth's two-sum says
    which way), and rounding that to f32 rounds the exact sum: 53 bits are more than 24 + 2 (Boldo and Melquiond, 2008).
    """
    product = x.astype(np.float64) * y.astype(np.float64)
    addend = np.broadcast_to(z, product.shape).astype(np.float64)
    total = product + addend
    rest = total - product
    error = (product - (total - rest)) + (addend - rest)
    is_even = (total.view(np.int64) & 1) == 0
    towards = np.where((error > 0) == (total > 0), 1, -1)
    moved = (total.view(np.int64) + towards).view(np.float64)
    odd = np.where((error != 0) & is_even & np.isfinite(total), moved, total)
    return odd.astype(np.float32)


def _canonical(x: Array) -> Array:
    return np.where(np.isnan(x), np.uint32(0x7FC00000).view(np.float32), x).astype(np.float32)


def _wrap(x: Array) -> Array:
    """Return int64 as the int32 that it is modulo 2**32."""
    return x.astype(np.int64).astype(np.uint32).view(np.int32)


def _requantize(value: Array, a: Attributes) -> Array:
    return requantize(value.astype(np.float32), a["zero_point"], a["low"], a["high"])


def _quantize(inputs: Sequence[Array], a: Attributes, _shape: tuple[int, ...]) -> Array:
    return Scale(a["scale"], a["zero_point"]).quantize(inputs[0])


def _dequantize(inputs: Sequence[Array], a: Attributes, _shape: tuple[int, ...]) -> Array:
    return Scale(a["scale"], a["zero_point"]).dequantize(inputs[0])


def _int8_products(x: Array, packed: Array, n: int, a: Attributes) -> Array:
    """Return requantized rows [m, n] of x int8 [m, k] and panels."""
    rows, words, scales = packing.unpanel_i8(packed, n, x.shape[1])
    acc = _wrap(x.astype(np.int64) @ rows.astype(np.int64).T + words.astype(np.int64))
    return _requantize(acc.astype(np.float32) * scales, a)


def _linear_i8(inputs: Sequence[Array], a: Attributes, shape: tuple[int, ...]) -> Array:
    x, packed = inputs
    return _int8_products(x.reshape(-1, x.shape[-1]), packed, shape[-1], a).reshape(shape)


def _patches(x: Array, a: Attributes, shape: tuple[int, ...]) -> Array:
    """Return [n, oh, ow, kh, kw, c] of an image, the zero point outside it."""
    bottom = max(0, (shape[1] - 1) * a["stride_h"] + (a["kernel_h"] - 1) * a["dilation_h"] + 1 - x.shape[1])
    right = max(0, (shape[2] - 1) * a["stride_w"] + (a["kernel_w"] - 1) * a["dilation_w"] + 1 - x.shape[2])
    widths = ((0, 0), (a["pad_top"], bottom), (a["pad_left"], right), (0, 0))
    padded = np.pad(x, widths, constant_values=a["input_zero_point"])
    rows = np.arange(shape[1])[:, None] * a["stride_h"] + np.arange(a["kernel_h"]) * a["dilation_h"]
    columns = np.arange(shape[2])[:, None] * a["stride_w"] + np.arange(a["kernel_w"]) * a["dilation_w"]
    return padded[:, rows[:, None, :, None], columns[None, :, None, :]]


def _conv2d_i8(inputs: Sequence[Array], a: Attributes, shape: tuple[int, ...]) -> Array:
    x, packed = inputs
    patches = _patches(x, a, shape)
    groups = a["groups"]
    parts = []
    for taps, panels in zip(np.split(patches, groups, axis=-1), np.split(packed, groups), strict=True):
        rows = taps.reshape(math.prod(shape[:3]), -1)
        parts.append(_int8_products(rows, panels, shape[3] // groups, a).reshape(*shape[:3], -1))
    return np.concatenate(parts, axis=-1)


def _depthwise_conv2d_i8(inputs: Sequence[Array], a: Attributes, shape: tuple[int, ...]) -> Array:
    x, packed = inputs
    taps, words, scales = packing.depthwise_unpanel_i8(packed, shape[3])
    patches = _patches(x, a, shape).reshape(*shape[:3], -1, shape[3]).astype(np.int64)
    acc = _wrap((patches * taps.astype(np.int64)).sum(axis=3) + words.astype(np.int64))
    return _requantize(acc.astype(np.float32) * scales, a)


def _add_i8(inputs: Sequence[Array], a: Attributes, _shape: tuple[int, ...]) -> Array:
    terms = [
        (x.astype(np.int32) - a[f"{side}_zero_point"]).astype(np.float32) * np.float32(a[f"{side}_ratio"])
        for x, side in zip(inputs, "ab", strict=True)
    ]
    return _requantize(terms[0] + terms[1], a)


def _mul_i8(inputs: Sequence[Array], a: Attributes, _shape: tuple[int, ...]) -> Array:
    left, right = (x.astype(np.int32) - a[f"{side}_zero_point"] for x, side in zip(inputs, "ab", strict=True))
    return _requantize((left * right).astype(np.float32) * np.float32(a["ratio"]), a)


def _lut_i8(inputs: Sequence[Array], _a: Attributes, _shape: tuple[int, ...]) -> Array:
    x, table = inputs
    return np.asarray(table[x.astype(np.int32) + 128])


def _mean_i8(inputs: Sequence[Array], a: Attributes, shape: tuple[int, ...]) -> Array:
    (x,) = inputs
    axes = tuple(range(a["first_axis"], a["first_axis"] + a["axis_count"]))
    count = math.prod(x.shape[axis] for axis in axes)
    acc = x.astype(np.int64).sum(axis=axes) - count * a["input_zero_point"]
    return _requantize(acc.astype(np.float32) * np.float32(a["ratio"]), a).reshape(shape)


def _max_pool2d_i8(inputs: Sequence[Array], a: Attributes, shape: tuple[int, ...]) -> Array:
    window = {**a, "pad_top": a["pad_h"], "pad_left": a["pad_w"], "input_zero_point": -128}
    return np.asarray(_patches(inputs[0], window, shape).max(axis=(3, 4)))


def _linear_qd8_qc8w(inputs: Sequence[Array], _a: Attributes, shape: tuple[int, ...]) -> Array:
    x, packed, *bias = inputs
    flat = x.reshape(-1, x.shape[-1])
    rows, sums, scales = packing.unpanel_i8(packed, shape[-1], flat.shape[1])
    results = []
    for row in flat:
        low = np.minimum(np.float32(0), row.min())
        high = np.maximum(np.float32(0), row.max())
        if not np.isfinite(row).all():
            results.append(np.full(shape[-1], np.nan, np.float32))
            continue
        scale = np.float32(high / np.float32(255)) - np.float32(low / np.float32(255))
        scale = np.float32(1) if scale < np.float32(2.0**-100) else scale
        inverse = np.float32(1) / scale
        zero = int(requantize(np.float32(-128) - low * inverse, 0))
        q = requantize(row * inverse, zero).astype(np.int64)
        acc = _wrap(rows.astype(np.int64) @ q - zero * sums.astype(np.int64))
        results.append(acc.astype(np.float32) * (scale * scales))
    y = np.stack(results)
    return _canonical(y + bias[0] if bias else y).reshape(shape)


def _linear_f32_qc8w(inputs: Sequence[Array], _a: Attributes, shape: tuple[int, ...]) -> Array:
    x, packed, *bias = inputs
    flat = x.reshape(-1, x.shape[-1])
    rows, _, scales = packing.unpanel_i8(packed, shape[-1], flat.shape[1])
    acc = np.zeros((len(flat), shape[-1]), np.float32)
    for k in range(flat.shape[1]):
        acc = fma(flat[:, k, None], rows[None, :, k].astype(np.float32), acc)
    start = bias[0] if bias else np.zeros(shape[-1], np.float32)
    return _canonical(fma(acc, scales[None], start)).reshape(shape)


def _linear_qd8_qb4w(inputs: Sequence[Array], a: Attributes, shape: tuple[int, ...]) -> Array:
    x, packed, *bias = inputs
    flat, group = x.reshape(-1, x.shape[-1]), a["group"]
    rows, scales = packing.unpanel_qb4(packed, shape[-1], flat.shape[1], group)
    y = np.broadcast_to(bias[0] if bias else np.float32(0), (len(flat), shape[-1])).astype(np.float32)
    for start in range(0, flat.shape[1], group):
        part = flat[:, start : start + group]
        is_finite = np.isfinite(part).all(axis=1, keepdims=True)
        part = np.where(is_finite, part, np.float32(0))
        scale = np.abs(part).max(axis=1, keepdims=True) / np.float32(127)
        scale = np.where(scale < np.float32(2.0**-100), np.float32(1), scale)
        q = requantize((part * (np.float32(1) / scale)).astype(np.float32), 0, -127, 127)
        acc = q.astype(np.int64) @ rows[:, start : start + group].T.astype(np.int64)
        scale = np.where(is_finite, scale, np.float32(np.nan))
        y = fma(acc.astype(np.float32), scales[None, :, start // group] * scale, y)
    return _canonical(y).reshape(shape)


def _linear_f32_qb4w(inputs: Sequence[Array], a: Attributes, shape: tuple[int, ...]) -> Array:
    x, packed, *bias = inputs
    flat, group = x.reshape(-1, x.shape[-1]), a["group"]
    rows, scales = packing.unpanel_i4(packed, shape[-1], flat.shape[1], group)
    y = np.broadcast_to(bias[0] if bias else np.float32(0), (len(flat), shape[-1])).astype(np.float32)
    for start in range(0, flat.shape[1], group):
        part = np.zeros_like(y)
        for k in range(start, min(start + group, flat.shape[1])):
            part = fma(flat[:, k, None], rows[None, :, k].astype(np.float32), part)
        y = fma(part, scales[None, :, start // group], y)
    return _canonical(y).reshape(shape)


def _embedding_i8(inputs: Sequence[Array], _a: Attributes, _shape: tuple[int, ...]) -> Array:
    ids, table, scale = inputs
    return _canonical(table[ids].astype(np.float32) * scale)


def _reshape(inputs: Sequence[Array], _a: Attributes, shape: tuple[int, ...]) -> Array:
    return inputs[0].reshape(shape)


def _as_strided_copy(inputs: Sequence[Array], a: Attributes, shape: tuple[int, ...]) -> Array:
    places = np.full(shape, a["offset"], np.int64)
    for axis, size in enumerate(shape):
        steps = np.arange(size, dtype=np.int64) * a[f"stride{axis}"]
        places += steps.reshape([-1 if d == axis else 1 for d in range(len(shape))])
    return np.asarray(inputs[0].reshape(-1)[places])


def _concat(inputs: Sequence[Array], a: Attributes, _shape: tuple[int, ...]) -> Array:
    return np.concatenate(inputs, axis=a["axis"])


def _pad(inputs: Sequence[Array], a: Attributes, _shape: tuple[int, ...]) -> Array:
    (x,) = inputs
    widths = [(a[f"before{axis}"], a[f"after{axis}"]) for axis in range(x.ndim)]
    mode = ("constant", "reflect", "edge", "wrap")[a["mode"]]
    if mode != "constant":
        return np.asarray(np.pad(x, widths, mode=mode))  # type: ignore[call-overload] # numpy types each mode apart
    fill = np.frombuffer(int(a["bits"]).to_bytes(8, "little")[: x.itemsize], x.dtype)[0]
    return np.pad(x, widths, constant_values=fill)


OPERATORS: Final[Mapping[str, Callable[[Sequence[Array], Attributes, tuple[int, ...]], Array]]] = {
    "quantize": _quantize,
    "dequantize": _dequantize,
    "linear_i8": _linear_i8,
    "conv2d_i8": _conv2d_i8,
    "depthwise_conv2d_i8": _depthwise_conv2d_i8,
    "add_i8": _add_i8,
    "mul_i8": _mul_i8,
    "lut_i8": _lut_i8,
    "mean_i8": _mean_i8,
    "max_pool2d_i8": _max_pool2d_i8,
    "linear_qd8_qc8w": _linear_qd8_qc8w,
    "linear_f32_qc8w": _linear_f32_qc8w,
    "linear_f32_qb4w": _linear_f32_qb4w,
    "linear_qd8_qb4w": _linear_qd8_qb4w,
    "embedding_i8": _embedding_i8,
    "reshape": _reshape,
    "as_strided_copy": _as_strided_copy,
    "concat": _concat,
    "pad": _pad,
}
"""From inputs, attributes by name and the output's shape to the output."""
