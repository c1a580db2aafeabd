"""What does a convolution cost in each of its forms?  `python -m benchmarks.costs [--json]`.

Times 3x3 convolutions of many sizes, direct and in Winograd's form, by turns on one core, and fits the costs that
`runtime/compiler/costs.py` holds, so that the relative error is least.  Prints them beside those that are there, the
error of both, and every choice that the present costs would get wrong by more than a tenth.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, Final

import numpy as np
from alcove.runtime.compiler.costs import DIRECT_NS, WINOGRAD_NS, Convolution
from alcove.runtime.compiler.winograd import scratch_bytes
from alcove.runtime.format.spec import DType
from alcove.runtime.model import load
from alcove.runtime.testing import Assembly
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.figures import pin

SIDES: Final = (7, 8, 14, 28, 56)
CHANNELS: Final = (8, 16, 32, 64, 128)
MOST: Final = 30_000_000
"""Products of pixels and both channels beyond this take too long."""
ROUNDS: Final = 7
FREE: Final = (0, -np.inf, np.inf)
WRONG: Final = 1.1


@dataclass(frozen=True)
class Measured:
    """Both forms of one convolution, the lowest of several times, in ns."""

    sizes: Convolution
    direct_ns: float
    winograd_ns: float


def main() -> None:
    """Measure, fit, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="print measurements and costs as JSON")
    options = parser.parse_args()
    pin()
    measured = [_measured(sizes) for sizes in track(list(_grid()), "timing", disable=options.json)]
    forms = {
        "direct": _fit([(each.sizes.direct_counts(), each.direct_ns) for each in measured], DIRECT_NS),
        "winograd": _fit([(each.sizes.winograd_counts(), each.winograd_ns) for each in measured], WINOGRAD_NS),
    }
    if options.json:
        print(json.dumps({"measured": [asdict(each) for each in measured], "forms": forms}))
        return
    _print(forms, measured)


def _grid() -> Iterator[Convolution]:
    for side, inputs, outputs in product(SIDES, CHANNELS, CHANNELS):
        if side * side * inputs * outputs < MOST:
            yield Convolution(1, side, side, inputs, outputs)


def _measured(sizes: Convolution) -> Measured:
    calls = [_call(_direct(sizes), sizes), _call(_winograd(sizes), sizes)]
    times: list[list[float]] = [[], []]
    for _ in range(ROUNDS):
        for call, into in zip(calls, times, strict=True):
            into.append(_once(call))
    return Measured(sizes, min(times[0]), min(times[1]))


def _once(call: Callable[[], object]) -> float:
    """Return the ns of one call, the mean of a few."""
    call()
    count, start = 0, time.perf_counter_ns()
    while count < 3 or time.perf_counter_ns() - start < 2_000_000:
        call()
        count += 1
    return (time.perf_counter_ns() - start) / count


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
    room = scratch_bytes(sizes.inputs, sizes.outputs)
    return _program(sizes, "winograd_conv2d", weights, room, (1, 1, 1, 1, 0, *FREE))


def _program(sizes: Convolution, op: str, weights: NDArray[np.float32], room: int, attributes: Sequence[Any]) -> bytes:
    build = Assembly()
    image = (1, sizes.rows, sizes.columns)
    x = build.input("x", DType.F32, (*image, sizes.inputs))
    outputs = [(DType.F32, (*image, sizes.outputs)), (DType.U8, (room,))]
    held = build.constant("weights", weights)
    build.output("y", build.op(op, [x, held], *outputs, attributes=tuple(attributes))[0])
    return build.program()


def _fit(points: Sequence[tuple[tuple[float, ...], float]], present: tuple[float, ...]) -> dict[str, Any]:
    """Return costs of 0 or more with the least relative squared error, and the greatest ratios of old and new."""
    counts = np.array([count for count, _ in points])
    times = np.array([time for _, time in points])
    shares = counts / times[:, None]
    used = list(range(counts.shape[1]))
    while True:  # a cost that would be negative is none
        found, *_ = np.linalg.lstsq(shares[:, used], np.ones(len(times)), rcond=None)
        if (found >= 0).all():
            break
        del used[int(found.argmin())]
    fitted = np.zeros(counts.shape[1])
    fitted[used] = found
    spreads = {name: counts @ np.array(costs) / times for name, costs in (("fitted", fitted), ("present", present))}
    ranges = {name: [float(spread.min()), float(spread.max())] for name, spread in spreads.items()}
    return {"fitted": fitted.tolist(), "present": list(present), "expected / measured": ranges}


def _print(forms: dict[str, dict[str, Any]], measured: Sequence[Measured]) -> None:
    table = Table("form", "costs, ns", "fitted here", "expected / measured", "with the fitted")
    for name, form in forms.items():
        costs, fitted = (", ".join(f"{cost:.3g}" for cost in form[key]) for key in ("present", "fitted"))
        ranges = form["expected / measured"]
        spread = ["{:.2f} … {:.2f}".format(*ranges[key]) for key in ("present", "fitted")]
        table.add_row(name, costs, fitted, *spread)
    console = Console()
    console.print(table)
    wrong = [each for each in measured if _is_wrong(each)]
    for each in wrong:
        console.print(f"wrong choice: {each.sizes}, direct {each.direct_ns:.0f} ns, winograd {each.winograd_ns:.0f} ns")
    console.print(f"{len(wrong)} of {len(measured)} choices are wrong by more than a tenth")


def _is_wrong(each: Measured) -> bool:
    is_expected = each.sizes.winograd_ns < each.sizes.direct_ns
    ratio = each.direct_ns / each.winograd_ns
    return ratio * WRONG < 1 if is_expected else ratio > WRONG


if __name__ == "__main__":
    main()
