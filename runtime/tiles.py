"""Runs a program of a local network over a picture of any size in overlapping tiles, with the memory of one tile.

`alcove.runtime.compiler.tiling.export_tiled` finds how far a network sees and writes that into the program as its
method "tiling", so that halo, alignment and scale travel with the weights and are signed with them.

Invariants:

I1  Every output comes from one tile that holds all inputs that it depends on, or ends where the picture ends.
I2  A tile begins at a multiple of `step_px`, at which every layer's grid, and that of Winograd's tiles, begins anew.
I3  No tile is larger than `tile_px` on a side.

By I1 and I2 the answer has the bits of the whole picture's where `is_exact`; without it, of a network that sees further
than its halo, tiles differ where they meet.
"""

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from alcove.runtime.errors import ArgumentError, InputError, ProgramError

if TYPE_CHECKING:
    from alcove.runtime.model import Model, Session
    from numpy.typing import NDArray

METHOD: Final = "tiling"
"""Method of a program that gives its `Tiling` as numbers."""
_FIELDS: Final = 14


@dataclass(frozen=True)
class Axis:
    """How a network sees along the height or the width of a picture.

    Attributes:
        before_px: how many pixels before its own place an output depends on, in inputs.
        after_px: how many after it.
        step_px: a tile begins at a multiple of it.
        multiple_px: the picture's size is a multiple of it.
        scale: outputs for one input.
    """

    before_px: int
    after_px: int
    step_px: int
    multiple_px: int
    scale: Fraction


@dataclass(frozen=True)
class Tiling:
    """How a program is run in tiles; equal along both axes.

    Attributes:
        axis: what holds for height and for width.
        least_px: the smallest side that the program takes.
        tile_px: the largest side that the program takes, halo included.
        input_axes: where height and width are in the input's shape.
        output_axes: where they are in the output's.
        is_exact: whether the halo holds everything that an output depends on.
    """

    axis: Axis
    least_px: int
    tile_px: int
    input_axes: tuple[int, int]
    output_axes: tuple[int, int]
    is_exact: bool

    def as_numbers(self) -> list[int]:
        """Return the fields as whole numbers, in the order that `from_numbers` takes."""
        axis = self.axis
        scale = (axis.scale.numerator, axis.scale.denominator)
        reach = (axis.before_px, axis.after_px, axis.step_px, axis.multiple_px, *scale)
        return [1, *reach, self.least_px, self.tile_px, *self.input_axes, *self.output_axes, int(self.is_exact)]

    @staticmethod
    def from_numbers(numbers: "NDArray[Any] | list[int]") -> "Tiling":
        """Return the tiling that a program's method gives.

        Raises:
            ProgramError: the numbers are no tiling: another version or length, or out of range.
        """
        given = [int(each) for each in numbers]
        if len(given) != _FIELDS or given[0] != 1:
            raise _no_tiling(f"{given[:_FIELDS]} are not the {_FIELDS} numbers of version 1")
        _, before, after, step, multiple, up, down, least, tile, *axes, is_exact = given
        if min(before, after) < 0 or min(step, multiple, up, down, least) < 1 or step % multiple or tile < least:
            raise _no_tiling(f"{given} are out of range")
        tiling = Tiling(
            Axis(before, after, step, multiple, Fraction(up, down)),
            least,
            tile,
            (axes[0], axes[1]),
            (axes[2], axes[3]),
            bool(is_exact),
        )
        if (step * tiling.axis.scale).denominator != 1 or tiling.core_px(tile) < step:
            raise _no_tiling(f"{given}: a tile of {tile} pixels has no room beside its halo")
        return tiling

    def core_px(self, tile_px: int) -> int:
        """Return how many inputs a tile of a side answers for, beside its halo; below `step_px` for none."""
        axis = self.axis
        before = _up(axis.before_px, axis.step_px)
        return (tile_px - before - _up(axis.after_px, axis.multiple_px)) // axis.step_px * axis.step_px


@dataclass(frozen=True)
class Span:
    """One tile along one axis.

    Attributes:
        start: first input.
        stop: after the last input.
        first: first output that the tile gives, counted over the whole picture.
        last: after the last one; None at the picture's end.
        origin: which output of the whole picture the tile's own first one is.
    """

    start: int
    stop: int
    first: int
    last: int | None
    origin: int


def tiling_of(model: "Model", method: str = METHOD) -> Tiling:
    """Return how a program is run in tiles.

    Args:
        model: of the program.
        method: that says so; a program of several networks has one for each.

    Raises:
        ProgramError: it was not exported for tiles, or its method "tiling" gives something else.
    """
    try:
        numbers = model.method(method)()[0]
    except ArgumentError:
        raise _no_tiling(f"it has no method {method!r}; compiler.tiling.export_tiled makes one") from None
    return Tiling.from_numbers(numbers)


