"""Special functions are within their bound of double precision, and right at infinities, poles and NaN."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from alcove.runtime import _native, load
from alcove.runtime.errors import ProgramError
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import Assembly
from numpy.typing import NDArray
from scipy import special as exact

from tests.kernels.test_math import ulps

Floats = NDArray[np.float32]
BOUND = 0.51
INF, NAN = math.inf, math.nan


def special_program(name: str, *shapes: tuple[int, ...]) -> bytes:
    """A program that applies one function to its inputs."""
    build = Assembly()
    inputs = [build.input(f"x{place}", DType.F32, shape) for place, shape in enumerate(shapes)]
    number = _native.functions("special")[name]
    build.output("y", build.op("special", inputs, (DType.F32, shapes[0]), attributes=(number,))[0])
    return build.program()


def special(name: str, *operands: Floats) -> Floats:
    """What the kernel answers."""
    (y,) = load(special_program(name, *(operand.shape for operand in operands)))(*operands)
    return np.asarray(y)


def numbers(low: float, high: float) -> Floats:
    """Numbers of a range, evenly and by size."""
    random = np.random.default_rng(29)
    evenly = random.uniform(low, high, 4000)
    small = 10 ** random.uniform(-30, 0, 500) * np.sign(evenly[:500])
    made = np.concatenate([evenly, small]).astype(np.float32)
    return made[(made >= low) & (made <= high)]


def _trigamma(x: "NDArray[np.float64]") -> "NDArray[np.float64]":
    mirrored = math.pi**2 / np.sin(math.pi * x) ** 2 - exact.polygamma(1, 1 - np.minimum(x, 0.5))
    return np.asarray(np.where(x < 0.5, mirrored, exact.polygamma(1, np.maximum(x, 0.5))), np.float64)


FUNCTIONS: Mapping[str, tuple[float, float, Callable[[Any], Any]]] = {
    "lgamma": (0, 1000, exact.gammaln),
    "digamma": (0, 1000, exact.psi),
    "trigamma": (-20, 100, _trigamma),
    "erfinv": (-1, 1, exact.erfinv),
    "erfcx": (-9, 50, exact.erfcx),
    "ndtri": (0, 1, exact.ndtri),
    "log_ndtr": (-50, 12, exact.log_ndtr),
    "i0": (-88, 88, exact.i0),
    "i1": (-88, 88, exact.i1),
    "i0e": (-1000, 1000, exact.i0e),
    "i1e": (-1000, 1000, exact.i1e),
    "k0": (0, 85, exact.k0),
    "k1": (0, 85, exact.k1),
    "k0e": (0, 1000, exact.k0e),
    "k1e": (0, 1000, exact.k1e),
    "j0": (-11, 11, exact.j0),
    "j1": (-11, 11, exact.j1),
    "y0": (0, 11, exact.y0),
    "y1": (0, 11, exact.y1),
    "spherical_j0": (-200, 200, lambda x: np.where(x == 0, 1, np.sin(x) / np.where(x == 0, 1, x))),
}
"""Over a range of arguments, where scipy's own error is far below the bound."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_is_rounded_from_nearly_the_exact_value(name: str) -> None:
    """Half a unit in the last place; near zeros of J and Y, where scipy loses digits, as near as its digits say."""
    low, high, formula = FUNCTIONS[name]
    x = numbers(low, high)
    with np.errstate(all="ignore"):
        expected = formula(x.astype(np.float64))
    ours = special(name, x)
    kept = np.abs(expected) < 3e38
    assert np.allclose(ours[kept], expected[kept], rtol=1e-6, atol=1e-12)
    kept &= np.abs(expected) > 1e-3
    assert ulps(ours[kept], expected[kept]).max() <= (0.6 if name == "trigamma" else BOUND)


def test_waves_of_large_arguments_keep_their_digits() -> None:
    """J and Y where an angle of float32's own precision would be meaningless."""
    x = np.float32(10.0) ** np.linspace(1.1, 8, 500, dtype=np.float32)
    for name in ("j0", "j1", "y0", "y1"):
        expected = getattr(exact, name)(x.astype(np.float64))
        assert np.abs(special(name, x) - expected).max() < 1e-7 * np.sqrt(0.64 / x.min()), name


