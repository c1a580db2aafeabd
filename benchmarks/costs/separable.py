"""Measures inverted residuals, operator by operator and some rows at a time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Final

import numpy as np
from alcove.runtime.compiler.costs import SEPARABLE_NS, Separable
from alcove.runtime.compiler.fuse_depthwise_separable import choose_rows
from alcove.runtime.format.spec import DType
from alcove.runtime.model import load
from alcove.runtime.testing import Assembly
from rich.progress import track

from benchmarks.costs.fit import Fit, fit, lowest

SIDES: Final = (7, 14, 28, 56, 112)
CHANNELS: Final = (
    (0, 32, 64),
    (16, 64, 24),
    (24, 96, 24),
    (24, 144, 24),
    (32, 192, 32),
    (40, 240, 40),
    (64, 384, 64),
    (96, 576, 96),
    (192, 1152, 192),
)
"""Inputs (0 without an expansion), channels between, outputs."""
WINDOWS: Final = ((3, 1), (3, 2), (5, 1))
"""Kernel and stride of the depthwise convolution."""
ROWS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
MOST: Final = 4_000_000
"""Numbers of the expanded image beyond this take too long."""
FAR_BYTES: Final = 8 << 20
"""Calls go round programs with as many weights, so that each finds its own far away, as in a network."""
MOST_PROGRAMS: Final = 8
WRONG: Final = 1.1
FREE: Final = (0, -np.inf, np.inf)


@dataclass(frozen=True)
class Measured:
    """One block in all its forms, the lowest of several times, in ns; 0 rows at a time: operator by operator."""

    sizes: Separable
    by_rows: Mapping[int, float]

    @property
    def chosen(self) -> int:
        """What the exporter would take of those that were timed."""
        rows = choose_rows(self.sizes)
        return min(self.by_rows, key=lambda timed: abs(timed - rows)) if rows else 0

    @property
    def problem(self) -> str:
        """What is wrong with the choice; "" if it costs less than a tenth."""
        if self.excess < WRONG:
            return ""
        best = min(self.by_rows, key=lambda rows: self.by_rows[rows])
        times = ", ".join(f"{rows}: {spent / 1000:.0f}" for rows, spent in self.by_rows.items())
        return f"{self.sizes}, {self.chosen} rows at a time instead of {best}; µs by rows at a time {times}"

    @property
    def excess(self) -> float:
        """Time of the choice as a multiple of the best form's."""
        return self.by_rows[self.chosen] / min(self.by_rows.values())

    @property
    def plain_excess(self) -> float:
        """Time of one operator after the other as a multiple of the best form's."""
        return self.by_rows[0] / min(self.by_rows.values())


def measure(*, is_quiet: bool) -> list[Measured]:
    """Time every size with every number of rows at a time."""
    return [_measure(sizes) for sizes in track(list(_grid()), "separable", disable=is_quiet)]


def fits(measured: Sequence[Measured]) -> list[Fit]:
    """Return the costs; both forms count the same things."""
    points = [(each.sizes.counts(rows), spent) for each in measured for rows, spent in each.by_rows.items()]
    return [fit("separable", points, SEPARABLE_NS)]


def _grid() -> Iterator[Separable]:
    for side in SIDES:
        for inputs, channels, outputs in CHANNELS:
            for kernel, stride in WINDOWS:
                if side * side * channels <= MOST:
                    out = side // stride
                    yield Separable(1, side, side, out, out, inputs, channels, outputs, (kernel, kernel), stride)


def _measure(sizes: Separable) -> Measured:
    rows = [0, *(rows for rows in ROWS if rows <= sizes.rows)]
    x = np.random.default_rng(1).standard_normal((1, sizes.in_rows, sizes.in_columns, sizes.read), np.float32)
    count = max(1, min(FAR_BYTES // sizes.weight_bytes, MOST_PROGRAMS))
    return Measured(sizes, lowest({each: _call(_program(sizes, each), count, x) for each in rows}))


def _call(program: bytes, count: int, x: object) -> Callable[[], object]:
    """Return a call of one program after the other, each with weights of its own."""
    sessions = cycle([load(bytes(memoryview(program))).session() for _ in range(count)])
    return lambda: next(sessions)(x)


def _program(sizes: Separable, rows: int) -> bytes:
    """Return the block, `rows` at a time or, with 0, in three operators or two."""
    build = Assembly()
    channels, outputs, kernel = sizes.channels, sizes.outputs, sizes.kernel
    x = build.input("x", DType.F32, (1, sizes.in_rows, sizes.in_columns, sizes.read))
    expand = [build.panels("e", *_zeros(channels, sizes.inputs))] if sizes.inputs else []
    depthwise = build.constant("d", np.zeros((kernel[0] * kernel[1] + 1, channels), np.float32))
    project = build.panels("p", *_zeros(outputs, channels))
    window = (*kernel, sizes.stride, sizes.stride, *(kernel[0] // 2,) * 4)
    shape = (1, sizes.rows, sizes.columns)
    if rows:
        numbers = (*window, rows, int(bool(expand)), 0, *FREE, *FREE, *FREE)
        results = [(DType.F32, (*shape, outputs)), (DType.U8, (sizes.held_bytes(rows),))]
        build.output(
            "y", build.op("separable_conv2d", [x, *expand, depthwise, project], *results, attributes=numbers)[0]
        )
        return build.program()
    pointwise = (1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0, *FREE)
    room = (DType.U8, (1 << 18,))
    for weight in expand:
        wide = (DType.F32, (1, sizes.in_rows, sizes.in_columns, channels))
        x = build.op("conv2d", [x, weight], wide, room, attributes=pointwise)[0]
    x = build.op(
        "depthwise_conv2d", [x, depthwise], (DType.F32, (*shape, channels)), attributes=(*window, 1, 1, *FREE)
    )[0]
    build.output("y", build.op("conv2d", [x, project], (DType.F32, (*shape, outputs)), room, attributes=pointwise)[0])
    return build.program()


def _zeros(n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros((n, k), np.float32), np.zeros(n, np.float32)
