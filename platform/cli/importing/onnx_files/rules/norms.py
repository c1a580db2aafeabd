"""Rules of normalizations and of softmax."""

import math
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch uses
from alcove.platform.cli.importing.onnx_files.errors import UnsupportedError
from alcove.platform.cli.importing.onnx_files.node import Function, Node, rule
from torch import Tensor


@rule("BatchNormalization")
def batch_norm(node: Node) -> Function:
    """By the means and variances in the file, of each channel or, where spatial is 0, of each element.

    Old files that leave `is_test` away have one output, as in evaluation.
    """
    if node.int_of("training_mode") or any(node.outputs[1:]):
        raise UnsupportedError("it is in training mode; export the model in evaluation mode")
    epsilon = node.float_of("epsilon", 1e-5)
    shape, count = node.shape()[1:], math.prod(node.shape(3))
    if len(shape) > 1 and count == math.prod(shape) and count != shape[0]:

        def by_element(x: Tensor, *statistics: Tensor) -> Tensor:
            scale, bias, mean, var = (each.reshape(shape) for each in statistics)
            return (x - mean) * torch.rsqrt(var + epsilon) * scale + bias

        return by_element
    return lambda x, scale, bias, mean, var: F.batch_norm(x, mean, var, scale, bias, training=False, eps=epsilon)


@rule("InstanceNormalization")
def instance_norm(node: Node) -> Function:
    """Over each picture's channel."""
    epsilon = node.float_of("epsilon", 1e-5)
    return lambda x, scale, bias: F.instance_norm(x, weight=scale, bias=bias, eps=epsilon)