def test_gamma_below_zero_follows_the_reflection() -> None:
    """Away from its poles, and from the zeros that lie beside them."""
    x = -numbers(0, 20)
    x = x[(np.abs(x - np.rint(x)) > 1e-3) & (np.abs(x) > 1e-6)]
    assert np.allclose(special("lgamma", x), exact.gammaln(x.astype(np.float64)), rtol=1e-6, atol=1e-6)
    assert np.allclose(special("digamma", x), exact.psi(x.astype(np.float64)), rtol=1e-6, atol=1e-6)


def test_zeta_of_pairs() -> None:
    """Small and large exponents and offsets; sums that end early."""
    random = np.random.default_rng(3)
    x = random.uniform(1.01, 60, 4000).astype(np.float32)
    q = random.uniform(0.01, 80, 4000).astype(np.float32)
    expected = exact.zeta(x.astype(np.float64), q.astype(np.float64))
    assert ulps(special("zeta", x, q), expected).max() <= BOUND
    poles = special(
        "zeta",
        np.array([1, 0.5, 2, 2, 2.5, 2, 3], np.float32),
        np.array([2, 2, -1, -300.5, -0.5, NAN, -0.5], np.float32),
    )
    assert np.array_equal(poles[:6], np.array([INF, NAN, INF, NAN, NAN, NAN], np.float32), equal_nan=True)
    assert poles[6] == pytest.approx(-8 + exact.zeta(3, 0.5), rel=1e-6)


def test_special_values_are_those_of_torch() -> None:
    """Poles, infinities and NaN of every function."""
    points = np.array([0.0, -0.0, 1.0, -1.0, -2.0, INF, -INF, NAN], np.float32)
    expected = {
        "lgamma": (INF, INF, 0, INF, INF, INF, INF, NAN),
        "digamma": (-INF, INF, -0.5772157, NAN, NAN, INF, NAN, NAN),
        "erfinv": (0, -0.0, INF, -INF, NAN, NAN, NAN, NAN),
        "erfcx": (1, 1, 0.42758358, 5.0089801, 108.94090, 0, INF, NAN),
        "ndtri": (-INF, -INF, INF, NAN, NAN, NAN, NAN, NAN),
        "log_ndtr": (-0.6931472, -0.6931472, -0.17275378, -1.841022, -3.7831843, 0, -INF, NAN),
        "i0": (1, 1, 1.2660659, 1.2660659, 2.2795853, NAN, NAN, NAN),
        "i0e": (1, 1, 0.4657596, 0.4657596, 0.3085083, 0, 0, NAN),
        "k0": (INF, INF, 0.42102444, NAN, NAN, 0, NAN, NAN),
        "j0": (1, 1, 0.76519769, 0.76519769, 0.22389078, NAN, NAN, NAN),
        "y0": (-INF, -INF, 0.08825697, NAN, NAN, NAN, NAN, NAN),
        "spherical_j0": (1, 1, 0.84147098, 0.84147098, 0.45464871, 0, 0, NAN),
    }
    for name, values in expected.items():
        assert np.allclose(special(name, points), np.array(values, np.float32), rtol=3e-7, equal_nan=True), name


def test_bits_come_back_and_a_foreign_nan_becomes_the_canonical_one() -> None:
    """Float32 to int32 keeps every bit; int32 to float32 all but the payloads of NaN."""
    bits = np.array([0, -1, 0x7F800000, 0x7F800001, -0x80000000, 0x3F800000, 1], np.int32)
    build = Assembly()
    x = build.input("x", DType.I32, bits.shape)
    (y,) = build.op("bitcast", [x], (DType.F32, bits.shape))
    (back,) = build.op("bitcast", [y], (DType.I32, bits.shape))
    build.output("back", back)
    nan = 0x7FC00000
    assert load(build.program())(bits)[0].tolist() == [0, nan, 0x7F800000, nan, -0x80000000, 0x3F800000, 1]


def test_other_counts_of_operands_and_types_are_refused() -> None:
    """A second operand where the function has one, none where it has two, and casts between sizes."""
    for name, shapes in (("lgamma", ((2,), (2,))), ("zeta", ((2,),)), ("zeta", ((2,), (1,)))):
        with pytest.raises(ProgramError):
            load(special_program(name, *shapes))
    build = Assembly()
    build.output("y", build.op("bitcast", [build.input("x", DType.F32, (2,))], (DType.I64, (2,)))[0])
    with pytest.raises(ProgramError, match="8 bytes"):
        load(build.program())
