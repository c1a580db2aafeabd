"""Measures 1x1 convolutions of images whose channels come first, between two transposes and without."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np
from alcove.runtime import _native
from alcove.runtime.compiler.costs import CHANNELS_FIRST_NS, POINTWISE_NS, Pointwise
from alcove.runtime.format.spec import DType
from alcove.runtime.model import load
from alcove.runtime.testing import Assembly
from rich.progress import track

from benchmarks.costs.fit import Fit, fit, lowest

SIDES: Final = (1, 2, 4, 7, 14, 28, 56)
INPUTS: Final = (3, 16, 64, 256)
OUTPUTS: Final = (1, 2, 4, 8, 16, 24, 64, 256)
FREE: Final = (0, -np.inf, np.inf)
WRONG: Final = 1.1


@dataclass(frozen=True)
class Measured:
    """Both forms of one convolution, the lowest of several times, in ns."""

    sizes: Pointwise
    last_ns: float
    first_ns: float

    @property
    def problem(self) -> str:
        """What is wrong with the choice between them; "" if it costs less than a tenth."""
        if self.excess < WRONG:
            return ""
        return f"{self.sizes}, channels last {self.last_ns:.0f} ns, first {self.first_ns:.0f} ns"

    @property
    def excess(self) -> float:
        """Time of the choice as a multiple of the best form's."""
        chosen = self.first_ns if self.sizes.is_faster else self.last_ns
        return chosen / min(self.last_ns, self.first_ns)

    @property
    def plain_excess(self) -> float:
        """Time of the form with transposes as a multiple of the best form's."""
        return self.last_ns / min(self.last_ns, self.first_ns)


def measure(*, is_quiet: bool) -> list[Measured]:
    """Time every size in both forms."""
    return [_measure(sizes) for sizes in track(list(_grid()), "1x1", disable=is_quiet)]


def fits(measured: Sequence[Measured]) -> list[Fit]:
    """Return the costs of both forms."""
    return [
        fit("channels last", [(each.sizes.channels_last_counts(), each.last_ns) for each in measured], POINTWISE_NS),
        fit(
            "channels first",
            [(each.sizes.channels_first_counts(), each.first_ns) for each in measured],
            CHANNELS_FIRST_NS,
        ),
    ]


def _grid() -> Iterator[Pointwise]:
    for side, inputs, outputs in product(SIDES, INPUTS, OUTPUTS):
        yield Pointwise(1, side * side, inputs, outputs)


def _measure(sizes: Pointwise) -> Measured:
    found = lowest({"last": _call(_last(sizes), sizes), "first": _call(_first(sizes), sizes)})
    return Measured(sizes, found["last"], found["first"])


def _call(program: bytes, sizes: Pointwise) -> Callable[[], object]:
    session = load(program).session()
    x = np.random.default_rng(1).standard_normal((1, sizes.inputs, sizes.pixels), np.float32)
    return lambda: session(x)


def _last(sizes: Pointwise) -> bytes:
    build = Assembly()
    x = build.input("x", DType.F32, (1, sizes.inputs, sizes.pixels))
    shape = (1, 1, sizes.pixels)
    strides = (sizes.pixels * sizes.inputs, sizes.pixels * sizes.inputs, 1, sizes.pixels)
    image = build.op("as_strided_copy", [x], (DType.F32, (*shape, sizes.inputs)), attributes=_copy(strides))[0]
    weights = build.panels(
        "weights", np.zeros((sizes.outputs, sizes.inputs), np.float32), np.zeros(sizes.outputs, np.float32)
    )
    outputs = [(DType.F32, (*shape, sizes.outputs)), (DType.U8, (_room(sizes),))]
    window = (1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0, *FREE)
    y = build.op("conv2d", [image, weights], *outputs, attributes=window)[0]
    result = (DType.F32, (1, sizes.outputs, sizes.pixels))
    back = (sizes.pixels * sizes.outputs, 1, sizes.outputs)
    build.output("y", build.op("as_strided_copy", [y], result, attributes=_copy(back))[0])
    return build.program()


def _room(sizes: Pointwise) -> int:
    window = {"kernel_h": 1, "kernel_w": 1, "stride_w": 1, "dilation_h": 1, "dilation_w": 1, "groups": 1}
    return _native.scratch_bytes("conv2d", in_c=sizes.inputs, out_w=sizes.pixels, out_c=sizes.outputs, **window)


def _copy(strides: Sequence[int]) -> tuple[int, ...]:
    return (0, *strides, *(0,) * (8 - len(strides)))


def _first(sizes: Pointwise) -> bytes:
    build = Assembly()
    x = build.input("x", DType.F32, (1, sizes.inputs, sizes.pixels))
    weights = build.constant("weights", np.zeros((sizes.outputs, 1 + sizes.inputs), np.float32))
    room = _native.scratch_bytes("pointwise_conv2d", pixels=sizes.pixels, channels=sizes.inputs)
    outputs = [(DType.F32, (1, sizes.outputs, sizes.pixels)), (DType.U8, (room,))]
    build.output("y", build.op("pointwise_conv2d", [x, weights], *outputs, attributes=FREE)[0])
    return build.program()
