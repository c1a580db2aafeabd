"""Rules of reductions, and of what sorts and accumulates along an axis."""

from collections.abc import Callable
from typing import Final

import torch
from alcove.platform.cli.importing.onnx_files.errors import UnsupportedError
from alcove.platform.cli.importing.onnx_files.node import RULES, Function, Node, normalize_axis, rule
from torch import Tensor

Reduce = Callable[[Tensor, list[int], bool], Tensor]


def _product(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    for axis in sorted(axes, reverse=True):
        x = torch.prod(x, axis, keepdim=keep)
    return x


def _extreme(function: Function, x: Tensor, axes: list[int], keep: bool) -> Tensor:
    if x.dtype is torch.bool:
        levels: Tensor = function(x.to(torch.uint8), dim=axes, keepdim=keep)
        return levels.to(torch.bool)
    found: Tensor = function(x, dim=axes, keepdim=keep)
    return found


_REDUCTIONS: Final[dict[str, Reduce]] = {
    "ReduceL1": lambda x, axes, keep: x.abs().sum(axes, keepdim=keep),
    "ReduceL2": lambda x, axes, keep: x.square().sum(axes, keepdim=keep).sqrt(),
    "ReduceLogSum": lambda x, axes, keep: x.sum(axes, keepdim=keep).log(),
    "ReduceLogSumExp": lambda x, axes, keep: torch.logsumexp(x, axes, keepdim=keep),
    "ReduceMax": lambda x, axes, keep: _extreme(torch.amax, x, axes, keep),
    "ReduceMean": lambda x, axes, keep: x.mean(axes, keepdim=keep),
    "ReduceMin": lambda x, axes, keep: _extreme(torch.amin, x, axes, keep),
    "ReduceProd": _product,
    "ReduceSum": lambda x, axes, keep: x.sum(axes, keepdim=keep),
    "ReduceSumSquare": lambda x, axes, keep: x.square().sum(axes, keepdim=keep),
}


def _reduction(function: Reduce) -> Callable[[Node], Function]:
    def make(node: Node) -> Function:
        axes = node.axes(1)
        keep = bool(node.int_of("keepdims", 1))
        if not axes:
            if node.int_of("noop_with_empty_axes"):
                return lambda x, _axes=None: x if function is not _REDUCTIONS["ReduceL1"] else x.abs()
            axes = list(range(node.rank()))
        axes = [normalize_axis(axis, node.rank()) for axis in axes]
        dtype = node.tensor(0).dtype
        if not axes:
            return lambda x, _axes=None: function(x.unsqueeze(0), [0], False).to(dtype)
        return lambda x, _axes=None: function(x, axes, keep).to(dtype)

    return make


for _kind, _function in _REDUCTIONS.items():
    RULES[_kind] = _reduction(_function)


@rule("ArgMax", "ArgMin")
def arg_extreme(node: Node) -> Function:
    """The place of the first of the extreme elements, or of the last."""
    axis, keep = node.axis(0), bool(node.int_of("keepdims", 1))
    function = torch.argmax if node.kind == "ArgMax" else torch.argmin
    if not node.int_of("select_last_index"):
        return lambda x: function(x, axis, keepdim=keep)
    last = node.shape()[axis] - 1
    return lambda x: last - function(x.flip(axis), axis, keepdim=keep)


@rule("CumSum", "CumProd")
def cumulate(node: Node) -> Function:
    """With or without the element itself, from either end."""
    axis = normalize_axis(node.integers(1, "axis")[0], node.rank())
    is_exclusive, is_reversed = node.int_of("exclusive"), node.int_of("reverse")
    dtype = node.tensor(0).dtype
    function = torch.cumsum if node.kind == "CumSum" else torch.cumprod
    first = 0 if node.kind == "CumSum" else 1

    def along(x: Tensor, _axis: Tensor) -> Tensor:
        x = x.flip(axis) if is_reversed else x
        if is_exclusive:
            begin = torch.full_like(x.narrow(axis, 0, 1), first)
            x = torch.cat([begin, x.narrow(axis, 0, x.shape[axis] - 1)], axis)
        y = function(x, axis).to(dtype)
        return y.flip(axis) if is_reversed else y

    return along


@rule("TopK")
def top_k(node: Node) -> Function:
    """The largest or smallest elements along an axis, and where they were."""
    count = node.int_of("k") if "k" in node.attributes else node.integers(1, "k")[0]
    axis = node.axis(-1)
    if not 0 <= count <= node.shape()[axis]:
        raise UnsupportedError(f"k={count} of {node.shape()[axis]} elements")
    largest = bool(node.int_of("largest", 1))

    def function(x: Tensor, _count: Tensor | None = None) -> tuple[Tensor, ...]:
        # Of equal elements the first comes first, which torch's topk does not promise.
        found = torch.sort(x, dim=axis, descending=largest, stable=True)
        return found.values.narrow(axis, 0, count), found.indices.narrow(axis, 0, count)

    return function
