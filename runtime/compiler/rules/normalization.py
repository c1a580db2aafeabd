"""Lowers softmax and the norms of layers, groups, instances and batches, and root mean square.

The kernels of groups work channels last, as images do: the permutations around them meet those of convolutions and
cancel.  A batch norm in eval mode is one product and one sum, its numbers computed at export.
"""

import math
from typing import Any, Final

import numpy as np
from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules.reduction import fold
from alcove.runtime.compiler.rules.registry import Call, Refused, rule
from alcove.runtime.format.attributes import GroupNormAttributes, LayerNormAttributes, SoftmaxAttributes
from alcove.runtime.format.spec import DType

_F32_EPSILON: Final = float(np.finfo(np.float32).eps)  # torch's, where rms_norm is given none
_WEIGHT, _BIAS = 1, 2  # bits of the ops' mask
_TRAINING: Final = "batch norm with the statistics of training: call module.eval() before the export"


@rule("aten._softmax.default", "aten._log_softmax.default")
@rule("aten.softmax.int", "aten.log_softmax.int", keep=True)
def softmax(call: Call, b: Builder) -> Value:
    """Along any dimension, or its logarithm."""
    x = b.cast(call.tensor("self"), DType.F32)
    rank = len(x.shape)
    attributes = SoftmaxAttributes(is_log=int("log_softmax" in call.target))
    if rank == 0:
        return b.reshape(b.op("softmax", [b.reshape(x, (1,))], DType.F32, (1,), attributes), ())
    axis = call.axis("dim", rank)
    order = (*(d for d in range(rank) if d != axis), axis)
    back = [*range(axis), rank - 1, *range(axis, rank - 1)]
    rows = b.permute(x, order)
    return b.permute(b.op("softmax", [rows], DType.F32, rows.shape, attributes), back)


# -- rows ---------------------------------------------------------------------------------------------------------


@rule("aten.native_layer_norm.default")
def layer_norm(call: Call, b: Builder) -> tuple[Value, ...]:
    """Over the last dimensions; mean and deviation too, for who uses them."""
    x = call.tensor("input")
    count = len(call["normalized_shape"])
    mean, r = _mean_and_scale(b, x, range(len(x.shape) - count, len(x.shape)), float(call["eps"]))
    return _row_norm(call, b, x, count, float(call["eps"]), is_rms=False), mean, r


@rule("aten.rms_norm.default", keep=True)
def rms_norm(call: Call, b: Builder) -> Value:
    """Over the last dimensions, without a mean."""
    eps = _F32_EPSILON if call["eps"] is None else float(call["eps"])
    return _row_norm(call, b, call.tensor("input"), len(call["normalized_shape"]), eps, is_rms=True)


def _row_norm(call: Call, b: Builder, x: Value, count: int, eps: float, *, is_rms: bool) -> Value:
    mask, affine = _affine(call)
    attributes = LayerNormAttributes(
        is_rms=int(is_rms), axis_count=count, mask=mask, eps=eps, activation=0, low=0.0, high=0.0
    )
    return b.op("layer_norm", [x, *affine], DType.F32, x.shape, attributes)


# -- groups -------------------------------------------------------------------------------------------------------


