"""The winograd_conv2d operator computes what docs/format.md says, with the same bits on every instruction set."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from alcove.runtime import ProgramError, _native, load
from alcove.runtime.compiler.panels import winograd_weights
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import Assembly
from numpy.typing import NDArray

Floats = NDArray[np.float32]
SPECIAL = np.array([0, 0x80000000, 1, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFC12345], np.uint32).view(np.float32)
FREE = (0, -np.inf, np.inf)


def numbers(random: np.random.Generator, *shape: int, special: float = 0.0) -> Floats:
    """Numbers around 0; a share of them zeros, denormals, infinities and NaN with payloads."""
    values = random.standard_normal(shape, np.float32)
    odd = random.random(shape) < special
    values[odd] = random.choice(SPECIAL, int(odd.sum()))
    return values


def program(
    x: tuple[int, ...],
    out: tuple[int, ...],
    weights: Floats,
    pads: tuple[int, int, int, int],
    *,
    activation: tuple[float, ...] = FREE,
    has_residual: bool = False,
    scratch: int | None = None,
) -> bytes:
    """Return a program of one winograd_conv2d."""
    build = Assembly()
    inputs = [build.input("x", DType.F32, x), build.constant("weights", weights)]
    if has_residual:
        inputs.append(build.input("residual", DType.F32, out))
    room = _native.scratch_bytes("winograd_conv2d", in_c=x[3], out_c=out[3]) if scratch is None else scratch
    outputs = [(DType.F32, out), (DType.U8, (room,))]
    attributes = (*pads, int(has_residual), *activation)
    build.output("y", build.op("winograd_conv2d", inputs, *outputs, attributes=attributes)[0])
    return build.program()


def cases() -> dict[str, Any]:
    """Channels around every vector, images that end inside tiles, paddings, blocks of many tiles, every function."""
    random = np.random.default_rng(36)
    found: dict[str, Any] = {}
    pairs = [(1, 1), (3, 16), (8, 17), (15, 5), (16, 32), (17, 33), (33, 8), (64, 40)]
    for count, (inputs, outputs) in enumerate(pairs):
        weights = winograd_weights(numbers(random, outputs, inputs, 3, 3), numbers(random, outputs))
        for rows, columns, pads in (
            (3, 3, (0, 0, 0, 0)),
            (4, 9, (1, 1, 1, 1)),
            (2, 30, (2, 0, 5, 1)),
            (21, 23, (1, 1, 1, 1)),
        ):
            out = (2, rows + pads[0] + pads[2] - 2, columns + pads[1] + pads[3] - 2, outputs)
            special = 0.01 * (count % 2)
            values = [numbers(random, 2, rows, columns, inputs, special=special)]
            function = (1, -1.0, 1.0) if count % 4 == 1 else (count % 4, -np.inf, np.inf)
            has_residual = rows != 4
            if has_residual:
                values.append(numbers(random, *out, special=special))
            result = program(values[0].shape, out, weights, pads, activation=function, has_residual=has_residual)
            found[f"{inputs} {outputs} {rows} {columns}"] = (result, values)
    return found


def test_every_instruction_set_gives_the_bits_of_the_reference(run_with: Callable[..., Any]) -> None:
    """Bit for bit; and no NaN comes out but the canonical one."""
    argument: Mapping[str, Any] = cases()
    reference = run_with("scalar", argument)
    for isa in [name for name in _native.machine_isas() if name != "scalar"]:
        answers = run_with(isa, argument)
        assert not [name for name in argument if answers[name] != reference[name]], isa
    for name in argument:
        bits = np.frombuffer(reference[name][0], np.uint32)
        assert (bits[np.isnan(bits.view(np.float32))] == 0x7FC00000).all(), name


def to_f32(value: Fraction) -> np.float32:
    """Return the nearest float32, ties to even; sizes are far from overflow and denormals."""
    near = np.float32(float(value))
    around = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    return min(around, key=lambda each: (abs(Fraction(float(each)) - value), int(each.view(np.uint32)) & 1))


def fma(x: float | np.float32, y: float | np.float32, z: np.float32) -> np.float32:
    """One multiplication and one addition, rounded once; `x` and `y` are float32 first."""
    return to_f32(Fraction(float(np.float32(x))) * Fraction(float(np.float32(y))) + Fraction(float(z)))


def before(d: list[np.float32]) -> list[np.float32]:
    """What docs/format.md says of the input."""
    e, o = fma(-0.5, d[2], d[4]), fma(-0.5, d[1], d[3])
    f, p = fma(-2, d[2], d[4]), fma(-2, d[1], d[3])
    root, half = np.sqrt(2), np.sqrt(0.5)
    return [
        fma(-2.5, d[2], d[0] + d[4]), fma(root, o, e), fma(-root, o, e), fma(half, p, f), fma(-half, p, f),
        fma(-2.5, d[3], d[1] + d[5]),
    ]  # fmt: skip


def after(m: list[np.float32]) -> list[np.float32]:
    """What docs/format.md says of the products."""
    s, t, u, v = m[1] + m[2], m[1] - m[2], m[3] + m[4], m[3] - m[4]
    half = np.float32(np.sqrt(0.5))
    return [
        (m[0] + s) + u, fma(np.sqrt(2), t, half * v), fma(2, s, np.float32(0.5) * u),
        fma(np.sqrt(8), t, fma(np.sqrt(0.125), v, m[5])),
    ]  # fmt: skip


def test_formulas_are_those_of_the_document() -> None:
    """Written again with rational numbers, for one tile with a bias and bounds."""
    random = np.random.default_rng(4)
    x, bias = numbers(random, 1, 6, 6, 3), numbers(random, 2)
    weights = winograd_weights(numbers(random, 2, 3, 3, 3), bias)
    (seen,) = load(program(x.shape, (1, 4, 4, 2), weights, (0, 0, 0, 0), activation=(1, -2.0, 2.0)))(x)
    planes = weights[16:].reshape(36, 4, 16)[:, 1:]
    for output in range(2):
        products = np.zeros((6, 6), np.float32)
        for channel in range(3):
            down = np.array([before(list(x[0, :, column, channel])) for column in range(6)]).T
            for i in range(6):
                for j, value in enumerate(before(list(down[i]))):
                    products[i, j] = fma(value, planes[i * 6 + j, channel, output], products[i, j])
        down = np.array([after(list(products[:, column])) for column in range(6)]).T
        for i in range(4):
            expected = [np.clip(y + bias[output], np.float32(-2), np.float32(2)) for y in after(list(down[i]))]
            assert np.array_equal(seen[0, i, :, output], np.array(expected, np.float32))


def test_error_is_near_that_of_a_direct_sum() -> None:
    """64 channels of rectified numbers: the greatest error stays below four times that of sums in float32."""
    random = np.random.default_rng(9)
    x = np.maximum(numbers(random, 1, 18, 18, 64), 0)
    weight = numbers(random, 16, 64, 3, 3) / np.float32(24)
    result = program(x.shape, (1, 16, 16, 16), winograd_weights(weight, np.zeros(16, np.float32)), (0, 0, 0, 0))
    patches = np.lib.stride_tricks.sliding_window_view(x[0], (3, 3), axis=(0, 1))
    exact = np.einsum("hwcij,ncij->hwn", patches.astype(np.float64), weight.astype(np.float64))
    direct = np.zeros((16, 16, 16), np.float32)
    for c in range(64):
        for i in range(3):
            for j in range(3):
                direct += patches[:, :, c, i, j, None] * weight[:, c, i, j]
    ours = np.abs(load(result)(x)[0][0] - exact).max()
    assert 0 < ours < 4 * np.abs(direct - exact).max()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"scratch": _native.scratch_bytes("winograd_conv2d", in_c=5, out_c=7) - 1}, "scratch"),
        ({"out": (1, 7, 8, 7)}, "output"),
        ({"weights": np.zeros(36 * 6 * 16 + 15, np.float32)}, "weight"),
        ({"pads": (1 << 21, 1, 1, 1)}, "padding"),
        ({"activation": (4, -np.inf, np.inf)}, "activation"),
    ],
)
def test_wrong_sizes_are_refused(change: dict[str, Any], problem: str) -> None:
    """Scratch, shapes and attributes that the kernel could not serve."""
    right: dict[str, Any] = {
        "x": (1, 8, 8, 5),
        "out": (1, 8, 8, 7),
        "weights": np.zeros(36 * 6 * 16 + 16, np.float32),
        "pads": (1, 1, 1, 1),
    }
    load(program(**right))
    with pytest.raises(ProgramError, match=problem):
        load(program(**{**right, **change}))
