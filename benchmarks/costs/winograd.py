"""Measures 3x3 convolutions, direct and in Winograd's form."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
from alcove.runtime import _native
from alcove.runtime.compiler.costs import DIRECT_NS, WINOGRAD_NS, Convolution
from alcove.runtime.format.spec import DType
from alcove.runtime.model import load
from alcove.runtime.testing import Assembly
from numpy.typing import NDArray
from rich.progress import track

from benchmarks.costs.fit import Fit, fit, lowest

SIDES: Final = (7, 8, 14, 28, 56)
CHANNELS: Final = (8, 16, 32, 64, 128)
MOST: Final = 30_000_000
"""Products of pixels and both channels beyond this take too long."""
FREE: Final = (0, -np.inf, np.inf)
WRONG: Final = 1.1


@dataclass(frozen=True)
class Measured:
    """Both forms of one convolution, the lowest of several times, in ns."""

    sizes: Convolution
    direct_ns: float
    winograd_ns: float

    @property
    def problem(self) -> str:
        """What is wrong with the choice between them; "" if it costs less than a tenth."""
        if self.excess < WRONG:
            return ""
        return f"{self.sizes}, direct {self.direct_ns:.0f} ns, winograd {self.winograd_ns:.0f} ns"

    @property
    def excess(self) -> float:
        """Time of the choice as a multiple of the best form's."""
        chosen = self.winograd_ns if self.sizes.winograd_ns < self.sizes.direct_ns else self.direct_ns
        return chosen / min(self.direct_ns, self.winograd_ns)

    @property
    def plain_excess(self) -> float:
        """Time of the direct form as a multiple of the best form's."""
        return self.direct_ns / min(self.direct_ns, self.winograd_ns)


def measure(*, is_quiet: bool) -> list[Measured]:
    """Time every size in both forms."""
    return [_measure(sizes) for sizes in track(list(_grid()), "Winograd", disable=is_quiet)]


def fits(measured: Sequence[Measured]) -> list[Fit]:
    """Return the costs of both forms."""
    return [
        fit("direct", [(each.sizes.direct_counts(), each.direct_ns) for each in measured], DIRECT_NS),
        fit("winograd", [(each.sizes.winograd_counts(), each.winograd_ns) for each in measured], WINOGRAD_NS),
    ]


def _grid() -> Iterator[Convolution]:
    for side, inputs, outputs in product(SIDES, CHANNELS, CHANNELS):
        if side * side * inputs * outputs < MOST:
            yield Convolution(1, side, side, inputs, outputs)


def _measure(sizes: Convolution) -> Measured:
    found = lowest({"direct": _call(_direct(sizes), sizes), "winograd": _call(_winograd(sizes), sizes)})
    return Measured(sizes, found["direct"], found["winograd"])


def _call(program: bytes, sizes: Convolution) -> Callable[[], object]:
    session = load(program).session()
    x = np.random.default_rng(1).standard_normal((1, sizes.rows, sizes.columns, sizes.inputs), np.float32)
    return lambda: session(x)


def _direct(sizes: Convolution) -> bytes:
    patch = 9 * sizes.inputs
    block = max(4, min(64, 32768 // patch // 4 * 4)) * patch * 4
    weights = np.zeros((1, -(-sizes.outputs // 16), patch + 1, 16), np.float32)
    return _program(sizes, "conv2d", weights, block, (3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, *FREE))


def _winograd(sizes: Convolution) -> bytes:
    panels = -(-sizes.outputs // 16)
    weights = np.zeros(panels * 16 * (1 + 36 * (sizes.inputs + 1)), np.float32)
    room = _native.scratch_bytes("winograd_conv2d", in_c=sizes.inputs, out_c=sizes.outputs)
    return _program(sizes, "winograd_conv2d", weights, room, (1, 1, 1, 1, 0, *FREE))


def _program(sizes: Convolution, op: str, weights: NDArray[np.float32], room: int, attributes: Sequence[Any]) -> bytes:
    build = Assembly()
    image = (1, sizes.rows, sizes.columns)
    x = build.input("x", DType.F32, (*image, sizes.inputs))
    outputs = [(DType.F32, (*image, sizes.outputs)), (DType.U8, (room,))]
    held = build.constant("weights", weights)
    build.output("y", build.op(op, [x, held], *outputs, attributes=tuple(attributes))[0])
    return build.program()
