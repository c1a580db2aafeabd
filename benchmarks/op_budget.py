"""Measures what a counted operation of each operator costs, in the shapes that cost most of it.

`python -m benchmarks.op_budget` prints a table; `--write docs/robustness.md` puts it there.  The verifier bounds the
operations of a run (`kOpBudget`), so the worst of these numbers is what bounds its time.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from alcove.runtime import _native
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import PLAIN_LINEAR, Assembly

from benchmarks.sections import Section

F32, I8, I32, I64 = DType.F32, DType.I8, DType.I32, DType.I64
SECTION: Final = Section("op budget", "python -m benchmarks.op_budget --write docs/robustness.md")
LEAST_S: Final = 0.2
ROUNDS: Final = 3
STRIDES: Final = 8
RANDOM: Final = np.random.default_rng(1)
Shape = tuple[int, ...]


def _unary(number: int) -> Callable[[], bytes]:
    def build() -> bytes:
        assembly = Assembly()
        shape = (F32, (1 << 20,))
        x = assembly.op("fill", [], shape, attributes=(0x3FC00000,))[0]
        assembly.output("y", assembly.op("unary", [x], shape, attributes=(number, 0.5, 2.0, -1.0))[0])
        return assembly.program()

    return build


def _fill(assembly: Assembly, dtype: DType, shape: Shape, bits: int = 0) -> int:
    return assembly.op("fill", [], (dtype, shape), attributes=(bits,))[0]


def _one(
    name: str, inputs: list[tuple[DType, Shape]], *outputs: tuple[DType, Shape], attributes: tuple[Any, ...] = ()
) -> Callable[[], bytes]:
    """Return what makes a program of one operator over tensors of zeros."""

    def build() -> bytes:
        assembly = Assembly()
        values = [_fill(assembly, dtype, shape) for dtype, shape in inputs]
        results = assembly.op(name, values, *outputs, attributes=attributes)
        assembly.output("y", results[0])
        return assembly.program()

    return build


def _walk(offset: int, *strides: int) -> tuple[int, ...]:
    return (offset, *strides, *(0,) * (STRIDES - len(strides)))


def _linear(rows: int, n: int, k: int) -> Callable[[], bytes]:
    def build() -> bytes:
        assembly = Assembly()
        weight = assembly.panels("w", RANDOM.standard_normal((n, k), np.float32), np.zeros(n, np.float32))
        x = _fill(assembly, F32, (rows, k))
        assembly.output("y", assembly.op("linear", [x, weight], (F32, (rows, n)), attributes=PLAIN_LINEAR)[0])
        return assembly.program()

    return build


def _gather(name: str, rows: int, width: int, count: int) -> Callable[[], bytes]:
    """Rows picked in a random order from a table that no cache holds."""

    def build() -> bytes:
        assembly = Assembly()
        table = _fill(assembly, F32, (rows, width))
        ids = assembly.constant("ids", RANDOM.integers(0, rows, count, np.int64))
        assembly.output("y", assembly.op(name, [table, ids], (F32, (count, width)), attributes=(0, 0))[0])
        return assembly.program()

    return build


OTHERS: Final = ("isnan", "isinf", "isfinite", "signbit", "bitwise_not", "logical_not")
"""Functions that give or take no numbers."""
SIDE: Final = 4096
WINDOW: Final = (1, 1, 1, 1, 0, 0, 0, 0, 1, 1)
ROOM: Final = (DType.U8, (1 << 18,))
LARGE_ROOM: Final = (DType.U8, (1 << 26,))
CASES: Final[dict[str, Callable[[], bytes]]] = {
    "as_strided_copy, int8 transposed": _one(
        "as_strided_copy", [(I8, (SIDE, SIDE))], (I8, (SIDE, SIDE)), attributes=_walk(0, 1, SIDE)
    ),
    "as_strided_copy, float32 transposed": _one(
        "as_strided_copy", [(F32, (SIDE, SIDE))], (F32, (SIDE, SIDE)), attributes=_walk(0, 1, SIDE)
    ),
    "as_strided_copy, pairs": _one(
        "as_strided_copy", [(I8, (SIDE, SIDE))], (I8, (SIDE // 2, SIDE, 2)), attributes=_walk(0, 2, SIDE, 1)
    ),
    "as_strided_copy, one element of a large one": _one(
        "as_strided_copy", [(I8, (SIDE, SIDE))], (I8, (SIDE, SIDE)), attributes=_walk(0)
    ),
    "as_strided_copy, as it lies": _one(
        "as_strided_copy", [(I8, (SIDE, SIDE))], (I8, (SIDE, SIDE)), attributes=_walk(0, SIDE, 1)
    ),
    "as_strided_scatter, int8 transposed": _one(
        "as_strided_scatter", [(I8, (SIDE, SIDE)), (I8, (SIDE, SIDE))], (I8, (SIDE, SIDE)), attributes=_walk(0, 1, SIDE)
    ),
    "concat, single bytes": _one("concat", [(I8, (1 << 22, 1))] * 2, (I8, (1 << 22, 2)), attributes=(1,)),
    "pad, single bytes": _one(
        "pad", [(I8, (1 << 22, 1))], (I8, (1 << 22, 2)), attributes=(*(0,) * 8, 0, 1, *(0,) * 6, 0, 0)
    ),
    "pad, circular": _one(
        "pad", [(I8, (1 << 22, 1))], (I8, (1 << 22, 2)), attributes=(*(0,) * 8, 0, 1, *(0,) * 6, 3, 0)
    ),
    "reshape": _one("reshape", [(I8, (1 << 24,))], (I8, (SIDE, SIDE))),
    "arange": _one("arange", [], (F32, (1 << 22,)), attributes=(0.0, 0.1)),
    "fill": _one("fill", [], (I8, (1 << 24,)), attributes=(7,)),
    "tril_triu, small": _one("tril_triu", [(F32, (1 << 20, 2, 2))], (F32, (1 << 20, 2, 2)), attributes=(0, 1)),
    "where, broadcast": _one(
        "where", [(DType.BOOL, (1 << 20, 1)), (F32, (1, 3)), (F32, (1 << 20, 1))], (F32, (1 << 20, 3))
    ),
    "cast": _one("cast", [(F32, (1 << 22,))], (I64, (1 << 22,))),
    "binary, power": _one("binary", [(F32, (1 << 20, 1)), (F32, (1, 3))], (F32, (1 << 20, 3)), attributes=(9,)),
    "softmax, rows of one": _one("softmax", [(F32, (1 << 20, 1))], (F32, (1 << 20, 1)), attributes=(0,)),
    "layer_norm, rows of one": _one(
        "layer_norm", [(F32, (1 << 20, 1))], (F32, (1 << 20, 1)), attributes=(1, 2, 0, 0.0, 0, 0.0, 0.0)
    ),
    "sort, rows of two": _one(
        "sort", [(F32, (1 << 20, 2))], (F32, (1 << 20, 2)), (I64, (1 << 20, 2)), LARGE_ROOM, attributes=(0,)
    ),
    "sort, one row": _one(
        "sort", [(F32, (1 << 20,))], (F32, (1 << 20,)), (I64, (1 << 20,)), LARGE_ROOM, attributes=(0,)
    ),
    "topk, rows of two": _one(
        "topk", [(F32, (1 << 20, 2))], (F32, (1 << 20, 1)), (I64, (1 << 20, 1)), attributes=(1, 1)
    ),
    "linear, one by one": _linear(1 << 20, 1, 1),
    "linear, large": _linear(256, 1024, 1024),
    "matmul, one by one": _one(
        "matmul", [(F32, (1 << 18, 1, 1)), (F32, (1 << 18, 1, 1))], (F32, (1 << 18, 1, 1)), ROOM, attributes=(0,)
    ),
    "attention, one by one": _one(
        "attention", [(F32, (1 << 16, 1, 1))] * 3, (F32, (1 << 16, 1, 1)), ROOM, attributes=(1.0, 0, 0.0, 0)
    ),
    "depthwise_conv2d, one channel": _one(
        "depthwise_conv2d", [(F32, (1, 1024, 1024, 1)), (F32, (2, 1))], (F32, (1, 1024, 1024, 1)),
        attributes=(*WINDOW, 0, 0.0, 0.0),
    ),
    "pool2d, one channel": _one(
        "pool2d", [(F32, (1, 1024, 1024, 1))], (F32, (1, 1024, 1024, 1)),
        attributes=(0, 1, 1, 1, 1, 0, 0, 1, 1, 0, 0, 0),
    ),
    "resize2d, cubic, one channel": _one(
        "resize2d", [(F32, (1, 512, 512, 1))], (F32, (1, 1024, 1024, 1)), attributes=(3, 0, 0.0, 0.0)
    ),
    "quantize": _one("quantize", [(F32, (1 << 22,))], (I8, (1 << 22,)), attributes=(0.03125, 3)),
    "index_select, random rows of one": _gather("index_select", 1 << 24, 1, 1 << 20),
    **{f"unary, {name}": _unary(number) for name, number in _native.functions("unary").items() if name not in OTHERS},
}  # fmt: skip


def measure(program: bytes) -> tuple[int, float]:
    """Return the counted operations of a run of a program without inputs, and the nanoseconds of one."""
    native = _native.open_bytes(program)
    session = native.session()
    times = []
    for _ in range(ROUNDS):
        runs, start = 0, time.perf_counter()
        while not runs or time.perf_counter() - start < LEAST_S:
            session()
            runs += 1
        times.append((time.perf_counter() - start) / runs)
    return native.run_cost, min(times) * 1e9


def rows() -> list[tuple[str, int, float]]:
    """Return (case, operations, nanoseconds an operation), the dearest first."""
    measured = []
    for name, build in CASES.items():
        cost, run_ns = measure(build())
        measured.append((name, cost, run_ns / cost))
    return sorted(measured, key=lambda row: -row[2])


def main() -> None:
    """Print the dearest ten, or put them into a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    lines = ["| operator | operations of the run | ns an operation |", "|---|--:|--:|"]
    found = rows()
    lines += [f"| {name} | {cost:,} | {ns:.2f} |" for name, cost, ns in (found if arguments.all else found[:10])]
    table = "\n".join(lines)
    print(table)
    if arguments.write:
        page = arguments.write.read_text(encoding="utf-8")
        arguments.write.write_text(SECTION.replace_in(page, table), encoding="utf-8")


if __name__ == "__main__":
    main()