@rule("GroupNormalization", "com.microsoft.GroupNorm")
def group_norm(node: Node) -> Function:
    """With a scale for each group before version 21, for each channel from it on."""
    groups = node.int_of("num_groups", node.int_of("groups", 1))
    epsilon = node.float_of("epsilon", 1e-5)
    if node.kind.startswith("com.") and node.int_of("channels_last", 1):
        raise UnsupportedError("channels_last")
    if node.kind.startswith("com.") and node.int_of("activation", 0):
        return lambda x, scale, bias: F.silu(F.group_norm(x, groups, scale, bias, epsilon))
    channels = node.shape()[1]
    repeats = channels // groups if node.shape(1)[0] == groups != channels else 1

    def function(x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
        if repeats > 1:
            scale, bias = scale.repeat_interleave(repeats), bias.repeat_interleave(repeats)
        return F.group_norm(x, groups, scale, bias, epsilon)

    return function


def _is_of_last(node: Node, index: int, axis: int) -> bool:
    return node.has(index) and node.shape(index) == node.shape()[axis:]


@rule("LayerNormalization")
def layer_norm(node: Node) -> Function:
    """Over the last axes; the mean and deviation that it may give are not computed."""
    if any(node.outputs[1:]):
        return _layer_norm_with_statistics(node)
    axis, epsilon = node.axis(-1), node.float_of("epsilon", 1e-5)
    shape = node.shape()[axis:]
    if _is_of_last(node, 1, axis) and (not node.has(2) or _is_of_last(node, 2, axis)):
        return lambda x, scale, bias=None: F.layer_norm(x, shape, scale, bias, epsilon)

    def function(x: Tensor, scale: Tensor, bias: Tensor | None = None) -> Tensor:
        y = F.layer_norm(x, shape, eps=epsilon) * scale
        return y if bias is None else y + bias

    return function


def _layer_norm_with_statistics(node: Node) -> Function:
    axis, epsilon = node.axis(-1), node.float_of("epsilon", 1e-5)
    axes = list(range(axis, node.rank()))

    def function(x: Tensor, scale: Tensor, bias: Tensor | None = None) -> tuple[Tensor, ...]:
        mean = x.mean(axes, keepdim=True)
        inverse = torch.rsqrt((x - mean).square().mean(axes, keepdim=True) + epsilon)
        y = (x - mean) * inverse * scale
        return (y if bias is None else y + bias, mean, inverse)

    return function


@rule("RMSNormalization", "SimplifiedLayerNormalization", "com.microsoft.SimplifiedLayerNormalization")
def rms_norm(node: Node) -> Function:
    """By the root of the mean square."""
    axes, epsilon = list(range(node.axis(-1), node.rank())), node.float_of("epsilon", 1e-5)
    return lambda x, scale: x * torch.rsqrt(x.square().mean(axes, keepdim=True) + epsilon) * scale


@rule("com.microsoft.SkipLayerNormalization", "com.microsoft.SkipSimplifiedLayerNormalization")
def skip_layer_norm(node: Node) -> Function:
    """Of a sum; the fourth output is the sum itself."""
    epsilon = node.float_of("epsilon", 1e-12)
    is_simple = "Simplified" in node.kind
    if any(node.outputs[1:3]):
        raise UnsupportedError("mean and deviation are not given back")
    has_sum = len(node.outputs) > 3 and node.outputs[3]

    def function(x: Tensor, skip: Tensor, scale: Tensor, *rest: Tensor | None) -> Tensor | tuple[Tensor | None, ...]:
        shift = None if is_simple or not rest else rest[0]
        bias = rest[-1] if len(rest) == (1 if is_simple else 2) else None
        total = x + skip
        total = total if bias is None else total + bias
        if is_simple:
            y = total * torch.rsqrt(total.square().mean(-1, keepdim=True) + epsilon) * scale
        else:
            y = F.layer_norm(total, scale.shape, scale, shift, epsilon)
        return (y, None, None, total) if has_sum else y

    return function


@rule("LRN")
def local_response_norm(node: Node) -> Function:
    """Over neighboring channels."""
    size = node.int_of("size", 1)
    alpha, beta, bias = node.float_of("alpha", 1e-4), node.float_of("beta", 0.75), node.float_of("bias", 1.0)
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    channels = node.shape()[1]

    def function(x: Tensor) -> Tensor:
        inner = [0, 0] * (x.dim() - 2)
        squares = F.pad(x.square(), [*inner, before, after])
        total = squares[:, :channels]
        for shift in range(1, size):
            total = total + squares[:, shift : shift + channels]
        return x / (total * (alpha / size) + bias).pow(beta)

    return function


@rule("LpNormalization")
def lp_norm(node: Node) -> Function:
    """Along one axis; zeros stay zeros."""
    axis, power = node.axis(-1), node.int_of("p", 2)
    if power not in {1, 2}:
        raise UnsupportedError(f"p={power}")

    def function(x: Tensor) -> Tensor:
        length = x.abs().sum(axis, keepdim=True) if power == 1 else x.square().sum(axis, keepdim=True).sqrt()
        return x / torch.where(length == 0, torch.ones_like(length), length)

    return function


@rule("MeanVarianceNormalization")
def mean_variance_norm(node: Node) -> Function:
    """Over given axes; before version 9 over each channel or all of them."""
    axes = node.ints("axes", [0, 1, 2, 3] if node.int_of("across_channels") else [0, 2, 3])

    def function(x: Tensor) -> Tensor:
        centered = x - x.mean(axes, keepdim=True)
        if not node.int_of("normalize_variance", 1):
            return centered
        return centered / (centered.square().mean(axes, keepdim=True).sqrt() + 1e-9)

    return function


@rule("Softmax", "LogSoftmax", "Hardmax")
def softmax(node: Node) -> Function:
    """Along one axis; before version 13 over all axes from it on."""
    rank = node.rank()
    is_flat = node.opset < 13
    axis = node.axis(min(1, rank - 1) if is_flat else -1)
    functions: dict[str, Function] = {
        "Softmax": torch.softmax,
        "LogSoftmax": torch.log_softmax,
        "Hardmax": _hardmax,
    }
    function = functions[node.kind]
    shape = node.shape()
    if not is_flat or math.prod(shape[axis + 1 :]) == 1:
        return partial(function, dim=axis)
    if axis == rank - 1:
        return partial(function, dim=-1)
    before, after = math.prod(shape[:axis]), math.prod(shape[axis:])
    return lambda x: function(x.reshape(before, after), dim=-1).reshape(shape)


def _hardmax(x: Tensor, dim: int) -> Tensor:
    """Return 1 at the first of the largest elements, 0 elsewhere."""
    best = x.argmax(dim, keepdim=True)
    shape = [1] * x.dim()
    shape[dim] = x.shape[dim]
    return (torch.arange(x.shape[dim]).reshape(shape) == best).to(x.dtype)
