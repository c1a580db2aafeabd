"""Computes with orders of dimensions: composes and inverts them, and finds them in reshapes and copies.

An order says how a tensor is seen: `view = base permuted by order` has `view.shape[i] == base.shape[order[i]]`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from alcove.runtime.compiler.builder import row_major_strides
from alcove.runtime.compiler.sizes import is_at_most

Permutation = tuple[int, ...]


def is_identity(order: Permutation) -> bool:
    """Return whether the view is the base."""
    return order == tuple(range(len(order)))


def inverse(order: Permutation) -> Permutation:
    """Return the order that undoes `order`."""
    undone = [0] * len(order)
    for position, axis in enumerate(order):
        undone[axis] = position
    return tuple(undone)


def compose(first: Permutation, second: Permutation) -> Permutation:
    """Return the order of a view, by `second`, of a view, by `first`, of the base."""
    return tuple(first[axis] for axis in second)


def apply(order: Permutation, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of a view whose base has `shape`."""
    return tuple(shape[axis] for axis in order)


def keeps_elements(order: Permutation, shape: Sequence[int]) -> bool:
    """Return whether base (of `shape`) and view have their elements in the same row-major order."""
    moved = [axis for axis in order if shape[axis] != 1]
    return moved == sorted(moved)


def order_of_ones(shape: Sequence[int], out: Sequence[int]) -> Permutation | None:
    """Return the order by which a reshape of `shape` to `out` moves dimensions of size 1, or None if it does not."""
    kept = [axis for axis, size in enumerate(shape) if size != 1]
    ones = [axis for axis, size in enumerate(shape) if size == 1]
    is_same = len(shape) == len(out) and [shape[axis] for axis in kept] == [size for size in out if size != 1]
    if not is_same or tuple(shape) == tuple(out):
        return None
    return tuple(ones.pop(0) if size == 1 else kept.pop(0) for size in out)


def order_of_strides(
    shape: Sequence[int], out: Sequence[int], offset: int, strides: Sequence[int]
) -> Permutation | None:
    """Return the order by which a strided copy sees its input of `shape`, or None if it is no permutation."""
    if offset != 0 or len(shape) != len(out):
        return None
    free = list(range(len(shape)))
    own = row_major_strides(shape)
    order: list[int] = []
    for size, stride in zip(out, strides, strict=False):
        fitting = [axis for axis in free if shape[axis] == size and (size == 1 or own[axis] == stride)]
        if not fitting:
            return None
        order.append(fitting[0])
        free.remove(fitting[0])
    return tuple(order)


def steps_of_strides(
    shape: Sequence[int], out: Sequence[int], offset: int, strides: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return (start, step) of each dimension if a strided copy slices an input of `shape`, or None if it does not.

    Dimensions stay in their order; a step of 0 repeats the one element at its start.
    """
    if len(shape) != len(out):
        return None
    starts, steps = [], []
    for size, count, own, stride in zip(shape, out, row_major_strides(shape), strides, strict=False):
        start, offset = divmod(offset, own)
        step = stride // own if count != 1 else 0
        is_within = start < size and 0 <= start + (count - 1) * step < size
        if not is_within or (count != 1 and stride % own):
            return None
        starts.append(start)
        steps.append(step)
    return tuple(starts), tuple(steps)


@dataclass(frozen=True)
class Copy:
    """What a strided copy reads: `out[i...] = source.flat[offset + sum(i * stride)]`.

    Attributes:
        offset: in elements of the source.
        strides: one a dimension of the result, any sign.
    """

    offset: int
    strides: tuple[int, ...]

    def then(self, shape: Sequence[int], out: Sequence[int], second: "Copy") -> "Copy | None":
        """Return this copy and a second one of its result as one copy of the source, or None if none is both.

        Args:
            shape: of what this copy makes.
            out: of what the second makes of that.
            second: reads what this one makes.
        """
        own = row_major_strides(shape)
        low, rest = [], second.offset
        for stride in own:
            place, rest = divmod(rest, stride)
            low.append(place)
        high = list(low)
        strides = []
        for size, stride in zip(out, second.strides, strict=True):
            if size == 1 or stride == 0:
                strides.append(0)
                continue
            axes = [axis for axis, step in enumerate(own) if shape[axis] != 1 and stride % step == 0]
            if not axes:
                return None
            axis = axes[0]  # the outermost that fits: an inner one would be left
            step = stride // own[axis]
            reach = (size - 1) * step
            low[axis], high[axis] = low[axis] + min(reach, 0), high[axis] + max(reach, 0)
            strides.append(step * self.strides[axis])
        if any(first < 0 or last >= size for first, last, size in zip(low, high, shape, strict=True)):
            return None
        rest, offset = second.offset, self.offset
        for stride, step in zip(own, self.strides, strict=True):
            place, rest = divmod(rest, stride)
            offset += place * step
        return Copy(offset, tuple(strides))


def reshape_view(
    order: Permutation, shape: Sequence[int], out: Sequence[int]
) -> tuple[Permutation, tuple[int, ...]] | None:
    """Return the order and the base's shape after the view is reshaped to `out`, without moving an element.

    Args:
        order: of the view.
        shape: of the base.
        out: of the reshaped view.

    Returns:
        None if dimensions that the base has apart would have to be one.
    """
    view = apply(order, shape)
    parts: list[tuple[list[int], list[int]]] = []  # axes of the view, axes of `out`: as many elements
    i = j = 0
    while i < len(view) or j < len(out):
        ours, theirs = [i] if i < len(view) else [], [j] if j < len(out) else []
        i, j = i + len(ours), j + len(theirs)
        while (mine := math.prod(view[axis] for axis in ours)) != (yours := math.prod(out[axis] for axis in theirs)):
            if i < len(view) and is_at_most(mine, yours):
                ours.append(i)
                i += 1
            elif j < len(out) and is_at_most(yours, mine):
                theirs.append(j)
                j += 1
            else:
                return None  # which is more changes with the sizes
        parts.append((ours, theirs))
    starts: dict[int, list[int]] = {}  # base's first axis of a part -> axes of `out`
    loose: list[int] = []  # axes of `out`, of size 1, that stand for nothing in the base
    for ours, theirs in parts:
        axes = [order[axis] for axis in ours if view[axis] != 1]
        if not axes:
            loose += theirs
            continue
        between = [axis for axis in range(axes[0], axes[-1]) if axis not in axes and shape[axis] != 1]
        if between or axes != sorted(axes):
            return None
        starts[axes[0]] = theirs
    based = [axis for start in sorted(starts) for axis in starts[start]] + loose
    return inverse(tuple(based)), tuple(out[axis] for axis in based)