@rule("aten.native_group_norm.default")
def group_norm(call: Call, b: Builder) -> tuple[Value, ...]:
    """Over groups of channels, [n, c, ...]; mean and deviation too, for who uses them."""
    x = call.tensor("input")
    groups, eps = int(call["group"]), float(call["eps"])
    samples = x.shape[0]
    rows = b.reshape(x, (samples, groups, math.prod(x.shape[1:]) // groups))
    mean, r = (b.reshape(value, (samples, groups)) for value in _mean_and_scale(b, rows, [2], eps))
    return _channels_norm(call, b, x, groups, eps), mean, r


@rule("aten.instance_norm.default", keep=True)
def instance_norm(call: Call, b: Builder) -> Value:
    """Each channel of each sample by itself, or with the statistics that training kept."""
    x = call.tensor("input")
    if call["use_input_stats"]:
        if call.optional("running_mean") is not None:
            raise Refused("instance norm that updates its statistics: call module.eval() before the export")
        return _channels_norm(call, b, x, x.shape[1], float(call["eps"]))
    return _batch_norm(call, b)


def _channels_norm(call: Call, b: Builder, x: Value, groups: int, eps: float) -> Value:
    """Return `x` [n, c, ...] normed by groups of channels."""
    rank = len(x.shape)
    mask, affine = _affine(call)
    last = b.permute(x, (0, *range(2, rank), 1))
    attributes = GroupNormAttributes(groups=groups, mask=mask, eps=eps, activation=0, low=0.0, high=0.0)
    normed = b.op("group_norm", [last, *affine], DType.F32, last.shape, attributes)
    return b.permute(normed, (0, rank - 1, *range(1, rank - 1)))


def _affine(call: Call) -> tuple[int, list[Value]]:
    """Return which of weight and bias there are, as a mask, and those."""
    weight = call.optional("weight")
    bias = call.optional("bias") if "bias" in call.arguments else None
    mask = (_WEIGHT if weight else 0) | (_BIAS if bias else 0)
    return mask, [value for value in (weight, bias) if value]


def _mean_and_scale(b: Builder, x: Value, axes: Any, eps: float) -> tuple[Value, Value]:
    """Return the mean and 1 / sqrt(variance + eps), as torch's native norms give them beside their result."""
    mean = fold(b, x, "mean", axes, keeps=True)
    squares = b.unary("square", b.binary("sub", x, mean))
    variance = fold(b, squares, "mean", axes, keeps=True)
    return mean, b.unary("rsqrt", b.binary("add", variance, b.scalar(eps, DType.F32)))


# -- batches ------------------------------------------------------------------------------------------------------


@rule("aten._native_batch_norm_legit_no_training.default")
def batch_norm(call: Call, b: Builder) -> tuple[Value, ...]:
    """With the statistics that training kept."""
    empty = b.constant(np.empty(0, np.float32))
    return _batch_norm(call, b), empty, empty


@rule("aten.batch_norm.default", keep=True)
def any_batch_norm(call: Call, b: Builder) -> Value:
    """In eval mode."""
    if call["training"] and call.optional("running_mean") is not None:
        raise Refused(_TRAINING)
    return _whole_batch_norm(call, b) if call["training"] else _batch_norm(call, b)


@rule("aten._native_batch_norm_legit.no_stats")
def batch_norm_of_batch(call: Call, b: Builder) -> tuple[Value, ...]:
    """With the statistics of the batch itself, for a norm that keeps none."""
    x = call.tensor("input")
    axes = (0, *range(2, len(x.shape)))
    mean, r = _mean_and_scale(b, x, axes, float(call["eps"]))
    channels = (x.shape[1],)
    return _whole_batch_norm(call, b), b.reshape(mean, channels), b.reshape(r, channels)


@rule(
    "aten._native_batch_norm_legit.default",
    "aten._native_batch_norm_legit_functional.default",
    "aten.native_batch_norm.default",
)
def training_batch_norm(call: Call, b: Builder) -> tuple[Value, ...]:
    """Refused, unless it is not training."""
    if call["training"]:
        raise Refused(_TRAINING)
    empty = b.constant(np.empty(0, np.float32))
    return _batch_norm(call, b), empty, empty


def _whole_batch_norm(call: Call, b: Builder) -> Value:
    """Return `x` [n, c, ...] normed by channel over the batch: one sample whose positions are all of them."""
    x = call.tensor("input")
    rank = len(x.shape)
    mask, affine = _affine(call)
    last = b.permute(x, (0, *range(2, rank), 1))
    rows = b.reshape(last, (1, math.prod(last.shape[:-1]), x.shape[1]))
    eps = float(call["eps"])
    attributes = GroupNormAttributes(groups=x.shape[1], mask=mask, eps=eps, activation=0, low=0.0, high=0.0)
    normed = b.reshape(b.op("group_norm", [rows, *affine], DType.F32, rows.shape, attributes), last.shape)
    return b.permute(normed, (0, rank - 1, *range(1, rank - 1)))


def _batch_norm(call: Call, b: Builder) -> Value:
    """Return x * scale + shift with scale = weight / sqrt(var + eps), shift = bias - mean * scale, in float64."""
    x = call.tensor("input")
    parts = {name: call.optional(name) for name in ("weight", "bias", "running_mean", "running_var")}
    mean, variance = parts["running_mean"], parts["running_var"]
    if mean is None or variance is None:
        raise Refused(_TRAINING)
    shape = (x.shape[1], *(1 for _ in x.shape[2:]))
    if any(value is not None and value.constant is None for value in parts.values()):
        return _computed_batch_norm(call, b, x, shape)
    scale = 1.0 / np.sqrt(variance.array.astype(np.float64) + float(call["eps"]))
    if parts["weight"] is not None:
        scale = scale * parts["weight"].array
    shift = -mean.array.astype(np.float64) * scale
    if parts["bias"] is not None:
        shift = shift + parts["bias"].array
    factor = b.constant(scale.astype(np.float32).reshape(shape))
    return b.binary("add", b.binary("mul", x, factor), b.constant(shift.astype(np.float32).reshape(shape)))


def _computed_batch_norm(call: Call, b: Builder, x: Value, shape: tuple[int, ...]) -> Value:
    """Return the same of statistics or weights that are computed on the device."""
    mean, variance = b.reshape(call.tensor("running_mean"), shape), b.reshape(call.tensor("running_var"), shape)
    r = b.unary("rsqrt", b.binary("add", variance, b.scalar(float(call["eps"]), DType.F32)))
    y = b.binary("mul", b.binary("sub", x, mean), r)
    weight, bias = call.optional("weight"), call.optional("bias")
    if weight is not None:
        y = b.binary("mul", y, b.reshape(weight, shape))
    return y if bias is None else b.binary("add", y, b.reshape(bias, shape))
