"""Elements that move: copies, joins, pads, indices and scatters, element by element."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from tests.kernels.reference.layouts import Array, read_int8


def strided_places(shape: tuple[int, ...], a: Any) -> Array:
    """Return the place of each element of a view."""
    places = np.empty(shape, np.int64)
    for index in np.ndindex(*shape):
        places[index] = a.offset + sum(i * stride for i, stride in zip(index, a.strides, strict=False))
    return places


def as_strided_copy(a: Any, x: Array, *, shape: tuple[int, ...]) -> list[Array]:
    """The elements of a view."""
    return [x.reshape(-1)[strided_places(shape, a)]]


def as_strided_scatter(a: Any, x: Array, source: Array) -> list[Array]:
    """A view overwritten."""
    y = x.copy()
    y.reshape(-1)[strided_places(source.shape, a)] = source
    return [y]


def concat(a: Any, *parts: Array) -> list[Array]:
    """One after the other."""
    return [np.concatenate(parts, a.axis)]


def pad(a: Any, x: Array) -> list[Array]:
    """Margins: constant, reflection, edge, wrap."""
    margins = list(zip(a.before, a.after, strict=True))[: x.ndim]
    if a.mode == 0:
        value = np.array([a.bits], np.uint64).view(x.dtype)[0]
        return [np.pad(x, margins, constant_values=value)]
    return [np.pad(x, margins, mode=("reflect", "edge", "wrap")[a.mode - 1])]


def reshape(_: Any, x: Array, *, shape: tuple[int, ...]) -> list[Array]:
    """The same elements in order."""
    return [x.reshape(shape)]


def arange(a: Any, *, shape: tuple[int, ...]) -> list[Array]:
    """Numbers at equal distances."""
    return [a.start + a.step * np.arange(shape[0])]


def fill(a: Any, *, shape: tuple[int, ...]) -> list[Array]:
    """One float32 everywhere."""
    return [np.full(shape, np.array([a.bits], np.uint64).view(np.float32)[0])]


def index_select(a: Any, x: Array, indices: Array) -> list[Array]:
    """Rows by index."""
    return [np.take(x, indices, a.axis)]


def gather(a: Any, x: Array, indices: Array) -> list[Array]:
    """Elements by an index each along one axis."""
    y = np.empty(indices.shape, x.dtype)
    for at in np.ndindex(*indices.shape):
        y[at] = x[(*at[: a.axis], indices[at], *at[a.axis + 1 :])]
    return [y]


COMBINE: tuple[Callable[[Any, Any], Any], ...] = (lambda _, new: new, np.add, np.multiply, np.maximum, np.minimum)


def scatter(a: Any, x: Array, indices: Array, source: Array) -> list[Array]:
    """Elements go to an index each along one axis."""
    y, seen = x.copy(), np.full(x.shape, bool(a.includes_self))
    for at in np.ndindex(*indices.shape):
        to = (*at[: a.axis], indices[at], *at[a.axis + 1 :])
        y[to] = COMBINE[a.mode](y[to], source[at]) if seen[to] else source[at]
        seen[to] = True
    return [y]


def index_put(a: Any, x: Array, indices: Array, source: Array) -> list[Array]:
    """Rows go to an index each."""
    y, seen = x.copy(), np.full(x.shape[a.axis], bool(a.includes_self))
    for at in np.ndindex(*indices.shape):
        before: tuple[Any, ...] = (slice(None),) * a.axis
        to, row = (*before, indices[at]), source[(*before, *at)]
        y[to] = COMBINE[a.mode](y[to], row) if seen[indices[at]] else row
        seen[indices[at]] = True
    return [y]


def write_rows(a: Any, x: Array, indices: Array, source: Array) -> list[Array]:
    """What the state becomes: rows go to an index each."""
    y = x.copy()
    for at in np.ndindex(*indices.shape):
        before: tuple[Any, ...] = (slice(None),) * a.axis
        y[(*before, indices[at])] = source[(*before, *at)]
    return [y]


def ravel_multi_index(a: Any, *indices: Array) -> list[Array]:
    """One number for a place in several dimensions."""
    bounds = a.bounds[: len(indices)]
    return [np.ravel_multi_index([np.where(i < 0, i + n, i) for i, n in zip(indices, bounds, strict=True)], bounds)]


def tril_triu(a: Any, x: Array) -> list[Array]:
    """The lower or upper part of each matrix."""
    return [np.triu(x, a.diagonal) if a.is_upper else np.tril(x, a.diagonal)]


def searchsorted(a: Any, boundaries: Array, x: Array) -> list[Array]:
    """How many boundaries are below each value, or not above it; the boundaries are sorted."""
    below = boundaries[:, None] <= x.reshape(-1) if a.is_right else boundaries[:, None] < x.reshape(-1)
    return [below.sum(0).reshape(x.shape)]


def embed(a: Any, table: Array, bag: Array) -> Array:
    """Return the sum, mean or greatest of the rows of a bag that are no padding."""
    rows = table[[i for i in bag if i != getattr(a, "padding", -1)]].astype(np.float64)
    if len(rows) == 0:
        return np.zeros(table.shape[1])
    return np.asarray((rows.sum(0), rows.mean(0), rows.max(0))[a.mode])


def text_embedding_bag(a: Any, ids: Array, table: Array, *scale: Array) -> list[Array]:
    """One bag of all ids."""
    y = embed(a, table, ids)[None]
    return [y * scale[0].astype(np.float64) if scale else y]


def embedding_bag_offsets(a: Any, ids: Array, table: Array, *offsets: Array) -> list[Array]:
    """A bag for each row of ids, or between offsets."""
    bags = np.split(ids, offsets[0][1:]) if offsets else list(ids)
    return [np.stack([embed(a, table, bag) for bag in bags])]


def embedding_i8(_: Any, ids: Array, table: Array, scale: Array) -> list[Array]:
    """Rows of int8 with a scale for each column."""
    return [table[ids].astype(np.float64) * scale]


def embedding_panels(a: Any, ids: Array, table: Any, *, shape: tuple[int, ...]) -> list[Array]:
    """Rows of the weights of a product; forms are float32, int8, and int4 in groups with whole or half scales."""
    width = shape[-1]
    if a.form == 0:
        return [table.weight[ids]]
    if a.form == 1:
        layer = read_int8(table, a.rows, width)
        return [(layer.weight * layer.scales[:, None].astype(np.float64))[ids]]
    panels, count = len(table), -(-width // a.group)
    if a.form == 2:
        blocks = table.reshape(panels, count, 64 + 8 * a.group)
        scales, words = blocks[..., :64].copy().view(np.float32), blocks[..., 64:].copy().view(np.uint32)
        places = 4 * np.arange(8, dtype=np.uint32)
    else:
        head = 64 * -(-count // 2)
        halves = table[:, :head].copy().view(np.uint16).reshape(panels, -1, 16)[:, :count]
        scales, words = (halves.astype(np.uint32) << 16).view(np.float32), table[:, head:].copy().view(np.uint32)
        places = np.array([8 * (j % 4) + 4 * (j // 4) for j in range(8)], np.uint32)
    words = words.reshape(panels, count, a.group // 8, 16, 1) >> places & 15
    weight = (words.astype(np.float64) - 8).transpose(0, 3, 1, 2, 4).reshape(panels, 16, count, a.group)
    rows = (weight * scales.astype(np.float64).transpose(0, 2, 1)[..., None]).reshape(panels * 16, -1)
    return [rows[:, :width][ids]]


def windows(size: int, out: int, *window: int) -> list[list[tuple[int, int]]]:
    """Return for each output the pairs (tap, input) inside the input; a window is kernel, stride, padding, dilation."""
    kernel, stride, padding, dilation = window
    places = [[(t, o * stride - padding + t * dilation) for t in range(kernel)] for o in range(out)]
    return [[(t, i) for t, i in taps if 0 <= i < size] for taps in places]


def pairs(rows: list[tuple[int, int]], columns: list[tuple[int, int]]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the taps of a window and where each lies in the input."""
    return [((r, c), (i, j)) for (r, i), (c, j) in product(rows, columns)]
