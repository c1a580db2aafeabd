"""Fourier transforms are within rounding of double precision, the same on each ISA and for any number of rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from alcove.runtime import _native, load
from alcove.runtime.errors import ProgramError
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import Assembly
from alcove.runtime.testing_ops import transform_table
from numpy.typing import NDArray

Floats = NDArray[np.float32]
F32 = DType.F32
SIZES = ((1, 1), (1, 2), (1, 8), (1, 60), (1, 105), (1, 128), (7, 7), (8, 20), (16, 32), (63, 64), (64, 64))
"""Rows and columns of the matrix as which points are transformed; where it has one row, several are together."""


def program(op: str, rows: int, first: int, second: int, scale: float = 1.0) -> bytes:
    """A program of one transform of rows of points."""
    build, points = Assembly(), first * second
    width, made = {"fft": (points, points), "rfft": (2 * points, points + 1), "irfft": (points + 1, 2 * points)}[op]
    inputs = [build.input(name, F32, (rows, width)) for name in ("re", "im")[: 1 + (op != "rfft")]]
    inputs.append(build.constant("table", transform_table(first, second, is_real=op != "fft")))
    scratch = (DType.U8, (_native.scratch_bytes("fft", points=points, first=first),))
    result = (F32, (rows, made))
    outputs = [result, scratch] if op == "irfft" else [result, scratch, result]
    results = build.op(op, inputs, *outputs, attributes=(first, scale))
    for place in (0, 2)[: 1 + (op != "irfft")]:
        build.output(f"y{place}", results[place])
    return build.program()


def operands(op: str, rows: int, points: int) -> list[Floats]:
    """Random rows for it."""
    width = {"fft": points, "rfft": 2 * points, "irfft": points + 1}[op]
    made = np.random.default_rng(points).standard_normal((2, rows, width)).astype(np.float32)
    return list(made[: 1 + (op != "rfft")])


def exact(op: str, parts: list[Floats]) -> list["NDArray[np.float64]"]:
    """The same in double precision."""
    x = parts[0].astype(np.float64) + (1j * parts[1] if len(parts) > 1 else 0)
    if op == "irfft":
        return [np.fft.irfft(x, norm="forward", n=2 * (x.shape[-1] - 1))]
    y = np.fft.fft(x) if op == "fft" else np.fft.rfft(x.real)
    return [y.real, y.imag]


@pytest.mark.parametrize("op", ["fft", "rfft", "irfft"])
def test_transform_is_within_rounding_of_the_exact_one(op: str) -> None:
    """In energy, and everywhere by the size of the whole; every radix, together and by themselves."""
    for first, second in SIZES:
        points = first * second
        parts = operands(op, 19, points)
        seen = load(program(op, 19, first, second))(*parts)
        wanted = exact(op, parts)
        size = np.sqrt(sum((each**2).sum(-1, keepdims=True) for each in wanted))
        for one, other in zip(seen, wanted, strict=True):
            assert (np.abs(one - other) <= 4e-7 * size).all(), (first, second)


@pytest.mark.parametrize("op", ["fft", "rfft", "irfft"])
def test_rows_are_transformed_alike_however_many_there_are(op: str) -> None:
    """Bit for bit: one row, or the last of a block and a bit."""
    for first, second in ((1, 105), (8, 20)):
        parts = operands(op, 19, first * second)
        whole = load(program(op, 19, first, second))(*parts)
        for row in (0, 18):
            alone = load(program(op, 1, first, second))(*(part[row : row + 1] for part in parts))
            assert all(one[row].tobytes() == other.tobytes() for one, other in zip(whole, alone, strict=True))


def test_every_instruction_set_gives_the_bits_of_the_reference(run_with: Callable[..., Any]) -> None:
    """Also with an infinity and a NaN within; the only NaN that leaves is the canonical one."""
    cases = {}
    for op in ("fft", "rfft", "irfft"):
        for first, second in ((1, 2), (1, 105), (1, 128), (8, 20), (63, 64)):
            parts = operands(op, 5, first * second)
            parts[0][3, 1], parts[0][4, 0] = np.inf, np.nan
            cases[f"{op} {first} {second}"] = (program(op, 5, first, second, 0.3), parts)
    reference = run_with("scalar", cases)
    for isa in [name for name in _native.machine_isas() if name != "scalar"]:
        assert run_with(isa, cases) == reference, isa
    for answers in reference.values():
        for data in answers:
            bits = np.frombuffer(data, np.uint32)
            assert (bits[np.isnan(bits.view(np.float32))] == 0x7FC00000).all()


@pytest.mark.parametrize(
    ("op", "first", "second", "change"),
    [
        ("fft", 1, 11, None),
        ("fft", 3, 4, {"attributes": (5, 1.0)}),
        ("fft", 3, 4, {"attributes": (0, 1.0)}),
        ("fft", 3, 4, {"attributes": (3, float("nan"))}),
        ("fft", 3, 4, {"attributes": (1, 1.0)}),
    ],
)
def test_other_sizes_are_refused(op: str, first: int, second: int, change: dict[str, Any] | None) -> None:
    """Prime factors above 7, a factor that is none, a scale that is no number, and a table of another factor."""
    build, points = Assembly(), first * second
    inputs = [build.input(name, F32, (2, points)) for name in ("re", "im")]
    inputs.append(build.constant("table", transform_table(first, second, is_real=False)))
    rows = (F32, (2, points))
    attributes = (change or {"attributes": (first, 1.0)})["attributes"]
    results = build.op(op, inputs, rows, (DType.U8, (1 << 14,)), rows, attributes=attributes)
    build.output("y", results[0])
    with pytest.raises(ProgramError):
        load(build.program())


def test_scratch_of_one_byte_too_few_is_refused() -> None:
    """The formula of the rule is that of the binding."""
    build = Assembly()
    x = build.input("x", F32, (2, 12))
    table = build.constant("table", transform_table(2, 3, is_real=True))
    half = (F32, (2, 7))
    room = _native.scratch_bytes("fft", points=6, first=2)
    build.output("y", build.op("rfft", [x, table], half, (DType.U8, (room - 1,)), half, attributes=(2, 1.0))[0])
    with pytest.raises(ProgramError, match="scratch"):
        load(build.program())
