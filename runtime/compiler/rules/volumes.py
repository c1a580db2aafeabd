"""Lowers sampling of volumes on a grid.

Rows of the volume, one for each voxel, are read where the grid says and added up with their weights, in torch's order.
"""

import math
from functools import reduce
from itertools import product
from typing import Final

from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules.indexing import select_rows
from alcove.runtime.compiler.rules.registry import Call, Refused, rule
from alcove.runtime.compiler.sizes import Size
from alcove.runtime.format.attributes import ArangeAttributes
from alcove.runtime.format.spec import DType

_NEAREST: Final = 1
_ZEROS, _REFLECTION = 0, 2


@rule("aten.grid_sampler_3d.default")
def grid_sampler(call: Call, b: Builder) -> Value:
    """Bilinear or nearest, every padding."""
    x, grid = call.tensor("input"), call.tensor("grid")
    if x.dtype is not DType.F32 or grid.dtype is not DType.F32:
        raise Refused("a volume and a grid in float32; convert them first")
    if any(isinstance(size, Size) for size in x.shape[2:]):
        raise Refused("a volume whose depth, height and width are fixed; batch and grid may vary")
    padding, align_corners = int(call["padding_mode"]), bool(call["align_corners"])
    many, channels, sizes = x.shape[0], x.shape[1], x.shape[2:]
    points = math.prod(grid.shape[1:4])
    flat = b.reshape(grid, (many * points, 3))
    places = [  # the grid has x, y, z
        _coordinates(b, b.slice(flat, 1, 2 - axis, 3 - axis), size, padding, align_corners=align_corners)
        for axis, size in enumerate(sizes)
    ]
    voxels = math.prod(sizes)
    rows = b.reshape(b.permute(x, (0, 2, 3, 4, 1)), (many * voxels, channels))
    first = _first_rows(b, many, points, voxels)
    if int(call["interpolation_mode"]) == _NEAREST:
        corners: list[tuple[list[Value], Value | None]] = [([b.unary("round", place) for place in places], None)]
    else:
        lower = [b.unary("floor", place) for place in places]
        corners = [_corner(b, places, lower, steps) for steps in product((0, 1), repeat=3)]
    parts = []
    for corner, weight in corners:
        read, is_within = _read(b, rows, first, corner, sizes)
        sample = read if weight is None else b.binary("mul", read, weight)
        parts.append(b.where(is_within, sample, b.scalar(0.0, DType.F32)))
    result = reduce(lambda total, part: b.binary("add", total, part), parts)
    return b.permute(b.reshape(result, (many, *grid.shape[1:4], channels)), (0, 4, 1, 2, 3))


def _coordinates(b: Builder, x: Value, size: int, padding: int, *, align_corners: bool) -> Value:
    """Return where in a dimension of `size` voxels the coordinates of a grid are, [-1, 1], and what pads maps there."""
    one, half = b.scalar(1.0, DType.F32), b.scalar(0.5, DType.F32)
    x = b.binary("add", x, one)
    if align_corners:
        x = b.binary("mul", b.binary("mul", x, half), b.scalar(size - 1, DType.F32))
    else:
        x = b.binary("mul", b.binary("sub", b.binary("mul", x, b.scalar(size, DType.F32)), one), half)
    if padding == _REFLECTION:
        low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
        x = _reflect(b, x, low, span)
    if padding == _ZEROS:
        return x
    last = b.scalar(size - 1.0, DType.F32)
    return b.where(b.unary("isnan", x, dtype=DType.BOOL), last, b.unary("clamp", x, 0.0, size - 1.0))


def _reflect(b: Builder, x: Value, low: float, span: float) -> Value:
    """Return coordinates mirrored at `low` and `low + span` until they are between."""
    if span == 0:
        return b.binary("mul", x, b.scalar(0.0, DType.F32))
    minimum, width = b.scalar(low, DType.F32), b.scalar(span, DType.F32)
    distance = b.unary("abs", b.binary("sub", x, minimum))
    rest = b.binary("fmod", distance, width)
    flips = b.unary("floor", b.binary("div", distance, width))
    is_even = b.binary(
        "eq", b.binary("remainder", flips, b.scalar(2.0, DType.F32)), b.scalar(0.0, DType.F32), DType.BOOL
    )
    there, back = b.binary("add", rest, minimum), b.binary("add", b.binary("sub", width, rest), minimum)
    return b.where(is_even, there, back)


def _corner(b: Builder, places: list[Value], lower: list[Value], steps: tuple[int, ...]) -> tuple[list[Value], Value]:
    """Return one of the eight voxels around each place, and its weight: the volume on the other side."""
    one = b.scalar(1.0, DType.F32)
    highs = [b.binary("add", low, one) for low in lower]
    corner = [high if step else low for low, high, step in zip(lower, highs, steps, strict=True)]
    weights = [
        b.binary("sub", place, low) if step else b.binary("sub", high, place)
        for place, low, high, step in zip(places, lower, highs, steps, strict=True)
    ]
    return corner, reduce(lambda total, part: b.binary("mul", total, part), reversed(weights))  # torch begins with x


def _first_rows(b: Builder, many: int, points: int, voxels: int) -> Value | None:
    """Return the first row of the volume that each point reads, int64 [many * points, 1]; None for one volume."""
    if many == 1:
        return None
    number = b.op("arange", [], DType.I64, (many,), ArangeAttributes(start=0.0, step=float(voxels)))
    return b.reshape(b.expand(b.reshape(number, (many, 1, 1)), (many, points, 1)), (many * points, 1))


def _read(
    b: Builder, rows: Value, first: Value | None, corner: list[Value], sizes: tuple[int, ...]
) -> tuple[Value, Value]:
    """Return the voxels [points, channels] at whole coordinates, and which are within the volume [points, 1]."""
    row, inside = b.scalar(0, DType.I64), []
    for place, size in zip(corner, sizes, strict=True):
        nearest = b.unary("clamp", place, 0.0, size - 1.0)
        index = b.cast(b.unary("nan_to_num", nearest), DType.I64)
        row = b.binary("add", b.binary("mul", row, b.scalar(size, DType.I64)), index)
        inside.append(b.binary("eq", nearest, place, DType.BOOL))
    row = row if first is None else b.binary("add", row, first)
    is_within = reduce(lambda one, other: b.binary("bitwise_and", one, other), inside)
    return select_rows(b, rows, b.reshape(row, (row.shape[0],)), 0, wraps=False), is_within