def spans(tiling: Tiling, size: int, tile_px: int) -> list[Span]:
    """Return the tiles along an axis of `size` pixels; one for what fits into a tile.

    Raises:
        InputError: the size is below the least one or not a multiple, or the tile has no room beside its halo.
    """
    axis = tiling.axis
    if size < tiling.least_px or size % axis.multiple_px:
        wanted = f"at least {tiling.least_px}" + f", a multiple of {axis.multiple_px}" * (axis.multiple_px > 1)
        raise InputError("picture", f"a side is {wanted} pixels, not {size}")
    if size <= tile_px:
        return [Span(0, size, 0, None, 0)]
    core = tiling.core_px(tile_px)
    if core < axis.step_px:
        least = tile_px + axis.step_px - core
        raise InputError("tile", f"{tile_px} pixels have no room beside the halo; at least {least} are needed")
    found = []
    for begin in range(0, size, core):
        end = min(size, begin + core)
        stop = min(size, _up(end + axis.after_px, axis.multiple_px))
        start = max(0, min(begin - axis.before_px, stop - tiling.least_px)) // axis.step_px * axis.step_px
        stop = min(size, max(stop, start + tiling.least_px))
        last = None if end == size else int(end * axis.scale)
        found.append(Span(start, stop, int(begin * axis.scale), last, int(start * axis.scale)))
    return found


def run_tiled(
    model: "Model",
    picture: "NDArray[Any]",
    *,
    tile: int | None = None,
    workers: int = 1,
    out: "NDArray[Any] | None" = None,
    method: str = METHOD,
) -> "NDArray[Any]":
    """Return a program's answer for a picture of any size.

    Args:
        model: of a program that `export_tiled` made.
        picture: with the axes and the type of the program's input; any strides.
        tile: largest side of a tile in pixels, halo included; None for the largest that the program takes.
        workers: threads, each with a session of its own: the memory is that of so many tiles.
        out: where to put the answer, such as a memory-mapped file; None for a new array.
        method: that gives the tiling.

    Returns:
        `out`, or a new array.

    Raises:
        ProgramError: the program was not exported for tiles.
        InputError: the picture, the tile or `out` does not fit.
        ValueError: there is no worker.
    """
    if workers < 1:
        raise ValueError(f"workers must be at least 1, not {workers}")
    tiling = tiling_of(model, method)
    if tile is not None and not 1 <= tile <= tiling.tile_px:
        raise InputError("tile", f"a side is 1 to {tiling.tile_px} pixels, not {tile}")
    rank = len(model.inputs[0].shape)
    if np.ndim(picture) != rank:
        raise InputError("picture", f"an array of {rank} axes, not of {np.ndim(picture)}")
    rows, columns = (spans(tiling, picture.shape[axis], tile or tiling.tile_px) for axis in tiling.input_axes)
    *places, corner = [(row, column) for row in rows for column in columns]
    session = model.session()
    answer = session(_cut(picture, tiling, *corner))[0]
    whole = _whole(answer, tiling, corner, out)
    _place(whole, answer, tiling, *corner)
    if workers == 1:
        for place in places:
            _place(whole, session(_cut(picture, tiling, *place))[0], tiling, *place)
        return whole
    idle: SimpleQueue[Session] = SimpleQueue()
    for each in [session, *(model.session() for _ in range(workers - 1))]:
        idle.put(each)

    def work(place: tuple[Span, Span]) -> None:
        own = idle.get()
        try:
            _place(whole, own(_cut(picture, tiling, *place))[0], tiling, *place)
        finally:
            idle.put(own)

    with ThreadPoolExecutor(workers) as pool:
        _finish(pool.map(work, places))
    return whole


def _cut(picture: "NDArray[Any]", tiling: Tiling, row: Span, column: Span) -> "NDArray[Any]":
    """Return the inputs of a tile."""
    rows, columns = slice(row.start, row.stop), slice(column.start, column.stop)
    return np.ascontiguousarray(picture[_index(picture.ndim, tiling.input_axes, rows, columns)])


def _whole(
    answer: "NDArray[Any]", tiling: Tiling, corner: tuple[Span, Span], out: "NDArray[Any] | None"
) -> "NDArray[Any]":
    """Return the array of the whole answer; its size follows from the last tile's.

    Raises:
        InputError: `out` is another one.
    """
    shape = list(answer.shape)
    for axis, span in zip(tiling.output_axes, corner, strict=True):
        shape[axis] += span.origin
    if out is not None and (out.shape != tuple(shape) or out.dtype != answer.dtype):
        raise InputError("out", f"{answer.dtype} {shape}, not {out.dtype} {list(out.shape)}")
    return np.empty(shape, answer.dtype) if out is None else out


def _place(whole: "NDArray[Any]", answer: "NDArray[Any]", tiling: Tiling, row: Span, column: Span) -> None:
    """Copy what a tile gives into the whole answer."""
    to, of = [], []
    for axis, span in zip(tiling.output_axes, (row, column), strict=True):
        size = whole.shape[axis]
        last = size if span.last is None else min(span.last, size)
        first = min(span.first, last)  # a network without padding gives less than it takes
        to.append(slice(first, last))
        of.append(slice(first - span.origin, last - span.origin))
    whole[_index(whole.ndim, tiling.output_axes, *to)] = answer[_index(whole.ndim, tiling.output_axes, *of)]


def _finish(results: Iterator[None]) -> None:
    """Wait for all; raise what the first one that failed raised."""
    for _ in results:
        pass


def _index(rank: int, axes: tuple[int, int], rows: slice, columns: slice) -> tuple[slice, ...]:
    index = [slice(None)] * rank
    index[axes[0]], index[axes[1]] = rows, columns
    return tuple(index)


def _up(value: int, step: int) -> int:
    return math.ceil(value / step) * step


def _no_tiling(why: str) -> ProgramError:
    return ProgramError("program", None, None, "tiling", f"the program cannot be run in tiles: {why}")
