"""Products and tables that read 16 bits themselves give the bits of float32 on every instruction set."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from alcove.runtime import _native
from alcove.runtime.format.halves import narrow, widen_constants
from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.spec import HALVES, DType, Layout, Storage, TensorSpec
from alcove.runtime.format.writer import write_program
from alcove.runtime.testing import Assembly, Shape
from numpy.typing import NDArray

Run = Callable[[str, Mapping[str, Any]], dict[str, list[bytes]]]

SIZES = [
    (m, n, k)
    for n, k in ((1, 1), (15, 3), (16, 40), (33, 7), (65, 130), (40, 1024), (17, 1025), (80, 1300))
    for m in (1, 2, 4, 7, 8, 17)
]
NONE, CLAMP, HARDSWISH, HARDSIGMOID = range(4)


def halves(random: np.random.Generator, count: int, dtype: DType, *, any_bits: bool) -> NDArray[np.uint16]:
    """Numbers around 1, or any bits: subnormal, infinite and NaN too."""
    if any_bits:
        return random.integers(0, 1 << 16, count).astype(np.uint16)
    values = random.standard_normal(count, np.float32)
    return narrow(values, dtype)


def add_panels(build: Assembly, n: int, k: int, dtype: DType, panels: NDArray[np.uint16]) -> int:
    """Add a matrix in panels; columns beyond n are zero."""
    rows = panels.reshape(-(-n // 16), k + 1, 16)
    rows[-1, :, (n - 1) % 16 + 1 :] = 0
    return build._add(TensorSpec("panels", dtype, (n, k), Storage.CONSTANT, Layout.PANEL16, data=rows.tobytes()))


def linear(random: np.random.Generator, sizes: tuple[int, int, int], dtype: DType, kind: int, *, odd: bool) -> Any:
    """A product with a residual where there is an activation."""
    m, n, k = sizes
    build = Assembly()
    shape: Shape = (m, n)
    x = build.input("x", DType.F32, (m, k))
    panels = add_panels(build, n, k, dtype, halves(random, -(-n // 16) * (k + 1) * 16, dtype, any_bits=odd))
    residual = [build.input("residual", DType.F32, shape)] if kind != NONE else []
    bounds = (-1.5, 2.5) if kind == CLAMP else (-np.inf, np.inf)
    attributes = (len(residual), kind, *bounds)
    build.output("y", build.op("linear", [x, panels, *residual], (DType.F32, shape), attributes=attributes)[0])
    inputs = [random.standard_normal((m, k), np.float32)]
    return build.program(), inputs + [random.standard_normal((m, n), np.float32) for _ in residual]


def tables(random: np.random.Generator, dtype: DType, axis: int) -> Any:
    """Rows, or columns, by index, of odd counts; and rows of panels."""
    build = Assembly()
    ids = build.input("ids", DType.I64, (7,))
    shape = (9, 21) if axis == 0 else (3, 9, 5)
    out = (7, 21) if axis == 0 else (3, 7, 5)
    data = halves(random, int(np.prod(shape)), dtype, any_bits=True).tobytes()
    table = build._add(TensorSpec("table", dtype, shape, Storage.CONSTANT, data=data))
    build.output("rows", build.op("index_select", [table, ids], (DType.F32, out), attributes=(axis, 1))[0])
    panels = add_panels(build, 37, 19, dtype, halves(random, 3 * 20 * 16, dtype, any_bits=True))
    found = build.op("embedding_panels", [ids, panels], (DType.F32, (7, 19)), attributes=(37, 0, 0))
    build.output("panels", found[0])
    return build.program(), [np.array([8, 0, 3, 3, 1, 7, 2])]


@pytest.fixture(scope="module")
def cases() -> dict[str, Any]:
    """Each with 16 bits, by name."""
    random = np.random.default_rng(155)
    found = {}
    for dtype in HALVES:
        for place, sizes in enumerate(SIZES):
            found[f"{dtype.name} linear {sizes}"] = linear(random, sizes, dtype, place % 4, odd=place % 5 == 0)
        for axis in (0, 1):
            found[f"{dtype.name} table {axis}"] = tables(random, dtype, axis)
    return found


@pytest.fixture(scope="module")
def wanted(cases: dict[str, Any], run_with: Run) -> dict[str, list[bytes]]:
    """The answers in float32, without an instruction set."""
    wide = {
        name: (write_program(widen_constants(read_spec(program))), inputs) for name, (program, inputs) in cases.items()
    }
    return run_with("scalar", wide)


@pytest.mark.parametrize("isa", _native.machine_isas())
def test_bits_are_those_of_float32(
    isa: str, cases: dict[str, Any], wanted: dict[str, list[bytes]], run_with: Run
) -> None:
    """Tails, long sums, residuals, activations, every kind of number; by one thread and by three."""
    seen = run_with(isa, cases)
    assert [name for name in cases if seen[name] != wanted[name]] == []


def test_nothing_of_these_is_widened_when_they_are_opened(cases: dict[str, Any]) -> None:
    """Unless something else reads it too."""
    for program, _ in cases.values():
        assert not read_spec(program).widened
    spec = read_spec(cases["F16 table 0"][0])
    at = next(i for i, tensor in enumerate(spec.tensors) if tensor.name == "table")
    other = replace(spec.ops[0], name="reshape", inputs=(at,), attributes=())
    assert replace(spec, ops=(*spec.ops, other)).widened == {at}
