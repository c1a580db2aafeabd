"""Rules of operators that pick elements by indices, and write at them."""

import math
from typing import Final

import torch
from alcove.platform.cli.importing.onnx_files.errors import CUT, UnsupportedError
from alcove.platform.cli.importing.onnx_files.node import Function, Node, normalize_axis, rule
from torch import Tensor

_REDUCE: Final = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def positive(indices: Tensor, size: int) -> Tensor:
    """Return indices counted from the front."""
    indices = indices.long()
    return torch.where(indices < 0, indices + size, indices)


def _known_places(node: Node, index: int, size: int) -> list[int] | None:
    """Return indices that are known, counted from the front."""
    value = node.value(index)
    if value is None or not value.is_constant:
        return None
    found = node.integers(index, "indices")
    if any(not -size <= place < size for place in found):
        raise UnsupportedError(f"an index is outside of {size} elements")
    return [place + size if place < 0 else place for place in found]


@rule("Gather")
def gather(node: Node) -> Function:
    """Slices along an axis; by a number that is known it is a plain choice."""
    axis = node.axis(0)
    shape, picked = node.shape(), node.shape(1)
    size = shape[axis]
    result = (*shape[:axis], *picked, *shape[axis + 1 :])
    places = _known_places(node, 1, size)
    if places is not None and len(places) == 1:
        only = places[0]
        return lambda x, _indices: x.narrow(axis, only, 1).reshape(result)
    if places and places == list(range(places[0], places[0] + len(places))):
        first, count = places[0], len(places)
        return lambda x, _indices: x.narrow(axis, first, count).reshape(result)
    if places is not None:
        return lambda x, indices: x.index_select(axis, positive(indices, size).reshape(-1)).reshape(result)
    if axis == 0 and len(shape) == 2:
        return lambda x, indices: torch.nn.functional.embedding(positive(indices, size), x)
    return lambda x, indices: x.index_select(axis, positive(indices, size).reshape(-1)).reshape(result)


@rule("GatherElements")
def gather_elements(node: Node) -> Function:
    """One index an element."""
    axis = node.axis(0)
    size = node.shape()[axis]
    return lambda x, indices: torch.gather(x, axis, positive(indices, size))


def _flat_indices(shape: tuple[int, ...], indices: Tensor) -> Tensor:
    """Return the place among all slices that indices [..., k] name, for a tensor whose first axes have `shape`."""
    flat = positive(indices[..., 0], shape[0])
    for axis in range(1, len(shape)):
        flat = flat * shape[axis] + positive(indices[..., axis], shape[axis])
    return flat


@rule("GatherND")
def gather_nd(node: Node) -> Function:
    """Slices named by their first coordinates."""
    shape, picked = node.shape(), node.shape(1)
    batch = node.int_of("batch_dims")
    depth = picked[-1]
    if not 1 <= depth <= len(shape) - batch:
        raise UnsupportedError(f"indices of {depth} coordinates for a tensor {list(shape)}")
    inner = shape[batch + depth :]
    result = (*picked[:-1], *inner)
    batches, choices = math.prod(shape[:batch]), math.prod(shape[batch : batch + depth])
    width, count = math.prod(inner), math.prod(picked[batch:-1])
    coordinates = shape[batch : batch + depth]

    def function(x: Tensor, indices: Tensor) -> Tensor:
        flat = _flat_indices(coordinates, indices).reshape(batches, count)
        if batches > 1:
            flat = flat + (torch.arange(batches) * choices)[:, None]
        return x.reshape(batches * choices, width).index_select(0, flat.reshape(-1)).reshape(result)

    return function


@rule("ScatterElements", "Scatter")
def scatter_elements(node: Node) -> Function:
    """Written one by one, or added, multiplied, compared."""
    axis, reduction = node.axis(0), node.text_of("reduction", "none")
    size = node.shape()[axis]
    if reduction == "none":
        return lambda x, indices, updates: x.scatter(axis, positive(indices, size), updates)
    if reduction not in _REDUCE:
        raise UnsupportedError(f"reduction {reduction!r}")
    how = _REDUCE[reduction]
    return lambda x, indices, updates: x.scatter_reduce(axis, positive(indices, size), updates, how)


@rule("ScatterND")
def scatter_nd(node: Node) -> Function:
    """Slices are written at their first coordinates."""
    shape, picked = node.shape(), node.shape(1)
    depth, reduction = picked[-1], node.text_of("reduction", "none")
    if reduction != "none" and reduction not in _REDUCE:
        raise UnsupportedError(f"reduction {reduction!r}")
    if not 1 <= depth <= len(shape):
        raise UnsupportedError(f"indices of {depth} coordinates for a tensor {list(shape)}")
    coordinates, width = shape[:depth], math.prod(shape[depth:])
    rows, count = math.prod(coordinates), math.prod(picked[:-1])

    def function(x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
        flat = _flat_indices(coordinates, indices).reshape(count, 1).expand(count, width)
        source, table = updates.reshape(count, width), x.reshape(rows, width)
        if reduction == "none":
            return table.scatter(0, flat, source).reshape(shape)
        return table.scatter_reduce(0, flat, source, _REDUCE[reduction]).reshape(shape)

    return function


@rule("OneHot")
def one_hot(node: Node) -> Function:
    """Two values, of which the second is where the index says."""
    depth = node.integers(1, "depth")[0]
    rank = node.rank() + 1
    axis = normalize_axis(node.int_of("axis", -1), rank)
    dtype = node.tensor(2).dtype

    def function(indices: Tensor, _depth: Tensor, values: Tensor) -> Tensor:
        places = positive(indices, depth).unsqueeze(axis)
        classes = torch.arange(depth).reshape([depth if each == axis else 1 for each in range(rank)])
        return torch.where(places == classes, values[1], values[0]).to(dtype)

    return function


def _require_constants(node: Node, why: str) -> None:
    if not node.is_folded:
        raise UnsupportedError(why)


@rule("NonZero")
def non_zero(node: Node) -> Function:
    """Of constants: how many there are must be known."""
    _require_constants(node, f"how many elements are not zero depends on the inputs; {CUT}")
    return lambda x: torch.nonzero(x).T.contiguous()


@rule("Compress")
def compress(node: Node) -> Function:
    """What a condition that is known keeps."""
    places = [i for i, keeps in enumerate(node.constant(1, "condition").flatten().tolist()) if keeps]
    if "axis" not in node.attributes:
        return lambda x, _condition: x.reshape(-1).index_select(0, torch.tensor(places, dtype=torch.int64))
    axis = node.axis(0)
    return lambda x, _condition: x.index_select(axis, torch.tensor(places, dtype=torch.int64))


@rule("ReverseSequence")
def reverse_sequence(node: Node) -> Function:
    """The first elements of each sequence, by lengths that are known."""
    time, batch = node.int_of("time_axis"), node.int_of("batch_axis", 1)
    lengths = node.integers(1, "sequence_lens")
    steps = node.shape()[time]
    if any(not 0 <= length <= steps for length in lengths) or {time, batch} != {0, 1}:
        raise UnsupportedError(f"lengths {lengths} of {steps} steps")
    table = [[length - 1 - i if i < length else i for i in range(steps)] for length in lengths]

    def function(x: Tensor, _lengths: Tensor) -> Tensor:
        places = torch.tensor(table, dtype=torch.int64)
        places = places if batch == 0 else places.T
        return torch.gather(x, time, places.reshape(*places.shape, *(1,) * (x.dim() - 2)).expand(x.shape))

    return function
